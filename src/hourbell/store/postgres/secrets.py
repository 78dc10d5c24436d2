"""The secrets of jobs on PostgreSQL."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from hourbell.sealing import Sealed
from hourbell.store.base import Conflict, Request
from hourbell.store.bundles import NewSecret
from hourbell.store.changes import ChangedJob, check_version
from hourbell.store.postgres.auditing import act_once, audit
from hourbell.store.postgres.connections import Connections
from hourbell.store.queries import load_queries
from hourbell.store.rows import sealed_of
from hourbell.store.secrets import (
    CANARY,
    HeadersByJob,
    SecretRow,
    headers_by_job,
    left_values,
    refuse_to_put,
    secret_text,
)

SQL = load_queries("hourbell.store.postgres", "secrets.sql")


class PostgresSecretStore:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def put_secret(
        self,
        secret: NewSecret,
        now: datetime,
        by: str,
        *,
        is_first: bool | None = None,
        expect_version: int | None = None,
        request: Request | None = None,
    ) -> None:
        async with self._connections.transaction() as connection:
            await act_once(connection, request, now)
            sealed = secret.sealed
            job = await connection.fetchrow(SQL["lock_job"], sealed.job_id)
            if job is None:
                raise Conflict("no_such_job", "there is no such job")
            check_version(job, expect_version)
            rows = await connection.fetch(SQL["list_secrets"], [sealed.job_id], now)
            refuse_to_put(any(row["field"] == sealed.field for row in rows), is_first)
            await write_secrets(connection, [secret], now)
            await audit(connection, now, by, "secret.put", str(sealed.job_id), None, secret_text(secret), request)

    async def remove_secret(
        self, job_id: UUID, field: str, now: datetime, by: str, *, request: Request | None = None
    ) -> bool:
        async with self._connections.transaction() as connection:
            await act_once(connection, request, now)
            if await connection.execute(SQL["remove_secrets"], job_id, field) == "DELETE 0":
                return False
            await connection.execute(SQL["forget_unneeded"], CANARY)
            after = json.dumps({"field": field})
            await audit(connection, now, by, "secret.remove", str(job_id), None, after, request)
            return True

    async def list_secrets(self, job_ids: Sequence[UUID], now: datetime) -> list[SecretRow]:
        async with self._connections.connection() as connection:
            return [SecretRow(**row) for row in await connection.fetch(SQL["list_secrets"], job_ids, now)]

    async def sealed_secrets(self, job_ids: Sequence[UUID], now: datetime) -> list[Sealed]:
        async with self._connections.connection() as connection:
            return [sealed_of(row) for row in await connection.fetch(SQL["secrets_of_jobs"], job_ids, now)]

    async def reseal(
        self, newest: str, limit: int, seal_again: Callable[[Sealed], Sealed], now: datetime, by: str
    ) -> int:
        async with self._connections.transaction() as connection:
            rows = await connection.fetch(SQL["sealed_otherwise"], newest, limit)
            again = [seal_again(sealed_of(row)) for row in rows]
            values = [(each.id, each.key_id, each.sealed) for each in again]
            await connection.executemany(SQL["reseal"], values)
            if again:
                count = json.dumps({"secrets": len(again)})
                await audit(connection, now, by, "secret.reseal", newest, None, count, None)
            return len(again)

    async def canary(self) -> str | None:
        async with self._connections.connection() as connection:
            found: str | None = await connection.fetchval(SQL["meta"], CANARY)
            return found

    async def set_canary(self, text: str, *, replace: bool = False) -> None:
        async with self._connections.connection() as connection:
            await connection.execute(SQL["set_meta" if replace else "set_meta_once"], CANARY, text)


async def insert_secrets(connection: Any, secrets: Iterable[Sealed], now: datetime) -> None:
    """Insert secrets of jobs, inside the transaction that makes or changes them."""
    rows = [(each.id, each.job_id, each.field, each.key_id, each.sealed, each.origin, now) for each in secrets]
    await connection.executemany(SQL["insert_secret"], rows)


async def write_secrets(connection: Any, secrets: Sequence[NewSecret], now: datetime) -> None:
    """Put new secrets in the place of those before them, inside the transaction that changes their jobs."""
    for each in secrets:
        sealed = each.sealed
        ends = (each.old_until, each.waiting_until)
        await connection.execute(SQL["end_secrets"], sealed.job_id, sealed.field, sealed.origin, *ends)
    if secrets:
        await connection.execute(SQL["delete_ended"], now)
        await insert_secrets(connection, [each.sealed for each in secrets], now)


async def secret_ids(connection: Any, job_ids: Sequence[UUID], now: datetime) -> list[UUID]:
    """The secrets of jobs that are valid."""
    return [row["id"] for row in await connection.fetch(SQL["secrets_of_jobs"], job_ids, now)]


async def current_headers(connection: Any, job_ids: Sequence[UUID]) -> HeadersByJob:
    """The secret headers that jobs have now."""
    return headers_by_job(await connection.fetch(SQL["current_headers"], job_ids) if job_ids else ())


async def leave_headers(connection: Any, changed: Iterable[ChangedJob], now: datetime) -> None:
    """End the headers that jobs leave behind at their old origin, as soon as no run waits for them any more."""
    for each in changed:
        if each.dropped_headers:
            await connection.execute(SQL["leave_secrets"], *left_values(each, now))
