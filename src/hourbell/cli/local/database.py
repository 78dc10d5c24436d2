"""Code shared by commands that work on the database directly: options, settings and error reports."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import NoReturn, TypeVar

import click

from hourbell.settings import Settings, SettingsError, load_settings

T = TypeVar("T")
Function = Callable[..., None]

FAILED, USAGE, NOT_FOUND, CONFLICT = 1, 2, 3, 5


def database_option(function: Function) -> Function:
    return click.option(
        "--database-url", metavar="URL", help="postgresql://… or sqlite:///file.db, instead of DATABASE_URL."
    )(function)


def json_option(function: Function) -> Function:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def settings_for(database_url: str | None) -> Settings:
    try:
        return load_settings({"database_url": database_url})
    except SettingsError as error:
        fail(str(error), exit_code=error.exit_code)


def ask(settings: Settings, work: Coroutine[None, None, T]) -> T:
    """Run the coroutine. Errors of the database are printed with advice and end the process."""
    from asyncpg import PostgresError

    from hourbell.control.secrets import WrongKeys
    from hourbell.library import trouble
    from hourbell.sealing import CannotOpen
    from hourbell.store.errors import Conflict, StoreUnavailable
    from hourbell.store.migrations import MigrationError

    try:
        return asyncio.run(work)
    except StoreUnavailable as error:
        what, why, advice = trouble.with_database(settings, error)
        fail(f"{what}: {settings.database}", why, advice)
    except PostgresError as error:
        fail(f"the database refuses: {settings.database}", str(error))
    except MigrationError as error:
        fail(str(error))
    except Conflict as error:
        fail(str(error), exit_code=NOT_FOUND if error.code.startswith("no_such_") else CONFLICT)
    except (SettingsError, WrongKeys, CannotOpen) as error:
        fail(str(error), exit_code=USAGE)


def must_exist(settings: Settings) -> None:
    """Exit with an error if the SQLite file is missing, so that a wrong folder does not create a new database."""
    database = settings.database
    if database.kind == "sqlite" and not Path(database.location).exists():
        fail(f"there is no database {database}", "go to its folder, or name it by --database-url or DATABASE_URL")


def fail(what: str, *more: str, exit_code: int = FAILED) -> NoReturn:
    click.echo(f"{click.style('error', fg='red')}: {what}", err=True)
    for line in more:
        click.echo(f"  {line}", err=True)
    sys.exit(exit_code)
