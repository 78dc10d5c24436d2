"""The secrets of jobs on PostgreSQL."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from hourbell.sealing import Sealed
from hourbell.store.base import Conflict, Request
from hourbell.store.bundles import NewSecret
from hourbell.store.postgres.auditing import act_once, audit
from hourbell.store.postgres.connections import Connections
from hourbell.store.queries import load_queries
from hourbell.store.rows import sealed_of
from hourbell.store.secrets import CANARY, SecretRow, refuse_to_put

SQL = load_queries("hourbell.store.postgres", "secrets.sql")


class PostgresSecretStore:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def put_secret(
        self,
        secret: Sealed,
        now: datetime,
        by: str,
        *,
        old_until: datetime,
        is_first: bool | None = None,
        request: Request | None = None,
    ) -> None:
        async with self._connections.transaction() as connection:
            await act_once(connection, request, now)
            if await connection.fetchval(SQL["lock_job"], secret.job_id) is None:
                raise Conflict("no_such_job", "there is no such job")
            rows = await connection.fetch(SQL["list_secrets"], [secret.job_id], now)
            refuse_to_put(any(row["field"] == secret.field for row in rows), is_first)
            await connection.execute(SQL["end_secrets"], secret.job_id, secret.field, old_until)
            await connection.execute(SQL["delete_ended"], now)
            await insert_secrets(connection, [secret], now)
            after = json.dumps({"field": secret.field})
            await audit(connection, now, by, "secret.put", str(secret.job_id), None, after, request)

    async def remove_secret(
        self, job_id: UUID, field: str, now: datetime, by: str, *, request: Request | None = None
    ) -> bool:
        async with self._connections.transaction() as connection:
            await act_once(connection, request, now)
            if await connection.execute(SQL["end_secrets"], job_id, field, now) == "UPDATE 0":
                return False
            await connection.execute(SQL["delete_ended"], now)
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
    rows = [(each.id, each.job_id, each.field, each.key_id, each.sealed, now) for each in secrets]
    await connection.executemany(SQL["insert_secret"], rows)


async def write_secrets(connection: Any, secrets: Sequence[NewSecret], now: datetime) -> None:
    """Put new secrets in the place of those before them, inside the transaction that changes their jobs."""
    for each in secrets:
        await connection.execute(SQL["end_secrets"], each.sealed.job_id, each.sealed.field, each.old_until)
    if secrets:
        await connection.execute(SQL["delete_ended"], now)
        await insert_secrets(connection, [each.sealed for each in secrets], now)


async def secret_ids(connection: Any, job_ids: Sequence[UUID], now: datetime) -> list[UUID]:
    """The secrets of jobs that are valid."""
    return [row["id"] for row in await connection.fetch(SQL["secrets_of_jobs"], job_ids, now)]
