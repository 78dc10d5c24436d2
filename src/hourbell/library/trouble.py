"""Messages of a process that cannot start or cannot reach its database: what is wrong, why, and what to do."""

from pathlib import Path
from typing import NamedTuple

from hourbell.settings import DEFAULT, FILE, Settings, masked
from hourbell.store.errors import FunctionLoginRefused, StoreLost, StoreReadOnly, StoreUnwritable

_NO_DATABASE = "file is not a database"  # the error text of SQLite


class Trouble(NamedTuple):
    what: str
    why: str
    advice: str


def with_database(settings: Settings, error: Exception) -> Trouble:
    """Explain why the database cannot be reached or used. The caller names the database."""
    source = _source_of(settings, "database_url")
    if isinstance(error, StoreReadOnly):
        return Trouble("the database is read-only", error.why, error.advice)
    why = str(error).removeprefix(f"{settings.database}: ")
    if settings.database.kind == "postgresql":
        advice = f"check that it can be reached from here and that the database URL in {source} is right"
        return Trouble("the database is unreachable", why, advice)
    if _NO_DATABASE in why:
        return Trouble(
            "the database cannot be used", "the file is not a SQLite database", f"name another one in {source}"
        )
    if isinstance(error, StoreLost):
        advice = f"restore {settings.database}, or remove what is left of it, and start again"
        return Trouble("the database is lost", why, advice)
    if isinstance(error, StoreUnwritable):
        return Trouble("the database cannot be written", why, f"fix that, or name another file in {source}")
    why, advice = _of_file(Path(settings.database.location), why)
    return Trouble("the database is unreachable", why, f"{advice}, or name another file in {source}")


def with_functions(settings: Settings, error: Exception) -> Trouble:
    """Explain why the separate login for functions cannot be reached or used."""
    source, shown = _source_of(settings, "sql_database_url"), masked(settings.sql_database_url or "")
    if isinstance(error, FunctionLoginRefused):
        why, _, advice = str(error).partition("; ")
        return Trouble(f"{source} cannot be used ({shown})", why, advice)
    advice = f"check that it can be reached from here and that the URL in {source} is right"
    return Trouble(f"the database is unreachable with the login of functions ({shown})", str(error), advice)


def with_address(settings: Settings, error: Exception) -> Trouble:
    """Explain why the server cannot listen on its address."""
    advice = f"choose another address in {_source_of(settings, 'http_addr')}, as in 127.0.0.1:8081"
    return Trouble(f"cannot listen on {settings.http_addr}", str(error), advice)


def _of_file(file: Path, why: str) -> tuple[str, str]:
    if not file.parent.is_dir():
        return f"there is no folder {file.parent}", "create it"
    if not file.exists():
        return "the file does not exist and could not be created", "make sure that this user may write to its folder"
    return why, "make sure that this user may read and write it and its folder, and that the disk has space"


def _source_of(settings: Settings, name: str) -> str:
    """Return where to change a setting: the place it was set, or else its environment variable."""
    origin = settings.origins[name]
    if origin == DEFAULT:
        return name.upper()
    return f"{name} in {FILE}" if origin == FILE else origin
