"""PostgreSQL takes the intended indexes at a hundred thousand runs, also before anybody has analysed the tables."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from hourbell.store.postgres.changing import SQL as CONTROL_SQL
from hourbell.store.postgres.engine import SQL as ENGINE_SQL
from tests.contract.steps import HOUR, MINUTE, NODE, T0
from tests.database import PostgresDatabase

pytestmark = pytest.mark.anyio
JOBS, RUNS, LANES = 20_000, 100_000, 50
FILL = f"""
insert into hourbell.jobs (id, name, schedule, target, lane, version, saved_version, cursor_at, next_at, plan_at)
select lpad(to_hex(n), 32, '0')::uuid, 'job-' || n, '* * * * *', '{{"type": "task", "name": "a"}}', 'task:a', 1, 1,
       '{T0}', '{T0}', timestamptz '{T0}' + n * interval '1 second'
from generate_series(1, {JOBS}) n;

insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, planned_at,
                           rank, lane, state, attempt, exclusive, crashes, lease_owner, lease_until, started_at,
                           finished_at)
select lpad(to_hex(n), 32, '0')::uuid, lpad(to_hex(n % {JOBS} + 1), 32, '0')::uuid, 1, 'manual',
       at, at at time zone 'UTC', at, at + interval '1 day', at, n % 4, 'task:' || n % {LANES}, state,
       1, n % 10 = 0 and state <> 'running', case when n % 1000 = 7 then 2 else 0 end,
       case when state = 'running' then '{NODE}'::uuid end,
       case when state = 'running' then timestamptz '{T0}' + n * interval '1 second' end, at,
       case when state in ('succeeded', 'failed') then at end
from (select n, timestamptz '{T0}' + n * interval '1 millisecond' as at,
             (array['pending', 'retrying', 'running', 'succeeded', 'succeeded', 'failed'])[n / 7 % 6 + 1] as state
      from generate_series(1, {RUNS}) n) as made
"""
IDS = [UUID(int=number) for number in range(1, 1_001)]
COUNT = len(IDS)
SETTLE: tuple[list[Any], ...] = (
    IDS,
    [1] * COUNT,
    ["succeeded"] * COUNT,
    [None] * COUNT,
    [None] * COUNT,
    [0] * COUNT,
    [0] * COUNT,
    [None] * COUNT,
    [T0] * COUNT,
    [True] * COUNT,
    [NODE] * COUNT,
    [T0] * COUNT,
    ["succeeded"] * COUNT,
    *([None] * COUNT for _ in range(4)),
)
WANTED = [f"task:{number}" for number in range(LANES)]
NAMES = [f"job-{number}" for number in range(1, 1_001)]
SQL = ENGINE_SQL | CONTROL_SQL
# Each statement with arguments as the engine gives them, and the indexes that may serve it.
STATEMENTS: dict[str, tuple[tuple[Any, ...], set[str]]] = {
    "due_jobs": ((T0 + MINUTE, 1_000), {"jobs_plan_at"}),
    "next_plan_at": ((), {"jobs_plan_at"}),
    "unfinished_of_jobs": ((IDS,), {"runs_unfinished"}),
    "save_cursors": ((IDS, *([T0] * COUNT for _ in range(3)), *([None] * COUNT, ["a"] * COUNT)), {"jobs_pkey"}),
    "lanes": ((), {"runs_line"}),
    "claim": (
        (WANTED, [20] * LANES, [2] * LANES, T0 + HOUR, NODE, T0 + 2 * HOUR, 2),
        {"runs_line", "runs_unfinished", "runs_pkey"},
    ),
    "claim_suspect": ((WANTED, T0 + HOUR, NODE, T0 + 2 * HOUR, 2), {"runs_suspects", "runs_unfinished", "runs_pkey"}),
    "settle": (SETTLE, {"runs_pkey"}),
    "late_outcomes": ((IDS, [1] * COUNT, [NODE] * COUNT, ["failed"] * COUNT), {"runs_pkey", "attempts_pkey"}),
    "expired_leases": ((T0 + MINUTE, 100), {"runs_leases"}),
    "expire": ((T0 + HOUR, T0, 100), {"runs_expiry", "runs_pkey"}),
    "renew": ((IDS, [1] * COUNT, T0 + HOUR, NODE), {"runs_pkey"}),
    "prune_candidates": ((T0 + HOUR, T0, UUID(int=0), 20, 1_000), {"runs_ended", "runs_of_job", "jobs_pkey"}),
    "job_by_name": (("job-77",), {"jobs_name"}),
    "lock_jobs_by_name": ((NAMES,), {"jobs_name"}),
    "planned_instants": ((IDS[0], [T0] * COUNT), {"runs_once"}),
    "failed_runs": ((100, T0 + HOUR, IDS[0]), {"runs_failed", "jobs_pkey", "attempts_pkey"}),
}


@pytest.mark.parametrize("analysed", [True, False])
async def test_statements_take_the_intended_indexes(postgres: PostgresDatabase, analysed: bool) -> None:
    await postgres.sql(FILL)
    if analysed:
        await postgres.sql("analyze")

    odd = {}
    async with postgres.connections().connection() as connection:
        for name, (arguments, intended) in STATEMENTS.items():
            for mode in ("force_custom_plan", "force_generic_plan"):
                used, scanned = await plan_of(connection, name, arguments, mode)
                if scanned or used - intended or not used:
                    odd[name, mode] = (scanned, used)
    assert odd == {}


async def plan_of(connection: Any, name: str, arguments: tuple[Any, ...], mode: str) -> tuple[set[str], set[str]]:
    """The indexes that a statement uses, and our tables that it reads from end to end."""
    await connection.execute(f"set plan_cache_mode = {mode}; prepare {name} as {SQL[name]}")
    given = f"({', '.join(map(literal, arguments))})" if arguments else ""
    text = await connection.fetchval(f"explain (format json) execute {name}{given}")
    await connection.execute(f"deallocate {name}; reset plan_cache_mode")
    nodes = list(walk(json.loads(text)[0]["Plan"]))
    scanned = {
        node["Relation Name"]
        for node in nodes
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] in ("runs", "jobs")
    }
    return {node["Index Name"] for node in nodes if "Index Name" in node}, scanned


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from walk(below)


def literal(value: Any) -> str:
    """A value as SQL text, for EXECUTE takes no parameters."""
    match value:
        case None:
            return "null"
        case list():
            return "'{" + ", ".join("null" if each is None else f'"{each}"' for each in value) + "}'"
        case UUID() | str() | datetime():
            return f"'{value}'"
        case _:
            return str(value)
