"""The doctor's reads on PostgreSQL. A batch is one read-only transaction that sees one snapshot."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from hourbell.core.doctor.deployment import AccessFacts
from hourbell.core.doctor.facts import AlertNames, Cluster, HeldRun, JobFacts, LaneFacts, NodeFacts, RunFacts, Schema
from hourbell.core.doctor.repairs import Dialect
from hourbell.core.job.conflicts import JobConflict
from hourbell.core.job.target import OWN_DATABASE
from hourbell.store.control.access import ACCESS_OPEN
from hourbell.store.control.audit_chain import ChainReader
from hourbell.store.doctor import JOBS_AT_ONCE, MAX_JOB_ROWS, RUNS_AT_ONCE, groups_of, job_facts
from hourbell.store.lists.pages import numbered
from hourbell.store.lists.views import job_conflict
from hourbell.store.postgres.connections import Connections
from hourbell.store.postgres.hosts import why_read_only
from hourbell.store.postgres.lists import SQL as LISTS
from hourbell.store.postgres.session import STATEMENTS, PostgresSession
from hourbell.store.rows import Row
from hourbell.store.sql.queries import load_queries

SQL = load_queries("hourbell.store.postgres", "doctor.sql")
_NOBODY = UUID(int=0)


class PostgresDoctorStore:
    dialect = Dialect.POSTGRESQL

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.audit_chain = ChainReader(self._fetch)

    async def sample_time(self) -> datetime:
        async with self._reading() as connection:
            time: datetime = await connection.fetchval(SQL["sample_time"])
            return time

    async def schema(self) -> Schema:
        async with self._connections.connection() as connection:
            read_only = await why_read_only(connection)
        async with self._reading() as connection:
            has_migrations = await connection.fetchval("select to_regclass('hourbell.migrations')") is not None
            return Schema(
                applied=dict(await connection.fetch(SQL["applied"])) if has_migrations else {},
                objects=frozenset(tuple(row) for row in await connection.fetch(SQL["objects"])),
                invalid_indexes=tuple(row[0] for row in await connection.fetch(SQL["invalid_indexes"])),
                disabled_triggers=tuple(tuple(row) for row in await connection.fetch(SQL["disabled_triggers"])),
                settings=dict(await connection.fetch(SQL["settings"])),
                read_only=read_only,
            )

    async def damage(self) -> list[str]:
        return []  # PostgreSQL's own tools (amcheck, checksums) need more rights than a node has

    async def cluster(self) -> Cluster:
        async with self._reading() as connection:
            nodes = await connection.fetch(SQL["nodes"])
            meta: dict[str, str] = dict(await connection.fetch(SQL["meta"]))
        return Cluster(tuple(map(_node, nodes)), meta.get("tzdata"), meta.get("planned_by_tzdata"))

    async def secrets_elsewhere(self) -> list[tuple[str, str, str | None, str]]:
        async with self._reading() as connection:
            return [tuple(row) for row in await connection.fetch(SQL["secrets_elsewhere"])]

    async def alert_names(self) -> AlertNames:
        async with self._reading() as connection:
            unknown = [tuple(row) for row in await connection.fetch(SQL["unknown_policies"])]
            policies = [tuple(row) for row in await connection.fetch(SQL["alert_policies"])]
            channels = [row["name"] for row in await connection.fetch(SQL["channel_names"])]
        return AlertNames(tuple(unknown), tuple(policies), frozenset(channels))

    async def conflicts(self, beat_after: datetime) -> list[JobConflict]:
        statement, _ = numbered(LISTS["job_conflicts"], "$")
        async with self._reading() as connection:
            return [job_conflict(row) for row in await connection.fetch(statement, beat_after)]

    async def lanes(self, now: datetime) -> list[LaneFacts]:
        async with self._reading() as connection:
            return [LaneFacts(*row) for row in await connection.fetch(SQL["lanes"], now)]

    async def expired(self, before: datetime) -> list[HeldRun]:
        async with self._reading() as connection:
            return [HeldRun(*row) for row in await connection.fetch(SQL["expired"], before)]

    async def overlapping(self) -> list[tuple[HeldRun, ...]]:
        async with self._reading() as connection:
            runs = [HeldRun(*row) for row in await connection.fetch(SQL["overlapping"])]
        return [tuple(group) for _, group in groupby(runs, key=lambda run: run.job_id)]

    async def runs(self) -> AsyncIterator[Sequence[RunFacts]]:
        after = _NOBODY
        while True:
            async with self._reading() as connection:
                found = [RunFacts._make(row) for row in await connection.fetch(SQL["runs"], after, RUNS_AT_ONCE)]
            yield found
            if len(found) < RUNS_AT_ONCE:
                return
            after = found[-1].id

    async def histories(self) -> AsyncIterator[Sequence[JobFacts]]:
        after = _NOBODY
        while True:
            async with self._reading() as connection:
                weights = await connection.fetch(SQL["weights"], after, JOBS_AT_ONCE, MAX_JOB_ROWS)
            for group in groups_of(tuple(row) for row in weights):
                yield await self._histories_of(group)
            if len(weights) < JOBS_AT_ONCE:
                return
            after = weights[-1][0]

    async def _histories_of(self, ids: list[UUID]) -> list[JobFacts]:
        async with self._reading() as connection:
            jobs = await connection.fetch(SQL["jobs"], ids)
            runs = _by_job(await connection.fetch(SQL["newest_runs"], ids, MAX_JOB_ROWS))
            skips = _by_job(await connection.fetch(SQL["newest_skips"], ids, MAX_JOB_ROWS))
        return [job_facts(row, runs.get(row["id"], ()), skips.get(row["id"], ())) for row in jobs]

    async def access(self, now: datetime) -> AccessFacts:
        async with self._reading() as connection:
            return AccessFacts(
                is_open=await connection.fetchval(STATEMENTS["is_open"].text, ACCESS_OPEN),
                valid_tokens=await connection.fetchval(STATEMENTS["count_valid_tokens"].text, now),
                own_function_jobs=await connection.fetchval(SQL["jobs_of_lane"], f"sql:{OWN_DATABASE}"),
                superuser=await connection.fetchval(SQL["superuser"]),
            )

    async def _fetch(self, statement: str, /, **values: Any) -> Sequence[Row]:
        async with self._reading() as connection:
            return await PostgresSession(connection).fetch(statement, **values)

    async def close(self) -> None:
        await self._connections.close()

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[Any]:
        async with (
            self._connections.connection() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            yield connection


def _node(row: Any) -> NodeFacts:
    lanes = tuple(row["lanes"])
    return NodeFacts(row["id"], row["host"], row["started_at"], row["beat_at"], lanes, row["tzdata"])


def _by_job(rows: Iterable[Any]) -> dict[UUID, list[tuple[Any, ...]]]:
    """Group rows by the job's id in their first column, without it, in their order."""
    found: dict[UUID, list[tuple[Any, ...]]] = {}
    for job_id, *values in rows:
        found.setdefault(job_id, []).append(tuple(values))
    return found
