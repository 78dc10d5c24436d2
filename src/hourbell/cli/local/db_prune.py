"""`hourbell db prune`: remove old history now, in batches as the nodes do, while they run."""

import json
from datetime import timedelta

import click

from hourbell.cli.local.database import ask, database_option, json_option, must_exist, settings_for
from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.parameters import LENGTH
from hourbell.cli.shared.progress import Progress
from hourbell.cli.shared.remote import confirm
from hourbell.core.values.readers import show_duration
from hourbell.settings import Settings

_BATCH = 1_000


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell db prune
    hourbell db prune --older-than 7d --keep 5 --yes
    """,
)
@click.option(
    "--older-than",
    type=LENGTH,
    metavar="DURATION",
    help="Remove runs that ended before this time.  [default: HOURBELL_RETENTION]",
)
@click.option(
    "--keep", type=click.IntRange(0), help="The number of latest runs to keep per job.  [default: HOURBELL_KEEP_RUNS]"
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@database_option
@json_option
def prune(older_than: timedelta | None, keep: int | None, yes: bool, database_url: str | None, as_json: bool) -> None:
    """Remove runs that ended long ago. Nodes do so periodically; this does it now, and further if you ask.

    Waiting and running runs are never removed, and planning does not change. A one-shot job (at …) that has fired is
    removed with its last run.
    """
    settings = settings_for(database_url)
    must_exist(settings)
    age = settings.retention if older_than is None else older_than
    kept = settings.keep_runs if keep is None else keep
    confirm(f"remove runs older than {show_duration(age)}, keeping each job's last {kept}", yes=yes)
    with Progress("removing old runs", unit="removed") as progress:
        removed = ask(settings, _prune(settings, age, kept, progress))
    if as_json:
        click.echo(json.dumps({"removed": removed}))
    else:
        click.echo(f"removed {removed:,} {'run' if removed == 1 else 'runs'}", err=True)


async def _prune(settings: Settings, age: timedelta, keep: int, progress: Progress) -> int:
    from hourbell.store.migrations import MigrationError
    from hourbell.wiring import open_stores

    stores = open_stores(settings)
    try:
        if not all(applied for _, applied in await stores.status()):
            raise MigrationError("the schema is not up to date; run: hourbell db migrate")
        now, removed, mark, is_first = await stores.engine.sample_time(), 0, None, True
        while is_first or mark is not None:
            pruned = await stores.engine.prune(now, age, keep, _BATCH, mark)
            mark, is_first = pruned.mark, False
            removed += pruned.removed
            progress.add(pruned.removed)
        return removed
    finally:
        await stores.close()
