"""A user's program, in a process of its own: transactions of hourbell.sql on one driver, each committed or rolled back.

Standard input is JSON, `[{"commit": bool, "calls": [[function, argument, options], …]}, …]`.
"""

import asyncio
import json
import sqlite3
import sys
from collections.abc import Callable
from typing import Any

from hourbell import sql
from hourbell.sql import Statement

Build = Callable[[str, str], list[Statement]]


class RolledBack(Exception):
    """The user's own reason to give up."""


def with_psycopg(url: str, build: Build, *, commit: bool) -> None:
    import psycopg

    with psycopg.connect(url) as connection:
        for statement in build("postgresql", "pyformat"):
            connection.cursor().execute(*statement)
        if not commit:
            connection.rollback()


def with_psycopg_by_position(url: str, build: Build, *, commit: bool) -> None:
    import psycopg

    with psycopg.connect(url) as connection:
        for statement in build("postgresql", "format"):
            connection.cursor().execute(*statement)
        if not commit:
            connection.rollback()


def with_asyncpg(url: str, build: Build, *, commit: bool) -> None:
    import asyncpg

    async def transact() -> None:
        connection = await asyncpg.connect(url)
        async with connection.transaction():
            for statement in build("postgresql", "numeric_dollar"):
                await connection.execute(statement.text, *statement.parameters)
            if not commit:
                raise RolledBack

    asyncio.run(transact())


def with_sqlalchemy(url: str, build: Build, *, commit: bool) -> None:
    from sqlalchemy import create_engine, text
    from sqlalchemy.orm import Session

    is_sqlite = not url.startswith("postgresql://")
    engine = create_engine(f"sqlite:///{url}" if is_sqlite else url.replace("postgresql:", "postgresql+psycopg:"))
    with Session(engine) as session, session.begin():
        for statement in build("sqlite" if is_sqlite else "postgresql", "named"):
            session.execute(text(statement.text), statement.parameters)
        if not commit:
            raise RolledBack


def with_django(url: str, build: Build, *, commit: bool) -> None:
    import django
    from django.conf import settings

    is_sqlite = not url.startswith("postgresql://")
    if not settings.configured:
        settings.configure(DATABASES={"default": django_sqlite(url) if is_sqlite else django_postgresql(url)})
        django.setup()
    from django.db import connection, transaction

    with transaction.atomic(), connection.cursor() as cursor:
        for statement in build("sqlite" if is_sqlite else "postgresql", "pyformat"):
            cursor.execute(*statement)
        for statement in build("sqlite" if is_sqlite else "postgresql", "format"):
            cursor.execute(*statement)
        if not commit:
            raise RolledBack


def django_sqlite(path: str) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": path}


def django_postgresql(url: str) -> dict[str, Any]:
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(url)
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    return {"ENGINE": "django.db.backends.postgresql"} | {key: parts.get(part) or "" for key, part in names.items()}


def with_sqlite3(path: str, build: Build, *, commit: bool) -> None:
    connection = sqlite3.connect(path)
    for statement in build("sqlite", "qmark"):
        connection.execute(*statement)
    connection.commit() if commit else connection.rollback()
    connection.close()


DRIVERS: dict[str, Callable[..., None]] = {
    "psycopg": with_psycopg,
    "psycopg-by-position": with_psycopg_by_position,
    "asyncpg": with_asyncpg,
    "sqlalchemy": with_sqlalchemy,
    "django": with_django,
    "sqlite3": with_sqlite3,
}


def main(driver: str, url: str) -> None:
    for each in json.load(sys.stdin):

        def build(dialect: str, paramstyle: str, calls: list[Any] = each["calls"]) -> list[Statement]:
            return [
                getattr(sql, function)(argument, dialect=dialect, paramstyle=paramstyle, **options)
                for function, argument, options in calls
            ]

        try:
            DRIVERS[driver](url, build, commit=each["commit"])
        except RolledBack:
            assert not each["commit"]


if __name__ == "__main__":
    main(*sys.argv[1:])
