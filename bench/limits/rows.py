"""Claiming and settling alone: the rows a node writes for each webhook, by the store's own statements and nothing else.

There is no lease to renew, no secret or definition to read, no value of ours to make of a row: only arrays in and out.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import apsw
import asyncpg
import uvloop

from hourbell.store.sql.queries import load_queries

_NODE = UUID(int=1)
_LEASE = timedelta(seconds=60)
_RANK = 1
_SUSPECT_AFTER = 2
_EXCERPT = "Content-Type: text/plain\nContent-Length: 2\n\nok"
_PHASES = json.dumps({"dns": 1.2345e-05, "wait": 0.0123456789, "read": 2.3456e-05})
_IN_FLIGHT = 2  # batches that are claimed and not settled


class Postgres:
    """One connection claims while another settles, with Hourbell's own settings."""

    def __init__(self, url: str, lanes: list[str], batch: int) -> None:
        self._url = url
        self._lanes = lanes
        self._batch = batch
        self._sql = load_queries("hourbell.store.postgres", "engine.sql")

    async def run(self, ready: Callable[[], None]) -> float:
        settings = {"enable_bitmapscan": "off", "jit": "off", "random_page_cost": "1.1"}
        claiming = await asyncpg.connect(self._url, server_settings=settings)
        settling = await asyncpg.connect(self._url, server_settings=settings)
        claim = await claiming.prepare(self._sql["claim"])
        settle = await settling.prepare(self._sql["settle"])
        ready()
        start = time.perf_counter()
        runs: asyncio.Queue[list[Any]] = asyncio.Queue(_IN_FLIGHT)
        await asyncio.gather(self._claim(claim, runs), self._settle(settle, settling, runs))
        seconds = time.perf_counter() - start
        await claiming.close()
        await settling.close()
        return seconds

    async def _claim(self, claim: Any, runs: asyncio.Queue[list[Any]]) -> None:
        lanes = len(self._lanes)
        demands = [self._lanes, [self._batch // lanes] * lanes, [0] * lanes]
        while True:
            now = datetime.now(UTC)
            rows = await claim.fetch(*demands, now, _NODE, now + _LEASE, _SUSPECT_AFTER)
            await runs.put(rows)
            if not rows:
                return

    async def _settle(self, settle: Any, connection: Any, runs: asyncio.Queue[list[Any]]) -> None:
        while rows := await runs.get():
            count, now = len(rows), datetime.now(UTC)
            none, zeros = [None] * count, [0] * count
            rows.sort(key=lambda row: row["id"])
            async with connection.transaction():
                saved = await settle.fetch(
                    [row["id"] for row in rows],
                    [row["attempt"] for row in rows],
                    ["succeeded"] * count,
                    none,
                    none,
                    zeros,
                    zeros,
                    none,
                    [now] * count,
                    [True] * count,
                    [_NODE] * count,
                    [row["started_at"] or now for row in rows],
                    ["succeeded"] * count,
                    none,
                    [200] * count,
                    [_EXCERPT] * count,
                    [_PHASES] * count,
                )
            assert saved[0]["written"] is None  # all of them


class Sqlite:
    """One connection, as durable as Hourbell's; a claim and a settlement in turn."""

    def __init__(self, url: str, lanes: list[str], batch: int) -> None:
        self._path = url.removeprefix("sqlite:///")
        self._lanes = lanes
        self._batch = batch
        self._sql = load_queries("hourbell.store.sqlite", "engine.sql")

    async def run(self, ready: Callable[[], None]) -> float:
        connection = apsw.Connection(self._path)
        for setting in ("synchronous = full", "foreign_keys = on", "temp_store = memory", "cache_size = -65536"):
            connection.execute(f"pragma {setting}").fetchall()
        connection.execute("pragma wal_autocheckpoint = 4000").fetchall()
        ready()
        start = time.perf_counter()
        while rows := self._claim(connection):
            self._settle(connection, rows)
        seconds = time.perf_counter() - start
        connection.close()
        return seconds

    def _claim(self, connection: apsw.Connection) -> list[Sequence[Any]]:
        now = int(time.time() * 1e6)
        connection.execute("begin immediate")
        rows: list[Sequence[Any]] = []
        for lane in self._lanes:
            values = (lane, _RANK, now, self._batch // len(self._lanes), _SUSPECT_AFTER)
            [(_, runs, row_ids)] = connection.execute(self._sql["ready_runs"], values).fetchall()
            connection.execute(self._sql["claim"], (row_ids, _NODE.bytes, now + 60_000_000, now)).fetchall()
            rows += json.loads(runs)
        connection.execute("commit")
        return rows

    def _settle(self, connection: apsw.Connection, rows: list[Sequence[Any]]) -> None:
        now, node = int(time.time() * 1e6), _NODE.hex
        end = ("succeeded", None, None, 0, 0, None, now, True, node, now, "succeeded", None, 200, _EXCERPT, _PHASES)
        settled = json.dumps([(row[0], row[8], *end) for row in rows])  # its id and attempt
        last = {row[1]: row[0] for row in rows}
        stats = json.dumps(
            [
                (job, last[job], now, "succeeded", None, now, count, 0, 0)
                for job, count in Counter(row[1] for row in rows).items()
            ]
        )
        connection.execute("begin immediate")
        saved = connection.execute(self._sql["settle"], (settled,)).fetchall()
        connection.execute(self._sql["insert_attempts"], (settled,)).fetchall()
        connection.execute(self._sql["count_ended"], (stats,)).fetchall()
        connection.execute("commit")
        assert len(saved) == len(rows)


def _ready() -> None:
    print(json.dumps("ready"), flush=True)
    sys.stdin.readline()


def main(url: str, lanes: list[str], batch: int) -> None:
    loop = (Sqlite if url.startswith("sqlite:") else Postgres)(url, lanes, batch)
    print(json.dumps(uvloop.run(loop.run(_ready))), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
