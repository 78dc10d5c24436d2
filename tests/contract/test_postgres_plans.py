"""PostgreSQL takes the intended indexes and looks at little more than its batch, at a hundred thousand jobs and runs:
before anybody has analysed the tables, with the statistics of tables that were nearly empty, with those of a time at
which nothing waited, and with fresh ones."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from hourbell.core.run.plan import plan
from hourbell.store.postgres.engine import PostgresEngineStore
from hourbell.store.postgres.planning import SQL as ENGINE_SQL
from hourbell.store.postgres.session import STATEMENTS as CONTROL
from tests.contract.crowd import (
    BATCH,
    BUSY_JOBS,
    ENDED,
    FINISHED_JOBS,
    FORGET_PLANNED,
    JOB_NAMES,
    LANES,
    NEW_RUNS,
    RUNNING,
    RUNS,
    WANTED,
    fill_postgres,
)
from tests.contract.plans import MODES, analyse_as_if_idle, explained
from tests.contract.steps import DAY, HOUR, MINUTE, NODE, T0
from tests.database import PostgresDatabase

pytestmark = [pytest.mark.anyio, pytest.mark.full]
MAX_ROWS = 10 * BATCH  # that a statement may look at, of a hundred thousand
FILLED = ("jobs", "job_versions", "job_stats", "skips", "secrets", "runs", "attempts", "cancels", "run_notes")
SMALL = {"nodes", "cancels", "job_changes"}  # by their nature
FOR_ONE = {"begin", "last_success", "job_by_name", "next_plan_at"}
SQL = {name: statement.text for name, statement in CONTROL.items()} | ENGINE_SQL


def each(*values: Any) -> tuple[list[Any], ...]:
    """A column of a batch for each value."""
    return tuple([value] * BATCH for value in values)


AS_PLANNED = None  # what planning gave the statement while the database was filled
INSTANTS = [T0 + DAY] * BATCH
# Each statement with arguments as the engine gives them, and the indexes that may serve it.
STATEMENTS: dict[str, tuple[tuple[Any, ...] | None, set[str]]] = {
    "due_jobs": ((T0 + MINUTE, BATCH), {"jobs_plan_at", "runs_waiting", "runs_running"}),
    "next_plan_at": ((), {"jobs_plan_at"}),
    "whole_jobs": ((BUSY_JOBS,), {"jobs_pkey"}),
    "unfinished_of_jobs": ((BUSY_JOBS,), {"runs_waiting", "runs_running"}),
    "newest_of_jobs": ((BUSY_JOBS,), {"runs_once", "skips_of_job"}),
    "newest_local_times": ((BUSY_JOBS,), {"runs_once"}),
    "insert_skips": ((BUSY_JOBS, *each(T0, T0 + DAY, 1, "missed", T0)), {"skips_of_job", "jobs_pkey"}),
    "insert_versions": ((BUSY_JOBS, *each(2, "{}", T0), "engine"), set()),
    "oldest_changes": ((BUSY_JOBS,), {"job_changes_of_job"}),
    "save_superseded": (
        (list(range(BATCH)), BUSY_JOBS, *each(T0, T0, True)),
        {"jobs_pkey", "job_changes_of_job", "job_changes_pkey"},
    ),
    "set_change_errors": ((list(range(BATCH)), BUSY_JOBS, *each("unreadable"), T0), {"jobs_pkey", "job_changes_pkey"}),
    "audit_unasked": ((BUSY_JOBS, *each(2, "{}", "sql", "job"), T0), {"job_versions_pkey"}),
    "save_plans": (AS_PLANNED, {"jobs_pkey", "jobs_plan_at"}),
    "end_pauses": ((BUSY_JOBS,), {"jobs_pkey"}),
    "set_job_errors": ((BUSY_JOBS, *each("unreadable")), {"jobs_pkey"}),
    "cancel_waiting_of_jobs": ((BUSY_JOBS, T0, True, NEW_RUNS), {"runs_waiting"}),
    "ask_running_of_jobs_to_stop": ((BUSY_JOBS, T0), {"runs_running"}),
    "lanes": ((), {"runs_line"}),
    "claim": (
        (WANTED, [BATCH // LANES] * LANES, [2] * LANES, T0 + HOUR, NODE, T0 + 2 * HOUR, 2),
        {"runs_line", "runs_waiting", "runs_running", "runs_pkey"},
    ),
    "claim_suspect": (
        (WANTED, T0 + HOUR, NODE, T0 + 2 * HOUR, 2),
        {"runs_suspects", "runs_waiting", "runs_running", "runs_pkey"},
    ),
    "definitions": ((BUSY_JOBS, *each(1)), {"job_versions_pkey"}),
    "secrets_of_jobs": ((BUSY_JOBS, T0), {"secrets_of_job"}),
    "last_success": ((BUSY_JOBS[0], T0 + DAY), {"runs_once"}),
    "begin": ((RUNNING[0], 1), {"runs_pkey"}),
    "write_notes": ((RUNNING, *each(1, 0.5, "half", "[]", T0)), {"runs_pkey"}),
    "settle": (
        (
            RUNNING,
            *each(1, "succeeded", None, None, 0, 0, None, T0, True, NODE, T0, "succeeded", None, None, None, None),
        ),
        {"runs_pkey", "attempts_pkey"},
    ),
    "settle_succeeded": ((RUNNING, *each(1, T0, T0), None, None, None, None, NODE), {"runs_pkey", "attempts_pkey"}),
    "late_outcomes": ((ENDED, *each(1, NODE, "failed")), {"runs_pkey", "attempts_pkey"}),
    "expired_leases": ((T0 + HOUR, BATCH), {"runs_running"}),
    "deaths": ((ENDED,), {"attempts_pkey", "nodes_pkey"}),
    "expire": ((T0 + DAY + MINUTE, T0, BATCH), {"runs_expiry", "runs_pkey"}),
    "renew": ((RUNNING, *each(1), T0 + HOUR, NODE), {"runs_pkey"}),
    "unheld": ((NODE, RUNNING, *each(1)), {"runs_running"}),
    "cancels_of": ((RUNNING,), {"cancels_pkey"}),
    "prune_candidates": ((T0 + HOUR, T0, UUID(int=0), 20, BATCH), {"runs_ended", "runs_once", "jobs_pkey"}),
    "mark_pruned": ((ENDED,), {"runs_pkey", "jobs_pkey"}),
    "delete_attempts": ((ENDED,), {"attempts_pkey"}),
    "delete_cancels": ((ENDED,), {"cancels_pkey"}),
    "delete_runs": ((ENDED,), {"runs_pkey"}),
    "lock_finished_jobs": ((FINISHED_JOBS,), {"jobs_pkey"}),
    "delete_finished_jobs": ((FINISHED_JOBS,), {"jobs_pkey", "runs_once"}),
    "jobs_to_refresh": ((UUID(int=0), BATCH), {"jobs_pkey"}),
    "job_by_name": (("job-77",), {"jobs_name"}),
    "lock_jobs_by_name": ((JOB_NAMES,), {"jobs_name"}),
    "planned_instants": ((BUSY_JOBS[0], INSTANTS), {"runs_once"}),
}


NOT_FOR_BATCHES = {
    *("backlog", "beat", "forget_nodes", "retire", "sample_time"),
    *("delete_outages", "forget_outages", "insert_outage", "last_beat", "lock_outages", "overlapping_outages"),
    *("served_lanes", "set_planned_by_tzdata", "tzdata_version", "wake"),
}
# Plans that are not as they should be yet, by what PostgreSQL knows about the tables. Remove entries that are fixed.
TO_FIX = {
    "never": {"delete_runs"},
    "young": {"delete_runs"},
    "idle": set(),
    "fresh": set(),
}
CLAIM_BY_IN = """update hourbell.runs set lease_until = $2 where id in (
    select id from hourbell.runs where state in ('pending', 'retrying') order by lane, rank, ready_at, id limit $1)"""
SETTLE_BY_JOIN = """update hourbell.runs r set lease_until = null
    from unnest($1::uuid[], $2::int[]) as g(id, attempt)
    where r.id = g.id and r.attempt = g.attempt and r.state = 'running'"""


@dataclass(frozen=True, slots=True)
class Crowd:
    """The product's own connection, and the arguments with which it planned a batch."""

    connection: Any
    planned: dict[str, tuple[Any, ...]]

    async def faults(self, name: str) -> list[dict[str, Any]]:
        given, intended = STATEMENTS[name]
        arguments = self.planned[SQL[name]] if given is AS_PLANNED else given
        max_rows = 10 if name in FOR_ONE else 10 * len(arguments[0]) if given is AS_PLANNED else MAX_ROWS
        return [
            found for mode in MODES if (found := await self.faults_of(SQL[name], arguments, mode, intended, max_rows))
        ]

    async def faults_of(
        self, sql: str, arguments: tuple[Any, ...], mode: str, intended: set[str], max_rows: int = MAX_ROWS
    ) -> dict[str, Any]:
        """Return unwanted parts of a plan: other indexes, whole tables, too many rows."""
        seen = await explained(self.connection, sql, arguments, mode)
        found = {
            "indexes": seen.indexes - intended,
            "scanned": seen.scanned - SMALL,
            "rows": seen.rows if seen.rows > max_rows else None,
        }
        return {key: value for key, value in found.items() if value}


