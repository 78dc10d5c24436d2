"""SQLite takes the intended indexes and works for its batch only, at a hundred thousand jobs and runs: before anybody
has analysed the file, which Hourbell never does, and after."""

import re
from typing import Any
from uuid import UUID

import apsw
import pytest

from hourbell.core.run.plan import plan
from hourbell.store.sqlite.engine import SqliteEngineStore
from hourbell.store.sqlite.planning import FIRST
from hourbell.store.sqlite.values import bound
from hourbell.store.sqlite.write_params import SQL
from tests.contract.crowd import (
    BATCH,
    BUSY_JOBS,
    ENDED,
    FINISHED_JOBS,
    FORGET_PLANNED,
    LANES,
    NEW_RUNS,
    RUNNING,
    RUNS,
    WAITING,
    WANTED,
    fill_sqlite,
)
from tests.contract.steps import DAY, HOUR, MINUTE, NODE, T0
from tests.sqlite_database import SqliteDatabase

pytestmark = [pytest.mark.anyio, pytest.mark.full]
MAX_STEPS = 400  # of SQLite's machine for each row of a batch, of which a row that is only looked at costs about ten
SMALL = {"n", "found", "ranks", "(subquery"}  # nodes, and what a statement has gathered itself
STEP = re.compile(r"(SCAN|SEARCH) ([(\w]+)(?: USING (?:COVERING )?(?:INDEX )?(PRIMARY KEY|\w+))?")
EMPTY = re.compile("SCAN .*(VIRTUAL TABLE|CONSTANT ROW)")
SETTLED = [
    (run, 1, "succeeded", None, None, 0, 0, None, T0, True, NODE, T0, "succeeded", None, None, None, None)
    for run in RUNNING
]
SUCCEEDED = [(run, 1, T0, T0) for run in RUNNING]
LATE = [(run, 1, NODE, "failed") for run in ENDED]
TALLIES = [(job, None, T0, "succeeded", None, T0, 1, 0, 0) for job in BUSY_JOBS]
AS_PLANNED = None  # what planning gave the statement while the database was filled
# Each statement with arguments as the engine gives them, how many rows these are about, and the indexes that serve it.
STATEMENTS: dict[str, tuple[tuple[Any, ...] | None, int, set[str]]] = {
    "due_jobs": ((T0 + MINUTE, BATCH, FIRST.plan_at, FIRST.job_id), BATCH, {"jobs_plan_at"}),
    "next_plan_at": ((), 1, {"jobs_plan_at"}),
    "unfinished_of_jobs": ((BUSY_JOBS,), BATCH, {"runs_waiting", "runs_running"}),
    "newest_of_jobs": ((BUSY_JOBS,), BATCH, {"runs_once", "skips_of_job"}),
    "newest_local_times": ((BUSY_JOBS,), BATCH, {"runs_once"}),
    "insert_runs": (AS_PLANNED, BATCH, set()),
    "extend_skip": ((BUSY_JOBS[0], T0, T0 + DAY, 1, "missed", T0), 1, {"skips_of_job", "jobs by id"}),
    "insert_versions": (([(job, 2, "{}", T0) for job in BUSY_JOBS], "engine"), BATCH, set()),
    "oldest_changes": ((BUSY_JOBS,), BATCH, {"job_changes_of_job", "place"}),
    "save_superseded": ((BUSY_JOBS[0], T0, T0), 1, {"jobs by id", "job_changes_of_job"}),
    "audit_unasked": (([(job, 2, "{}", "sql", str(job)) for job in BUSY_JOBS], T0), BATCH, {"key"}),
    "save_cursors": (AS_PLANNED, BATCH, {"jobs by id"}),
    "end_pauses": ((BUSY_JOBS,), BATCH, {"jobs by id"}),
    "set_job_errors": (([(job, "unreadable") for job in BUSY_JOBS],), BATCH, {"jobs by id"}),
    "cancel_waiting_of_jobs": ((BUSY_JOBS, T0, True, NEW_RUNS), BATCH, {"runs_waiting"}),
    "ask_running_of_jobs_to_stop": ((BUSY_JOBS, T0), BATCH, {"runs_running"}),
    "lanes": ((), LANES, {"runs_line"}),
    "ready_runs": ((WANTED[0], 1, T0 + HOUR, BATCH, 2), BATCH, {"runs_line", "runs_waiting", "runs_running"}),
    "suspect": ((WANTED, T0 + HOUR, 2), LANES, {"runs_suspects", "runs_waiting", "runs_running"}),
    "claim": ((list(range(41, RUNS + 1, 100)), NODE, T0 + HOUR, T0), BATCH, {"place"}),
    "definitions": (([(job, 1) for job in BUSY_JOBS],), BATCH, {"key"}),
    "secrets_of_jobs": ((BUSY_JOBS, T0), BATCH, {"secrets_of_job"}),
    "last_success": ((BUSY_JOBS[0], T0 + DAY), 1, {"runs_once"}),
    "begin": ((RUNNING[0], 1), 1, {"runs by id"}),
    "write_notes": (([(run, 1, 0.5, "half", "[]", T0) for run in RUNNING],), BATCH, {"runs by id"}),
    "settle": ((SETTLED,), BATCH, {"runs by id", "key"}),
    "settle_succeeded": ((SUCCEEDED,), BATCH, {"runs by id", "key"}),
    "insert_attempts": ((SETTLED,), BATCH, set()),
    "insert_successful_attempts": ((SUCCEEDED, NODE), BATCH, set()),
    "count_ended": ((TALLIES,), BATCH, set()),
    "note_late_outcomes": ((LATE,), BATCH, {"key"}),
    "late_outcomes": ((LATE,), BATCH, {"key", "runs by id"}),
    "expired_leases": ((T0 + HOUR, BATCH), BATCH, set()),
    "deaths": ((ENDED,), BATCH, {"key"}),
    "too_old": ((T0 + DAY + MINUTE, T0, BATCH), BATCH, {"runs_expiry"}),
    "expire": ((WAITING, T0), BATCH, {"runs by id"}),
    "renew": (([(run, 1) for run in RUNNING], T0 + HOUR, NODE), BATCH, {"runs by id"}),
    "unheld": ((NODE, [(run, 1) for run in RUNNING]), BATCH, set()),
    "cancels_of": ((RUNNING,), BATCH, {"key"}),
    "prune_candidates": (
        (T0 + HOUR, T0, UUID(int=0), 20, BATCH),
        BATCH,
        {"runs_ended", "runs_once", "jobs by id"},
    ),
    "delete_attempts": ((ENDED,), BATCH, {"key"}),
    "mark_pruned": ((ENDED,), BATCH, {"jobs by id", "runs by id"}),
    "delete_cancels": ((ENDED,), BATCH, {"key"}),
    "delete_runs": ((ENDED,), BATCH, {"runs by id"}),
    "delete_finished_jobs": (
        (FINISHED_JOBS,),
        BATCH,
        {
            "jobs by id",
            "runs_once",
            "key",
            "skips_of_job",
            "secrets_of_job",
            "job_tags_of_job",
            "job_changes_of_job",
            "channels_of_job",
        },
    ),
    "whole_jobs": ((BUSY_JOBS,), BATCH, {"jobs by id"}),
    "jobs_to_refresh": ((UUID(int=0), BATCH), BATCH, {"jobs by id"}),
}
NOT_FOR_BATCHES = {
    *("backlog", "beat", "begin_pruning", "delete_change", "end_pruning", "set_change_error"),
    *("forget_nodes", "insert_skip", "planned_by_tzdata", "retire"),
    *("delete_outages", "forget_outages", "insert_outage", "keep_last_beat", "last_beat", "overlapping_outages"),
    *("served_lanes", "set_planned_by_tzdata", "tzdata_version"),
}
_WALKED_RUNS = {"hourbell_runs hourbell_runs_running"}  # from end to end: it is short
WALKED = {"expired_leases": _WALKED_RUNS, "unheld": _WALKED_RUNS}
SETTLE_BY_STATE = """update hourbell_runs indexed by hourbell_runs_running set lease_until = null
    where id in (select unhex(value) from json_each(?)) and state = 'running'"""
