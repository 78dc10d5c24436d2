"""Which jobs an action is for: those that are named, or all that a filter matches, after their count was confirmed."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.output import Output, View
from hourbell.cli.parameters import JOB
from hourbell.cli.remote import confirm, tell

if TYPE_CHECKING:
    from hourbell.client import Client

Function = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Selection:
    names: tuple[str, ...]
    tag: str | None
    is_all: bool
    yes: bool

    def jobs(self, client: "Client", verb: str, is_meant: Callable[[Any], bool] = lambda _: True) -> tuple[str, ...]:
        """Names, or the ids of what matches and is meant, once somebody has confirmed them."""
        if self.names:
            return self.names
        found = [job for job in client.jobs.list(tag=self.tag) if is_meant(job)]
        if not found:
            click.echo(f"there is no job to {verb}", err=True)
            return ()
        which = f" tagged {self.tag}" if self.tag else ""
        few = ", ".join(job.name for job in found[:5])
        more = ", …" if len(found) > 5 else ""
        count = "1 job" if len(found) == 1 else f"{len(found)} jobs"
        click.echo(f"{count}{which}: {few}{more}", err=True)
        confirm(f"{verb} {count}", yes=self.yes)
        return tuple(str(job.id) for job in found)


def selection_options(function: Function) -> Function:
    """Adds the names, `--tag`, `--all` and `--yes`, which come as one `selection`."""

    @click.argument("jobs", nargs=-1, type=JOB, metavar="[JOB]…")
    @click.option("--tag", metavar="TAG", help="Instead of names: all jobs with this tag.")
    @click.option("--all", "is_all", is_flag=True, help="Instead of names: all jobs.")
    @click.option("--yes", "-y", is_flag=True, help="Do not ask.")
    @functools.wraps(function)
    def call(*args: Any, jobs: tuple[str, ...], tag: str | None, is_all: bool, yes: bool, **given: Any) -> None:
        if (bool(jobs), tag is not None, is_all).count(True) != 1:
            raise click.UsageError("Name jobs, or choose them by --tag or --all.")
        function(*args, selection=Selection(jobs, tag, is_all, yes), **given)

    return call


def act_on_each(client: "Client", jobs: tuple[str, ...], act: Callable[[str], Any]) -> tuple[list[Any], int]:
    """What came of each, and the exit code: that of the first refusal. One that is refused keeps no other out."""
    from hourbell.client import ApiError

    done, status = [], 0
    for job in jobs:
        try:
            done.append(act(job))
        except ApiError as error:
            code = tell(error, client, job=job)
            status = status or code
    return done, status


def show_each(done: list[Any], output: Output, view: View, lines: Callable[[Any], list[str]], *, was_one: bool) -> None:
    """One answer as it is if one job was named, and else all as a list."""
    if was_one and done:
        output.one(done[0], view, lines(done[0]))
    elif done:
        output.items(done, view, {"items": [item.raw for item in done]})
