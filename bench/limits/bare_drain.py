"""A drain alone on PostgreSQL: one connection claims a thousand runs at a time while another settles those before.

For each run it writes what a node writes: the claim, the end, the attempt, and for each batch the statistics of its
jobs. There is no lease to renew, no definition to read and no task to call.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import uvloop

_LEASE = timedelta(seconds=60)
_IN_FLIGHT = 2  # batches that are claimed and not settled
_CLAIM = """update hourbell.runs
set state = 'running', attempt = attempt + 1, lease_owner = $1, lease_until = $2, started_at = $3
where id = any(array(
    select id from hourbell.runs
    where lane = $4 and rank = 1 and state in ('pending', 'retrying') and ready_at <= $3
    order by ready_at, id limit $5 for no key update skip locked))
returning id"""
_SETTLE = """with ended as (
    update hourbell.runs
    set state = 'succeeded', finished_at = $2, lease_owner = null, lease_until = null
    where id = any($1::uuid[]) and attempt = 1
    returning id, job_id, started_at
), tried as (
    insert into hourbell.attempts (run_id, number, node, started_at, finished_at, outcome)
    select id, 1, $3, started_at, $2, 'succeeded' from ended
)
insert into hourbell.job_stats as s (job_id, last_run_id, last_run_at, last_state, last_success_at, succeeded)
select job_id, (array_agg(id))[1], $2, 'succeeded', $2, count(*) from ended group by job_id order by job_id
on conflict (job_id) do update
set last_run_id = excluded.last_run_id, last_run_at = excluded.last_run_at, last_state = excluded.last_state,
    last_success_at = excluded.last_success_at, succeeded = s.succeeded + excluded.succeeded"""


class Drain:
    def __init__(self, url: str, lane: str, batch: int) -> None:
        self._url = url
        self._lane = lane
        self._batch = batch
        self._node = uuid4()

    async def run(self, ready: Callable[[], None]) -> float:
        settings = {"enable_bitmapscan": "off", "jit": "off", "random_page_cost": "1.1"}
        claiming = await asyncpg.connect(self._url, server_settings=settings)
        settling = await asyncpg.connect(self._url, server_settings=settings)
        claim, settle = await claiming.prepare(_CLAIM), await settling.prepare(_SETTLE)
        ready()
        start = time.perf_counter()
        line: asyncio.Queue[list[Any]] = asyncio.Queue(_IN_FLIGHT)
        await asyncio.gather(self._claim(claim, line), self._settle(settle, line))
        seconds = time.perf_counter() - start
        await claiming.close()
        await settling.close()
        return seconds

    async def _claim(self, claim: Any, line: asyncio.Queue[list[Any]]) -> None:
        while True:
            now = datetime.now(UTC)
            ids = [row["id"] for row in await claim.fetch(self._node, now + _LEASE, now, self._lane, self._batch)]
            await line.put(ids)
            if not ids:
                return

    async def _settle(self, settle: Any, line: asyncio.Queue[list[Any]]) -> None:
        while ids := await line.get():
            await settle.fetch(ids, datetime.now(UTC), self._node)


def _ready() -> None:
    print(json.dumps("ready"), flush=True)
    sys.stdin.readline()


def main(url: str, lane: str, batch: int) -> None:
    print(json.dumps(uvloop.run(Drain(url, lane, batch).run(_ready))), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