ENDED_BY_AGE = """delete from hourbell_runs indexed by hourbell_runs_ended
    where id in (select unhex(value) from json_each(?)) and finished_at is not null"""


def test_every_statement_for_a_batch_has_a_plan_test() -> None:
    assert SQL.keys() - STATEMENTS.keys() == NOT_FOR_BATCHES


async def test_batches_take_the_intended_indexes_and_few_steps() -> None:
    async with SqliteDatabase.in_memory() as database:
        await database.sql(fill_sqlite(1, RUNS))
        planned = await arguments_of_planning(database)
        await database.sql("pragma foreign_keys = on")
        never = flaws_of_all(database.connection, planned)
        await database.sql("analyze")
        fresh = flaws_of_all(database.connection, planned)

        assert (never, fresh) == ({}, {})
        see_that_traps_are_seen(database.connection)


async def arguments_of_planning(database: SqliteDatabase) -> dict[str, tuple[Any, ...]]:
    """Plan a batch, and say what each statement was given."""
    planned: dict[str, tuple[Any, ...]] = {}

    def note(_: apsw.Cursor, sql: str, given: Any) -> bool:
        planned[sql] = given
        return True

    runner = database.runner()
    await runner.read(lambda session: setattr(session.connection, "exec_trace", note))
    await SqliteEngineStore(runner).plan_due(T0 + MINUTE, BATCH, plan)
    await database.sql(FORGET_PLANNED)
    return planned