@asynccontextmanager
async def filled(database: PostgresDatabase, *, analysed_young: bool) -> AsyncIterator[Crowd]:
    for table in FILLED:
        await database.sql(f"alter table hourbell.{table} set (autovacuum_enabled = off)")
    await database.sql(fill_postgres(1, 10))
    if analysed_young:
        await database.sql("analyze")
    await database.sql(fill_postgres(11, RUNS))
    connections, planned = database.connections(size=1, by_key=True), {}
    async with connections.connection() as connection:
        connection.add_query_logger(lambda logged: planned.update({logged.query: logged.args}))
    await PostgresEngineStore(connections).plan_due(T0 + MINUTE, BATCH, plan)
    await database.sql(FORGET_PLANNED)
    async with connections.connection() as connection:
        yield Crowd(connection, planned)


def test_every_statement_for_a_batch_has_a_plan_test() -> None:
    assert ENGINE_SQL.keys() - STATEMENTS.keys() == NOT_FOR_BATCHES


async def test_batches_take_the_intended_indexes_and_few_rows(postgres: PostgresDatabase) -> None:
    async with filled(postgres, analysed_young=False) as crowd:
        never = {name: found for name in STATEMENTS if (found := await crowd.faults(name))}
        await postgres.sql("analyze")
        fresh = {name: found for name in STATEMENTS if (found := await crowd.faults(name))}

        assert without(never, "never") == {}
        assert without(fresh, "fresh") == {}
        await see_that_traps_are_seen(crowd)


