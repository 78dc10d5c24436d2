"""Actions on one run or on all that match a filter: replay, cancel, discard."""

import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from hourbell.cli.run.ids import RunPart, run_id
from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.output import json_line, json_text
from hourbell.cli.shared.parameters import JOB, RUN, instant, zone_option
from hourbell.cli.shared.remote import CONFLICT, complain, confirm, report_error, server_options

if TYPE_CHECKING:
    from hourbell.client import BulkResult, Client

Function = Callable[..., None]

STATES = click.Choice(["pending", "running", "retrying", "succeeded", "failed", "cancelled"])
_ENDLESS = 10_000  # calls of up to a thousand runs each


@dataclass(frozen=True, slots=True)
class Runs:
    """A selection of runs: by id, or all that match a filter."""

    ids: tuple[UUID, ...]
    filter: dict[str, Any]
    yes: bool
    dry_run: bool

    def act(self, client: "Client", verb: str, as_json: bool, **options: Any) -> int:
        """Replay, cancel or discard the runs. Returns the exit code of the first refusal, or 0."""
        if self.ids:
            return _each(client, self.ids, getattr(client.runs, verb), as_json)
        counted: BulkResult = getattr(client.runs, f"preview_{verb}_all")(**self.filter)
        if self.dry_run and as_json:
            click.echo(json_text(counted.raw))
        if not counted.matched:
            click.echo(f"there is no run to {verb}", err=True)
            return 0
        more = " or more" if counted.has_more else ""
        count = "1 run" if counted.matched == 1 and not more else f"{counted.matched}{more} runs"
        click.echo(f"{count} to {verb}", err=True)
        if self.dry_run:
            return 0
        confirm(f"{verb} {count}", yes=self.yes)
        status = 0
        act_on_all = functools.partial(getattr(client.runs, f"{verb}_all"), **self.filter, **options)
        for result in _until_done(act_on_all):
            if as_json:
                click.echo(json_text(result.raw))
            for done in () if as_json else result.done:
                click.echo(done.new_run_id or done.run_id)
            for refused in result.refused:
                complain(f"{refused.run_id}: {refused.message}")
                status = CONFLICT
        return status


_fingerprint_option = click.option(
    "--fingerprint", metavar="TEXT", help="Instead of ids: exactly the failed runs of this group of `run groups`."
)


def runs_options(function: Function) -> Function:
    """Add the ids, the filters, `--dry-run`, `--yes` and `--json`, passed to the function as `runs` and `as_json`."""

    @click.argument("ids", nargs=-1, type=RUN, metavar="[RUN]…")
    @click.option("--state", type=STATES, help="All runs in this state, instead of ids.")
    @click.option("--job", type=JOB, metavar="JOB", help="All runs of this job, instead of ids.")
    @click.option(
        "--since",
        metavar="TIME",
        help="All runs that ended or were scheduled since this time, instead of ids: 1h, RFC 3339.",
    )
    @click.option("--until", metavar="TIME", help="Only before this time: -1h, now, RFC 3339.")
    @click.option("--all", "is_all", is_flag=True, help="All runs, instead of ids.")
    @click.option("--dry-run", is_flag=True, help="Only count the matching runs; needs a filter instead of ids.")
    @click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
    @click.option("--json", "as_json", is_flag=True, help="Print the API's response.")
    @zone_option
    @functools.wraps(function)
    def call(
        client: "Client",
        ids: tuple[RunPart, ...],
        state: str | None,
        job: str | None,
        since: str | None,
        until: str | None,
        is_all: bool,
        dry_run: bool,
        yes: bool,
        zone: str,
        fingerprint: str | None = None,  # only of commands on failed runs
        **given: Any,
    ) -> None:
        chosen = {
            "state": state,
            "job": job,
            "since": instant(since, zone, "--since", "ago"),
            "until": instant(until, zone, "--until", "ago"),
            "everything": is_all,
        }
        if fingerprint is not None:
            chosen["fingerprint"] = fingerprint
        by_filter = any(chosen.values())
        if bool(ids) == by_filter:
            raise click.UsageError("Name runs by their ids, or choose them by --state, --job, --since or --all.")
        if ids and dry_run:
            raise click.UsageError("--dry-run counts what a filter matches; leave it out, or the ids.")
        found = tuple(run_id(client, each) for each in ids)
        function(client, runs=Runs(found, chosen, yes, dry_run), **given)

    return call


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell run replay 5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e
    hourbell run replay --state failed --since 1h --dry-run
    hourbell run replay --state failed --since 1h --yes
    hourbell run replay --job nightly-report --per-minute 60
    hourbell run replay --fingerprint 5f0c1d2e3a4b5c6d --per-minute 60
    """,
)
@_fingerprint_option
@click.option(
    "--per-minute", type=click.IntRange(1), help="With a filter: the number of replays that become ready per minute."
)
@server_options
@runs_options
def replay(client: "Client", runs: Runs, per_minute: int | None, as_json: bool) -> None:
    """Run failed runs again, with their payload and the job's current target. Prints the new runs."""
    sys.exit(runs.act(client, "replay", as_json, per_minute=per_minute))


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell run cancel 5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e
    hourbell run cancel --job nightly-report --yes
    """,
)
@server_options
@runs_options
def cancel(client: "Client", runs: Runs, as_json: bool) -> None:
    """Cancel waiting runs, and ask the nodes of running ones to stop them. Prints their ids."""
    sys.exit(runs.act(client, "cancel", as_json))


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell run discard 5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e
    hourbell run discard --state failed --until -7d --yes
    """,
)
@_fingerprint_option
@server_options
@runs_options
def discard(client: "Client", runs: Runs, as_json: bool) -> None:
    """Remove failed runs from the dead letters. Their history stays. Prints their ids."""
    sys.exit(runs.act(client, "discard", as_json))


COMMANDS = (replay, cancel, discard)


def _each(client: "Client", ids: tuple[UUID, ...], act: Callable[[UUID], Any], as_json: bool) -> int:
    from hourbell.client import ApiError

    status = 0
    for run in ids:
        try:
            answer = act(run)
        except ApiError as error:
            code = report_error(error, client)
            status = status or code
            continue
        if as_json and answer is not None:
            click.echo(json_line(answer.raw))
        elif not as_json:
            click.echo(answer.run_id if answer is not None else run)
    return status


def _until_done(act: Callable[[], "BulkResult"]) -> "Iterator[BulkResult]":
    """Repeat the bulk call until no runs are left or a call changes nothing."""
    for _ in range(_ENDLESS):
        result = act()
        yield result
        if not result.has_more or not result.done:
            return