def flaws_of_all(connection: apsw.Connection, planned: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Return unwanted parts of statements: other indexes, whole tables, too many steps."""
    found = {}
    for name, (given, size, intended) in STATEMENTS.items():
        arguments = planned[SQL[name]] if given is AS_PLANNED else given
        scanned, indexes = plan_of(connection, SQL[name], arguments)
        steps = steps_of(connection, SQL[name], arguments)
        if scanned != WALKED.get(name, set()) or indexes != intended or steps > MAX_STEPS * size:
            found[name] = (scanned, indexes, steps)
    return found


def see_that_traps_are_seen(connection: apsw.Connection) -> None:
    assert plan_of(connection, SETTLE_BY_STATE, (RUNNING,)) == ({"hourbell_runs hourbell_runs_running"}, set())
    assert plan_of(connection, ENDED_BY_AGE, (ENDED,)) == (set(), {"runs_ended"})
    assert steps_of(connection, ENDED_BY_AGE, (ENDED,)) > MAX_STEPS * BATCH


def plan_of(connection: apsw.Connection, sql: str, arguments: tuple[Any, ...]) -> tuple[set[str], set[str]]:
    """The tables and indexes that a statement reads from end to end, and the indexes in which it looks things up."""
    scanned, indexes = set(), set()
    for *_, detail in connection.execute(f"explain query plan {sql}", tuple(map(bound, arguments))):
        step = STEP.match(detail)
        if step is None or EMPTY.match(detail):
            continue
        way, table, index = step.groups()
        if way == "SEARCH":
            indexes.add(short(index))
        elif table not in SMALL or index:
            scanned.add(f"{table} {index or ''}".strip())
    return scanned, indexes


def short(index: str) -> str:
    """An index as PostgreSQL has it too; the numbers of rows, and the key of tables without them, have no name."""
    if index in ("PRIMARY KEY", "INTEGER"):
        return "key" if index == "PRIMARY KEY" else "place"
    return re.sub(r"sqlite_autoindex_hourbell_(\w+)_1", r"\1 by id", index).removeprefix("hourbell_")


def steps_of(connection: apsw.Connection, sql: str, arguments: tuple[Any, ...]) -> int:
    """Count the virtual machine steps of a statement, with its triggers. It is executed and rolled back."""
    steps: list[int] = []
    connection.execute("begin").fetchall()
    try:
        connection.execute(SQL["begin_pruning"]).fetchall()
        connection.trace_v2(
            apsw.SQLITE_TRACE_PROFILE,
            lambda event: steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
        )
        connection.execute(sql, tuple(map(bound, arguments))).fetchall()
    finally:
        connection.trace_v2(0, None)
        connection.execute("rollback").fetchall()
    return steps[-1]
