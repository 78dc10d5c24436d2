"""A burst to be planned: of very many jobs some are due at one instant, daily ones, and the others in ten years.

It can be put back, so that each round plans the same.
"""

from datetime import UTC, datetime, timedelta

from bench.limits.databases import Database
from bench.limits.task_jobs import add_task_jobs
from hourbell.store.sqlite.values import microseconds

AT = datetime(2030, 1, 1, 3, tzinfo=UTC)
BEFORE, NOW = AT - timedelta(minutes=1), AT + timedelta(seconds=1)
DAY = timedelta(days=1)
FIRST, MAX_PASS_JOBS = 20, 1_000  # jobs of a pass: the first is small, and each next one twice as large
_PUT_BACK = "update {t}jobs set cursor_at = {cursor}, next_at = {at}, plan_at = {at} where name like 'due-%'"


def next_limit(limit: int) -> int:
    """The size of the pass after one that was full, as the planner of a node has it."""
    return min(MAX_PASS_JOBS, 2 * limit)


def add_burst(database: Database, jobs: int, due: int) -> None:
    add_task_jobs(database, jobs - due)
    add_task_jobs(database, due, prefix="due", schedule="0 3 * * *", due=AT)


def put_back(database: Database) -> None:
    """Let the same jobs be due again, with no run planned."""
    if database.name == "PostgreSQL":
        cursor, at = f"timestamptz '{BEFORE}'", f"timestamptz '{AT}'"
        prefix, clear = "hourbell.", "truncate hourbell.runs"
    else:
        cursor, at = str(microseconds(BEFORE)), str(microseconds(AT))
        prefix, clear = "hourbell_", "delete from hourbell_runs"
    database.ask(clear)
    database.ask(_PUT_BACK.format(t=prefix, cursor=cursor, at=at))
    database.tidy()


def planned(database: Database) -> int:
    """Count the waiting runs."""
    return database.unfinished()