async def test_batches_take_the_intended_indexes_with_statistics_of_nearly_empty_tables(
    postgres: PostgresDatabase,
) -> None:
    async with filled(postgres, analysed_young=True) as crowd:
        young = {name: found for name in STATEMENTS if (found := await crowd.faults(name))}

        assert without(young, "young") == {}


async def test_rows_of_a_small_table_are_locked_in_the_order_of_their_ids_too(postgres: PostgresDatabase) -> None:
    await postgres.sql(fill_postgres(1, 10))
    await postgres.sql("analyze")
    async with postgres.connections(by_key=True).connection() as connection:
        seen = [
            await explained(connection, SQL[name], STATEMENTS[name][0] or (), mode)
            for name in ("settle", "settle_succeeded", "renew")
            for mode in MODES
        ]

    assert [plan.scanned - SMALL for plan in seen] == [set()] * len(seen)


async def test_batches_take_the_intended_indexes_with_statistics_from_before_anything_waited(
    postgres: PostgresDatabase,
) -> None:
    async with filled(postgres, analysed_young=False) as crowd:
        await analyse_as_if_idle(postgres)
        idle = {name: found for name in STATEMENTS if (found := await crowd.faults(name))}

        assert without(idle, "idle") == {}


def without(faults: dict[str, Any], statistics: str) -> dict[str, Any]:
    """Return the deviations that are not listed, and the listed ones that no longer occur."""
    gone = dict.fromkeys(TO_FIX[statistics] - faults.keys(), "is fixed")
    return {name: found for name, found in faults.items() if name not in TO_FIX[statistics]} | gone


async def see_that_traps_are_seen(crowd: Crowd) -> None:
    joined = await crowd.faults_of(SETTLE_BY_JOIN, (RUNNING, *each(1)), MODES[0], {"runs_pkey"})
    assert joined.keys() == {"indexes"}
    await crowd.connection.execute("set random_page_cost = 4")  # as it is where our connections do not say otherwise
    await crowd.connection.execute("set enable_seqscan = on")
    for mode in MODES:
        limited = await crowd.faults_of(CLAIM_BY_IN, (BATCH, T0), mode, {"runs_line", "runs_pkey"})
        assert limited.keys() == {"scanned", "rows"}
