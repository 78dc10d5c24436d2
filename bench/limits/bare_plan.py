"""Planning alone: due jobs are locked, moved on and given their runs, one transaction for each batch.

What is written was computed beforehand, and is what our own planner writes; nobody reads a schedule or a policy. It
tells the seconds of the empty probe before, of the burst, and of the empty probe after it.
"""

import json
import sys
import time
from datetime import timedelta
from statistics import median
from typing import Any
from uuid import UUID

import apsw
import asyncpg
import uvloop

from bench.limits.plans import AT, DAY, FIRST, NOW, next_limit
from hourbell.core.run.run import scheduled_run_id
from hourbell.store.sqlite.values import microseconds

_LANE = "task:bench.noop.0"
_RUN = "id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank, lane, planned_at"
_POSTGRES = {
    "probe": """select plan_at from hourbell.jobs where plan_at is not null and deleted_at is null
        order by plan_at limit 1""",
    "due": """select id from hourbell.jobs where plan_at <= $1 and deleted_at is null
        order by plan_at, id limit $2 for no key update skip locked""",
    "advance": """update hourbell.jobs set cursor_at = $2, next_at = $3, plan_at = $3, saved_version = version
        where id = any($1::uuid[])""",
    "insert": f"""insert into hourbell.runs ({_RUN})
        select n.id, n.job_id, 1, 'scheduled', $3, $3 at time zone 'UTC', $3, $4, 1, $5, $6
        from unnest($1::uuid[], $2::uuid[]) as n(id, job_id) on conflict do nothing""",
}
_SQLITE = {
    "probe": """select plan_at from hourbell_jobs where plan_at is not null and deleted_at is null
        order by plan_at limit 1""",
    "due": "select id from hourbell_jobs where plan_at <= ? and deleted_at is null order by plan_at, id limit ?",
    "advance": "update hourbell_jobs set cursor_at = ?, next_at = ?, plan_at = ?, saved_version = version where id = ?",
    "insert": f"""insert into hourbell_runs ({_RUN})
        values (?1, ?2, 1, 'scheduled', ?3, ?3, ?3, ?4, 1, '{_LANE}', ?5) on conflict do nothing""",
}


def _wait() -> None:
    print(json.dumps("ready"), flush=True)
    sys.stdin.readline()


async def _postgres(url: str, probes: int) -> list[float]:
    settings = {"enable_bitmapscan": "off", "jit": "off", "random_page_cost": "1.1"}
    connection = await asyncpg.connect(url, server_settings=settings)
    sql = {name: await connection.prepare(text) for name, text in _POSTGRES.items()}
    ids = [row["id"] for row in await connection.fetch("select id from hourbell.jobs where name like 'due-%'")]
    runs = {job: scheduled_run_id(job, AT) for job in ids}

    async def probe() -> float:
        taken = []
        for _ in range(probes):
            start = time.perf_counter()
            await sql["probe"].fetchval()
            taken.append(time.perf_counter() - start)
        return median(taken)

    async def plan(limit: int) -> int:
        async with connection.transaction():
            due = [row["id"] for row in await sql["due"].fetch(NOW, limit)]
            await sql["insert"].fetch([runs[job] for job in due], due, AT, AT + timedelta(days=1), _LANE, NOW)
            await sql["advance"].fetch(due, NOW, AT + DAY)
        return len(due)

    _wait()
    before = await probe()
    start, limit = time.perf_counter(), FIRST
    while await plan(limit) == limit:
        limit = next_limit(limit)
    burst = time.perf_counter() - start
    samples = [before, burst, await probe()]
    await connection.close()
    return samples


def _sqlite(url: str, probes: int) -> list[float]:
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    for setting in ("synchronous = full", "foreign_keys = on", "temp_store = memory", "cache_size = -65536"):
        connection.execute(f"pragma {setting}").fetchall()
    connection.execute("pragma wal_autocheckpoint = 4000").fetchall()
    ids = [row[0] for row in connection.execute("select id from hourbell_jobs where name like 'due-%'")]
    runs = {job: scheduled_run_id(UUID(bytes=job), AT).bytes for job in ids}
    at, now, next_at = microseconds(AT), microseconds(NOW), microseconds(AT + DAY)

    def probe() -> float:
        taken = []
        for _ in range(probes):
            start = time.perf_counter()
            connection.execute(_SQLITE["probe"]).fetchall()
            taken.append(time.perf_counter() - start)
        return median(taken)

    def plan(limit: int) -> int:
        connection.execute("begin immediate")
        due: list[Any] = [row[0] for row in connection.execute(_SQLITE["due"], (now, limit))]
        connection.executemany(_SQLITE["insert"], ((runs[job], job, at, next_at, now) for job in due))
        connection.executemany(_SQLITE["advance"], ((now, next_at, next_at, job) for job in due))
        connection.execute("commit")
        return len(due)

    _wait()
    before = probe()
    start, limit = time.perf_counter(), FIRST
    while plan(limit) == limit:
        limit = next_limit(limit)
    burst = time.perf_counter() - start
    samples = [before, burst, probe()]
    connection.close()
    return samples


def main(url: str, probes: int) -> None:
    samples = _sqlite(url, probes) if url.startswith("sqlite:") else uvloop.run(_postgres(url, probes))
    print(json.dumps(samples), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
