"""The candidates of lateness, as far as this machine has what they need."""

import asyncio
import sys
from contextlib import ExitStack
from pathlib import Path

import procrastinate
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from bench.queues.databases import PeerDatabase
from bench.queues.interpreters import NO_APSCHEDULER_4, NO_CELERY, for_apscheduler_4, for_celery
from bench.queues.redis_server import redis_server
from bench.sizes import given
from bench.timers.harness import Timer

_ALL = "bare,apscheduler3,apscheduler4,celery,procrastinate,pgqueuer"
_MINUTE = 60


def peers(server: tuple[str, int | None] | None, folder: Path, stack: ExitStack, notes: list[str]) -> list[Timer]:
    chosen = given("peers", _ALL).split(",")
    found: list[Timer] = []

    def database() -> PeerDatabase:
        assert server is not None
        made = PeerDatabase(*server)
        stack.callback(made.drop)
        return made

    if "bare" in chosen:
        found += [Timer(f"bare timer of {loop}", "–", _here("bare"), url=loop) for loop in ("uvloop", "asyncio")]
    if "apscheduler3" in chosen:
        found.append(Timer("APScheduler 3", "memory", _here("apscheduler3")))
    if "apscheduler3" in chosen and server is not None:
        url = database().url.replace("postgresql://", "postgresql+psycopg://")
        found.append(Timer("APScheduler 3", "PostgreSQL", _here("apscheduler3"), url))
    if "apscheduler4" in chosen and server is not None:
        if (able := for_apscheduler_4()) is None:
            notes.append(NO_APSCHEDULER_4)
        else:
            found.append(Timer("APScheduler 4", "PostgreSQL", _by(able, "apscheduler4"), database().url))
    if "procrastinate" in chosen and server is not None:
        made = database()
        asyncio.run(_make_tables(made.url))
        found.append(Timer("Procrastinate", "PostgreSQL", _here("procrastinate"), made.url))
    if "celery" in chosen:
        if (able := for_celery()) is None:
            notes.append(NO_CELERY)
        else:
            url, _ = stack.enter_context(redis_server(folder))
            found.append(Timer("Celery beat", "Redis", _by(able, "celery"), url, _MINUTE))
    if "pgqueuer" in chosen and server is not None:
        made = database()
        made.run(lambda connection: Queries(AsyncpgDriver(connection)).install())
        found.append(Timer("PGQueuer", "PostgreSQL", _here("pgqueuer"), made.url, _MINUTE))
    return found


def _here(module: str) -> tuple[str, ...]:
    return _by(sys.executable, module)


def _by(interpreter: str, module: str) -> tuple[str, ...]:
    return interpreter, "-m", f"bench.timers.{module}"


async def _make_tables(url: str) -> None:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
