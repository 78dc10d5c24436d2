"""PGQueuer on PostgreSQL: an asyncpg connection for each process, a thousand jobs at once, its log of jobs kept."""

import json
import sys
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from bench.queues.databases import PeerDatabase
from bench.queues.harness import Notes

_BATCH = 1_000


class Queue:
    name = "PGQueuer"
    storage = "PostgreSQL"
    how = f"asyncpg, uvloop, batch_size={_BATCH:,}"

    def __init__(self, database: PeerDatabase) -> None:
        self._database = database
        self.cpu = database.cpu
        self.release = database.release
        database.run(lambda connection: Queries(AsyncpgDriver(connection)).install())

    def command(self) -> tuple[list[str], dict[str, str]]:
        return [sys.executable, "-m", "bench.queues.pgqueuer", json.dumps({"url": self._database.url})], {}

    def hold(self, count: int) -> None:
        async def write(connection: Any) -> None:
            await Queries(AsyncpgDriver(connection)).enqueue(["noop"] * count, [None] * count, [0] * count)

        self._database.hold(write)

    def is_empty(self) -> bool:
        return not self._database.ask("select 1 from pgqueuer limit 1")


async def _main(url: str) -> None:
    connection = await asyncpg.connect(url)
    queuer, notes = PgQueuer(AsyncpgDriver(connection)), Notes()

    @queuer.entrypoint("noop")
    async def noop(_: Any) -> None:
        notes.call()

    await queuer.run(dequeue_timeout=timedelta(seconds=1), batch_size=_BATCH)


if __name__ == "__main__":
    uvloop.run(_main(**json.loads(sys.argv[1])))
