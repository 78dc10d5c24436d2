"""Our own store plans a burst: the verb that a node's planner calls, in its batches, with its decision.

It tells the seconds of the empty probe before, of the burst, and of the empty probe after it.
"""

import json
import sys
import time
from datetime import datetime
from statistics import median

import uvloop

from bench.limits.plans import BEFORE, FIRST, NOW, next_limit
from hourbell.core.plan import plan
from hourbell.settings import load_settings
from hourbell.store.base import EngineStore
from hourbell.wiring import open_stores


async def _main(url: str, probes: int) -> None:
    stores = open_stores(load_settings({"database_url": url}))
    store = stores.engine
    await store.plan_due(BEFORE, FIRST, plan)
    print(json.dumps("ready"), flush=True)
    sys.stdin.readline()
    before = await _probe(store, BEFORE, probes)
    start, limit = time.perf_counter(), FIRST
    while (await store.plan_due(NOW, limit, plan)).jobs == limit:
        limit = next_limit(limit)
    burst = time.perf_counter() - start
    print(json.dumps([before, burst, await _probe(store, NOW, probes)]), flush=True)
    sys.stdin.readline()
    await stores.close()


async def _probe(store: EngineStore, now: datetime, probes: int) -> float:
    taken = []
    for _ in range(probes):
        start = time.perf_counter()
        await store.plan_due(now, FIRST, plan)
        taken.append(time.perf_counter() - start)
    return median(taken)


if __name__ == "__main__":
    uvloop.run(_main(**json.loads(sys.argv[1])))
