"""`hourbell db`: migrate the schema, show pending migrations and their SQL, and prune old history."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hourbell.cli.local.database import FAILED, ask, database_option, json_option, settings_for
from hourbell.cli.local.db_prune import prune
from hourbell.cli.shared.command import ExampleCommand, ExampleGroup
from hourbell.cli.shared.progress import Progress
from hourbell.settings import Settings

if TYPE_CHECKING:
    from hourbell.store.migrations import Migration


@click.group(
    cls=ExampleGroup,
    examples="""
    hourbell db status
    hourbell db sql --pending | less
    hourbell db migrate --database-url postgresql://hourbell@db.example.com/hourbell
    """,
)
def command() -> None:
    """Manage the database: migrate its schema, show pending migrations, remove old history."""


command.add_command(prune)


@command.command(
    cls=ExampleCommand,
    examples="""
    hourbell db migrate
    hourbell db migrate --database-url sqlite:////var/lib/hourbell/hourbell.db
    """,
)
@database_option
@json_option
def migrate(database_url: str | None, as_json: bool) -> None:
    """Migrate the schema to this release, and list the applied migrations. Many nodes may do so at once."""
    settings = settings_for(database_url)
    with Progress("migrating the schema"):
        done = ask(settings, _migrate(settings))
    if as_json:
        _print_json([_row(migration, applied=True) for migration in done])
        return
    for migration in done:
        click.echo(f"{_title(migration)}  applied")
    if not done:
        click.echo(f"the schema is up to date: {settings.database}", err=True)


@command.command(
    cls=ExampleCommand,
    examples="""
    hourbell db status
    hourbell db status --json || hourbell db migrate
    """,
)
@database_option
@json_option
def status(database_url: str | None, as_json: bool) -> None:
    """List every migration, applied or pending. The exit code is 1 if some are pending."""
    settings = settings_for(database_url)
    found = ask(settings, _status(settings))
    if as_json:
        _print_json([_row(migration, applied=applied) for migration, applied in found])
    else:
        width = max(len(_title(migration)) for migration, _ in found)
        for migration, applied in found:
            click.echo(f"{_title(migration):{width}}  {'applied' if applied else 'pending'}")
    pending = sum(not applied for _, applied in found)
    if pending:
        click.echo(f"{pending} pending; run: hourbell db migrate", err=True)
        sys.exit(FAILED)


@command.command(
    cls=ExampleCommand,
    examples="""
    hourbell db sql | less
    hourbell db sql --pending --database-url postgresql://hourbell@db.example.com/hourbell
    """,
)
@database_option
@click.option("--pending", is_flag=True, help="Only pending migrations.")
def sql(database_url: str | None, pending: bool) -> None:
    """Print the SQL of the migrations for review. `hourbell db migrate` runs and records it."""
    settings = settings_for(database_url)
    if pending:
        wanted = [migration for migration, applied in ask(settings, _status(settings)) if not applied]
    else:
        wanted = _known(settings)
    for migration in wanted:
        click.echo(f"-- migration {_title(migration)}, sha256 {migration.checksum}\n{migration.sql}")
    if not wanted:
        click.echo(f"the schema is up to date: {settings.database}", err=True)


@command.command(
    cls=ExampleCommand,
    examples="""
    HOURBELL_SECRET_KEY=$NEW,$OLD hourbell db rotate-keys
    """,
)
@database_option
def rotate_keys(database_url: str | None) -> None:
    """Seal the secrets of all jobs with the first key of HOURBELL_SECRET_KEY. Nodes may keep running.

    Give every node both keys first, the new one in front; afterwards you can remove the old one.
    """
    settings = settings_for(database_url)
    count = ask(settings, _rotate_keys(settings))
    click.echo(f"{count} {'secret' if count == 1 else 'secrets'} resealed", err=True)


async def _rotate_keys(settings: Settings) -> int:
    from hourbell.store.control.actor import Actor
    from hourbell.wiring import open_secrets

    async with open_secrets(settings) as (secrets, now):
        return await secrets.rotate_keys(Actor("cli", now))


async def _migrate(settings: Settings) -> "list[Migration]":
    from hourbell.wiring import open_stores

    stores = open_stores(settings)
    try:
        return await stores.migrate()
    finally:
        await stores.close()


async def _status(settings: Settings) -> "list[tuple[Migration, bool]]":
    """List every migration and whether it was applied. A missing SQLite file is not created."""
    from hourbell.wiring import open_stores

    if settings.database.kind == "sqlite" and not Path(settings.database.location).exists():
        return [(migration, False) for migration in _known(settings)]
    stores = open_stores(settings)
    try:
        return await stores.status()
    finally:
        await stores.close()


def _known(settings: Settings) -> "list[Migration]":
    from hourbell.store.migrations import load_migrations

    return load_migrations(f"hourbell.store.{'sqlite' if settings.database.kind == 'sqlite' else 'postgres'}")


def _title(migration: "Migration") -> str:
    return f"{migration.number:04}_{migration.name}"


def _row(migration: "Migration", *, applied: bool) -> dict[str, object]:
    return {"number": migration.number, "name": migration.name, "applied": applied}


def _print_json(body: object) -> None:
    click.echo(json.dumps(body, indent=2))
