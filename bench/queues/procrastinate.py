"""Procrastinate on PostgreSQL: psycopg 3, many jobs at once in each process, woken by notifications, jobs kept."""

import asyncio
import json
import sys

import procrastinate

from bench.queues.databases import PeerDatabase
from bench.queues.harness import Notes

_AT_ONCE = 20


class Queue:
    name = "Procrastinate"
    storage = "PostgreSQL"
    how = f"psycopg 3, concurrency={_AT_ONCE}, as many connections"

    def __init__(self, database: PeerDatabase) -> None:
        self._database = database
        self.cpu = database.cpu
        self.release = database.release
        asyncio.run(_make_tables(database.url))

    def command(self) -> tuple[list[str], dict[str, str]]:
        return [sys.executable, "-m", "bench.queues.procrastinate", json.dumps({"url": self._database.url})], {}

    def hold(self, count: int) -> None:
        statement = f"""insert into procrastinate_jobs (queue_name, task_name)
        select 'default', 'noop' from generate_series(1, {count})"""
        self._database.hold(lambda connection: connection.execute(statement))

    def is_empty(self) -> bool:
        return not self._database.ask("select 1 from procrastinate_jobs where status in ('todo', 'doing') limit 1")


async def _make_tables(url: str) -> None:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def _main(url: str) -> None:
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=_AT_ONCE, max_size=_AT_ONCE + 2)
    app, notes = procrastinate.App(connector=connector), Notes()

    @app.task(name="noop")
    async def noop() -> None:
        notes.call()

    async with app.open_async():
        await app.run_worker_async(concurrency=_AT_ONCE, listen_notify=True, install_signal_handlers=True)


if __name__ == "__main__":
    asyncio.run(_main(**json.loads(sys.argv[1])))
