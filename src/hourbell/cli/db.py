"""`hourbell db`: bring the schema up to date, and see what that means before."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click

from hourbell.cli.command import ExampleCommand, ExampleGroup
from hourbell.settings import Settings, SettingsError, load_settings

if TYPE_CHECKING:
    from hourbell.store.migrations import Migration

T = TypeVar("T")
Function = Callable[..., None]

FAILED = 1


def _database_option(function: Function) -> Function:
    return click.option(
        "--database-url", metavar="URL", help="postgresql://… or sqlite:///file.db, instead of DATABASE_URL."
    )(function)


def _json_option(function: Function) -> Function:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


@click.group(
    cls=ExampleGroup,
    examples="""
    hourbell db status
    hourbell db sql --pending | less
    hourbell db migrate --database-url postgresql://hourbell@db.example.com/hourbell
    """,
)
def command() -> None:
    """Bring the schema of the database up to date, or see what is to do."""


@command.command(
    cls=ExampleCommand,
    examples="""
    hourbell db migrate
    hourbell db migrate --database-url sqlite:////var/lib/hourbell/hourbell.db
    """,
)
@_database_option
@_json_option
def migrate(database_url: str | None, as_json: bool) -> None:
    """Bring the schema up to date, and list what was run. Many nodes may do so at once."""
    settings = _settings(database_url)
    done = _ask(settings, _migrate(settings))
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
@_database_option
@_json_option
def status(database_url: str | None, as_json: bool) -> None:
    """List every migration, applied or pending. Exit code 1 if some are pending."""
    settings = _settings(database_url)
    found = _ask(settings, _status(settings))
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
@_database_option
@click.option("--pending", is_flag=True, help="Only what the database has not seen yet.")
def sql(database_url: str | None, pending: bool) -> None:
    """Print the SQL of the migrations, for review. `hourbell db migrate` runs it and keeps a record."""
    settings = _settings(database_url)
    if pending:
        wanted = [migration for migration, applied in _ask(settings, _status(settings)) if not applied]
    else:
        wanted = _known(settings)
    for migration in wanted:
        click.echo(f"-- migration {_title(migration)}, sha256 {migration.checksum}\n{migration.sql}")
    if not wanted:
        click.echo(f"the schema is up to date: {settings.database}", err=True)


async def _migrate(settings: Settings) -> "list[Migration]":
    from hourbell.wiring import open_stores

    stores = open_stores(settings)
    try:
        return await stores.migrate()
    finally:
        await stores.close()


async def _status(settings: Settings) -> "list[tuple[Migration, bool]]":
    """Every migration, and whether it was run. A SQLite file that is not there is not made just to look at it."""
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


def _settings(database_url: str | None) -> Settings:
    try:
        return load_settings({"database_url": database_url})
    except SettingsError as error:
        _fail(str(error), exit_code=error.exit_code)


def _ask(settings: Settings, work: Coroutine[None, None, T]) -> T:
    """Run it; what the database refuses is told in words."""
    from asyncpg import PostgresError

    from hourbell.store.base import StoreUnavailable
    from hourbell.store.migrations import MigrationError

    try:
        return asyncio.run(work)
    except StoreUnavailable as error:
        origin = settings.origins["database_url"]
        which = "the default database URL" if origin == "default" else f"the database URL in {origin}"
        _fail(
            f"the database is out of reach: {settings.database}",
            str(error),
            f"check that it can be reached from here and that {which} is right",
        )
    except PostgresError as error:
        _fail(f"the database refuses: {settings.database}", str(error))
    except MigrationError as error:
        _fail(str(error))


def _fail(what: str, *more: str, exit_code: int = FAILED) -> NoReturn:
    click.echo(f"{click.style('error', fg='red')}: {what}", err=True)
    for line in more:
        click.echo(f"  {line}", err=True)
    sys.exit(exit_code)


def _title(migration: "Migration") -> str:
    return f"{migration.number:04}_{migration.name}"


def _row(migration: "Migration", *, applied: bool) -> dict[str, object]:
    return {"number": migration.number, "name": migration.name, "applied": applied}


def _print_json(body: object) -> None:
    click.echo(json.dumps(body, indent=2))
