"""The doctor's reads on SQLite, on a separate connection that cannot write and never creates a file.

The doctor's process does nothing else, so it reads on the caller's thread.
"""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import groupby
from random import Random
from typing import Any
from uuid import UUID

import apsw

from hourbell.core.doctor.deployment import AccessFacts
from hourbell.core.doctor.facts import AlertNames, Cluster, HeldRun, JobFacts, LaneFacts, NodeFacts, RunFacts, Schema
from hourbell.core.doctor.repairs import Dialect
from hourbell.core.job.conflicts import JobConflict
from hourbell.store.control.access import ACCESS_OPEN
from hourbell.store.control.audit_chain import ChainReader
from hourbell.store.doctor import JOBS_AT_ONCE, MAX_JOB_ROWS, RUNS_AT_ONCE, groups_of, job_facts
from hourbell.store.lists.pages import numbered
from hourbell.store.lists.views import job_conflict
from hourbell.store.rows import Row
from hourbell.store.sql.queries import load_queries
from hourbell.store.sqlite.connection import Patience, Session, reachable
from hourbell.store.sqlite.file_trouble import why_unwritable
from hourbell.store.sqlite.lists import SQL as LISTS
from hourbell.store.sqlite.session import STATEMENTS
from hourbell.store.sqlite.values import EPOCH, array, instant_of, microseconds

SQL = load_queries("hourbell.store.sqlite", "doctor.sql")
_LOCAL_EPOCH = EPOCH.replace(tzinfo=None)
_CACHE_KIB = 32_768
_MAX_DAMAGE_LINES = 100  # lines


class SqliteDoctorStore:
    dialect = Dialect.SQLITE

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: apsw.Connection | None = None
        self.audit_chain = ChainReader(self._fetch)

    async def sample_time(self) -> datetime:
        with self._reading() as connection:
            return instant_of(connection.execute(SQL["sample_time"]).get)

    async def schema(self) -> Schema:
        with self._reading() as connection:
            has_migrations = connection.execute(SQL["has_migrations"]).get is not None
            return Schema(
                applied=dict(connection.execute(SQL["applied"])) if has_migrations else {},
                objects=frozenset(connection.execute(SQL["objects"])),
                settings={"journal_mode": connection.pragma("journal_mode")},
                unwritable=why_unwritable(self._path),
            )

    async def damage(self) -> list[str]:
        with self._reading() as connection:
            lines = [line for (line,) in connection.execute(f"pragma quick_check({_MAX_DAMAGE_LINES})")]
        return [] if lines == ["ok"] else lines

    async def cluster(self) -> Cluster:
        with self._reading() as connection:
            nodes = connection.execute(SQL["nodes"]).fetchall()
            meta = dict(connection.execute(SQL["meta"]))
        return Cluster(tuple(_node(*row) for row in nodes), meta.get("tzdata"), meta.get("planned_by_tzdata"))

    async def secrets_elsewhere(self) -> list[tuple[str, str, str | None, str]]:
        with self._reading() as connection:
            return list(connection.execute(SQL["secrets_elsewhere"]))

    async def alert_names(self) -> AlertNames:
        with self._reading() as connection:
            unknown = connection.execute(SQL["unknown_policies"]).fetchall()
            policies = connection.execute(SQL["alert_policies"]).fetchall()
            channels = [name for (name,) in connection.execute(SQL["channel_names"])]
        return AlertNames(tuple(unknown), tuple(policies), frozenset(channels))

    async def conflicts(self, beat_after: datetime) -> list[JobConflict]:
        statement, _ = numbered(LISTS["job_conflicts"], "?")
        with self._reading() as connection:
            return [job_conflict(row) for row in Session(connection).fetch(statement, beat_after)]

    async def lanes(self, now: datetime) -> list[LaneFacts]:
        with self._reading() as connection:
            rows = connection.execute(SQL["lanes"], (microseconds(now),)).fetchall()
        return [LaneFacts(lane, waiting, instant_of(oldest)) for lane, waiting, oldest in rows]

    async def expired(self, before: datetime) -> list[HeldRun]:
        with self._reading() as connection:
            return [_held(*row) for row in connection.execute(SQL["expired"], (microseconds(before),))]

    async def overlapping(self) -> list[tuple[HeldRun, ...]]:
        with self._reading() as connection:
            runs = [_held(*row) for row in connection.execute(SQL["overlapping"])]
        return [tuple(group) for _, group in groupby(runs, key=lambda run: run.job_id)]

    async def runs(self) -> AsyncIterator[Sequence[RunFacts]]:
        after = -1 << 63
        while True:
            with self._reading() as connection:
                rows = connection.execute(SQL["runs"], (after, RUNS_AT_ONCE)).fetchall()
            yield [_run(*row[1:]) for row in rows]
            if len(rows) < RUNS_AT_ONCE:
                return
            after = rows[-1][0]

    async def histories(self) -> AsyncIterator[Sequence[JobFacts]]:
        after = b""
        while True:
            with self._reading() as connection:
                weights = connection.execute(SQL["weights"], (after, JOBS_AT_ONCE, MAX_JOB_ROWS)).fetchall()
            for group in groups_of((UUID(bytes=job_id), weight) for job_id, weight in weights):
                with self._reading() as connection:
                    facts = _histories_of(connection, group)
                yield facts
            if len(weights) < JOBS_AT_ONCE:
                return
            after = weights[-1][0]

    async def _fetch(self, statement: str, /, **values: Any) -> Sequence[Row]:
        found = STATEMENTS[statement]
        with self._reading() as connection:
            return Session(connection).fetch(found.text, *found.bind(values))

    async def access(self, now: datetime) -> AccessFacts:
        with self._reading() as connection:
            return AccessFacts(
                is_open=bool(connection.execute(STATEMENTS["is_open"].text, (ACCESS_OPEN,)).get),
                valid_tokens=connection.execute(STATEMENTS["count_valid_tokens"].text, (microseconds(now),)).get,
                own_function_jobs=0,  # SQLite has no functions to call
            )

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """Open a read transaction, which sees one snapshot of the database."""
        with reachable(self._path):
            if self._connection is None:
                self._connection = _open(self._path)
            self._connection.execute("begin").fetchall()
            try:
                yield self._connection
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("rollback").fetchall()


