"""`hourbell run`: the runs that failed, and running them again."""

import json
import sys
from uuid import UUID, uuid4

import click

from hourbell.cli.command import ExampleCommand, ExampleGroup
from hourbell.cli.database import FAILED, USAGE, ask, database_option, fail, json_option, must_exist, settings_for
from hourbell.settings import Settings
from hourbell.store.base import Conflict, FailedRun

BY = "cli"
_MOST = 10_000


@click.group(
    cls=ExampleGroup,
    examples="""
    hourbell run failed
    hourbell run replay 5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e
    hourbell run failed --json | jq -r '.[].id' | xargs hourbell run replay
    """,
)
def command() -> None:
    """The dead letters: list the runs that failed, and run them again. Works on the database directly."""


@command.command(cls=ExampleCommand, examples="hourbell run failed -n 100")
@click.option(
    "-n", "--number", type=click.IntRange(1, _MOST), default=20, help="How many, newest first.  [default: 20]"
)
@database_option
@json_option
def failed(number: int, database_url: str | None, as_json: bool) -> None:
    """List the runs that failed, newest first, with what was said last."""
    settings = settings_for(database_url)
    must_exist(settings)
    runs = ask(settings, _failed(settings, number))
    if as_json:
        click.echo(json.dumps([_body(run) for run in runs], indent=2, ensure_ascii=False))
        return
    for run in runs:
        said = " ".join((run.error or "").split())[:120]
        words = "".join(char if char.isprintable() else "�" for char in said)
        click.echo(
            f"{run.id}  {run.finished_at:%Y-%m-%d %H:%M:%SZ}  {run.job_name or '(deleted)'}  {run.reason}  {words}"
        )
    if not runs:
        click.echo("no run has failed", err=True)


@command.command(cls=ExampleCommand, examples="hourbell run replay 5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e")
@click.argument("runs", nargs=-1, required=True, metavar="RUN…")
@database_option
def replay(runs: tuple[str, ...], database_url: str | None) -> None:
    """Run again what has ended or waits, with its payload and the job's target as it is now. Prints the new runs."""
    ids = []
    for text in runs:
        try:
            ids.append(UUID(text))
        except ValueError:
            fail(f"{text[:40]!r} is not the id of a run; `hourbell run failed` lists them", exit_code=USAGE)
    settings = settings_for(database_url)
    must_exist(settings)
    refused = ask(settings, _replay(settings, ids))
    if refused:
        sys.exit(FAILED)


async def _failed(settings: Settings, number: int) -> list[FailedRun]:
    from hourbell.wiring import open_stores

    stores = open_stores(settings)
    try:
        return await stores.control.failed_runs(number)
    finally:
        await stores.close()


async def _replay(settings: Settings, ids: list[UUID]) -> int:
    """Replay each; how many could not be."""
    from hourbell.wiring import open_stores

    stores = open_stores(settings)
    refused = 0
    try:
        now = await stores.engine.sample_time()
        for run_id in ids:
            try:
                run = await stores.control.replay_run(run_id, uuid4(), now, BY)
            except Conflict as conflict:
                click.echo(f"{click.style('error', fg='red')}: {run_id}: {conflict}", err=True)
                refused += 1
            else:
                click.echo(run.id)
    finally:
        await stores.close()
    return refused


def _body(run: FailedRun) -> dict[str, object]:
    return {
        "id": str(run.id),
        "job_id": str(run.job_id),
        "job_name": run.job_name,
        "scheduled_at": run.scheduled_at.isoformat(),
        "finished_at": run.finished_at.isoformat(),
        "reason": run.reason,
        "attempt": run.attempt,
        "error": run.error,
    }
