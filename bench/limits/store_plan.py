"""Our own planner plans a burst: the loop of a node, on a store, with nobody who claims what it plans.

It tells the seconds of the empty probe before, of the burst, and of the empty probe after it. With `watches`, the
watcher of a node turns beside it.
"""

import asyncio
import json
import sys
import time
from datetime import datetime, timedelta
from statistics import median

import uvloop

from bench.limits.plans import BEFORE, FIRST, NOW
from hourbell.clock import elapsed
from hourbell.core.run.plan import plan
from hourbell.core.schedule import TZDATA_VERSION
from hourbell.engine.events import EngineEvents
from hourbell.engine.planner import Planner
from hourbell.engine.time import DatabaseClock
from hourbell.engine.watcher import Watcher
from hourbell.metrics import Metrics
from hourbell.service import tune_interpreter
from hourbell.settings import load_settings
from hourbell.store.base import LIVE_FOR, EngineStore
from hourbell.wiring import Stores, open_stores


async def _main(url: str, probes: int, *, watches: bool = False) -> None:
    stores = open_stores(load_settings({"database_url": url}))
    store, clock = stores.engine, DatabaseClock(elapsed)
    planner = Planner(
        store,
        clock,
        events=EngineEvents(Metrics(), elapsed),
        on_runs=lambda _: None,
        tzdata=TZDATA_VERSION,
        max_sleep=timedelta(seconds=1),
    )
    for _ in range(2):
        clock.observe(BEFORE, elapsed())
    await planner.tick()
    watcher = _watcher(stores, clock) if watches else None
    if watcher is not None:
        await watcher.tick()  # the looks of a start, which are not those of a node that has been running
    tune_interpreter()  # as in a node that serves
    print(json.dumps("ready"), flush=True)
    sys.stdin.readline()
    before = await _probe(store, BEFORE, probes)
    for _ in range(2):
        clock.observe(NOW, elapsed())
    watching = None if watcher is None else asyncio.create_task(_watch(watcher))
    start = time.perf_counter()
    while await planner.tick() == 0:
        pass
    burst = time.perf_counter() - start
    if watching is not None:
        watching.cancel()
        await asyncio.wait([watching])
    print(json.dumps([before, burst, await _probe(store, NOW, probes)]), flush=True)
    sys.stdin.readline()
    await stores.close()


def _watcher(stores: Stores, clock: DatabaseClock) -> Watcher:
    return Watcher(
        stores.alerts,
        stores.engine,
        clock,
        metrics=Metrics(),
        live_for=LIVE_FOR,
        retention=timedelta(days=30),
        elapsed=elapsed,
    )


async def _watch(watcher: Watcher) -> None:
    """Let the watcher turn until cancelled; it begins at once, so that one look falls into every burst."""
    while True:
        await asyncio.sleep(await watcher.tick())


async def _probe(store: EngineStore, now: datetime, probes: int) -> float:
    taken = []
    for _ in range(probes):
        start = time.perf_counter()
        await store.plan_due(now, FIRST, plan)
        taken.append(time.perf_counter() - start)
    return median(taken)


if __name__ == "__main__":
    uvloop.run(_main(**json.loads(sys.argv[1])))
