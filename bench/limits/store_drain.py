"""A drain by our own store and nothing else: runs are claimed a thousand at a time and settled as succeeded.

What is missing is the rest of a node: slots, leases, definitions and the call of a task. Settling overlaps the next
claim where the database lets it.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import uvloop

from hourbell.core.run.policies import RETRY_PRESETS
from hourbell.core.run.run import Run
from hourbell.core.run.settle import Succeeded, settle
from hourbell.settings import load_settings
from hourbell.store.base import LaneDemand, SettledAttempt
from hourbell.wiring import open_stores

_LEASE = timedelta(seconds=60)
_IN_FLIGHT = 2  # batches that are claimed and not settled


async def _drain(url: str, lane: str, batch: int, ready: Callable[[], None]) -> float:
    stores = open_stores(load_settings({"database_url": url}))
    store, node = stores.engine, uuid4()
    await store.sample_time()
    line: asyncio.Queue[list[Run]] = asyncio.Queue(_IN_FLIGHT)

    async def claim() -> None:
        while True:
            now = datetime.now(UTC)
            runs = await store.claim(node, now, now + _LEASE, [LaneDemand(lane, batch)])
            await line.put(runs)
            if not runs:
                return

    async def write() -> None:
        while runs := await line.get():
            now = datetime.now(UTC)
            ends = [settle(run, Succeeded(), now, RETRY_PRESETS["default"], 0.5) for run in runs]
            await store.settle([SettledAttempt(end, node, now) for end in ends])

    ready()
    start = time.perf_counter()
    await asyncio.gather(claim(), write())
    seconds = time.perf_counter() - start
    await stores.close()
    return seconds


def _ready() -> None:
    print(json.dumps("ready"), flush=True)
    sys.stdin.readline()


def main(url: str, lane: str, batch: int) -> None:
    print(json.dumps(uvloop.run(_drain(url, lane, batch, _ready))), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