def _open(path: str) -> apsw.Connection:
    """Open a connection that refuses to write. It opens the file read-write, because the last reader cleans up."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
    try:
        connection.set_busy_handler(Patience(Random(0)))
        connection.pragma("query_only", True)
        connection.pragma("cache_size", -_CACHE_KIB)
        connection.execute("select count(*) from sqlite_schema").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _histories_of(connection: Any, ids: list[UUID]) -> list[JobFacts]:
    """Return jobs with their newest runs and skips. A job that has more of them than LOOK_BACK must be alone."""
    given, limit = array(ids), MAX_JOB_ROWS if len(ids) == 1 else -1
    jobs = Session(connection).fetch(SQL["jobs"], given)
    runs: dict[bytes, list[tuple[Any, ...]]] = {}
    for job_id, at, local, version, kind, planned, end in connection.execute(SQL["newest_runs"], (given, limit)):
        ended_at = None if end is None else instant_of(end)
        mark = (instant_of(at), _local_of(local), version, kind, instant_of(planned), ended_at)
        runs.setdefault(job_id, []).append(mark)
    skips: dict[bytes, list[tuple[Any, ...]]] = {}
    for job_id, first_at, last_at, count, reason in connection.execute(SQL["newest_skips"], (given, limit)):
        skips.setdefault(job_id, []).append((instant_of(first_at), instant_of(last_at), count, reason))
    return [job_facts(row, runs.get(row["id"].bytes, ()), skips.get(row["id"].bytes, ())) for row in jobs]


def _local_of(value: int) -> datetime:
    return _LOCAL_EPOCH + timedelta(microseconds=value)


def _run(run_id: bytes, job_id: bytes, name: str | None, kind: str, scheduled_at: int, *more: Any) -> RunFacts:
    return RunFacts(UUID(bytes=run_id), UUID(bytes=job_id), name, kind, instant_of(scheduled_at), *more)


def _held(run_id: bytes, job_id: bytes, lease_until: int | None) -> HeldRun:
    until = None if lease_until is None else instant_of(lease_until)
    return HeldRun(UUID(bytes=run_id), UUID(bytes=job_id), until)


def _node(node_id: bytes, host: str, started_at: int, beat_at: int, lanes: str, tzdata: str) -> NodeFacts:
    return NodeFacts(
        UUID(bytes=node_id), host, instant_of(started_at), instant_of(beat_at), tuple(json.loads(lanes)), tzdata
    )
