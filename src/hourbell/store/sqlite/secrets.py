"""The secrets of jobs on SQLite."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from uuid import UUID

from hourbell.sealing import Sealed
from hourbell.store.base import Conflict, Request
from hourbell.store.bundles import NewSecret
from hourbell.store.queries import load_queries
from hourbell.store.rows import sealed_of
from hourbell.store.secrets import CANARY, SecretRow, refuse_to_put
from hourbell.store.sqlite.auditing import act_once, audit
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.writer import Runner

SQL = load_queries("hourbell.store.sqlite", "secrets.sql")


class SqliteSecretStore:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

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
        def put(session: Session) -> None:
            act_once(session, request, now)
            if session.fetch_one(SQL["lock_job"], secret.job_id) is None:
                raise Conflict("no_such_job", "there is no such job")
            rows = session.fetch(SQL["list_secrets"], [secret.job_id], now)
            refuse_to_put(any(row["field"] == secret.field for row in rows), is_first)
            session.execute(SQL["end_secrets"], secret.job_id, secret.field, old_until)
            session.execute(SQL["delete_ended"], now)
            insert_secrets(session, [secret], now)
            after = json.dumps({"field": secret.field})
            audit(session, now, by, "secret.put", str(secret.job_id), None, after, request)

        await self._runner.write(put)

    async def remove_secret(
        self, job_id: UUID, field: str, now: datetime, by: str, *, request: Request | None = None
    ) -> bool:
        def remove(session: Session) -> bool:
            act_once(session, request, now)
            if not session.execute(SQL["end_secrets"], job_id, field, now):
                return False
            session.execute(SQL["delete_ended"], now)
            session.execute(SQL["forget_unneeded"], CANARY)
            audit(session, now, by, "secret.remove", str(job_id), None, json.dumps({"field": field}), request)
            return True

        return await self._runner.write(remove)

    async def list_secrets(self, job_ids: Sequence[UUID], now: datetime) -> list[SecretRow]:
        ids = list(job_ids)
        rows = await self._runner.read(lambda session: session.fetch(SQL["list_secrets"], ids, now))
        return [SecretRow(**row) for row in rows]

    async def sealed_secrets(self, job_ids: Sequence[UUID], now: datetime) -> list[Sealed]:
        ids = list(job_ids)
        rows = await self._runner.read(lambda session: session.fetch(SQL["secrets_of_jobs"], ids, now))
        return [sealed_of(row) for row in rows]

    async def reseal(
        self, newest: str, limit: int, seal_again: Callable[[Sealed], Sealed], now: datetime, by: str
    ) -> int:
        def reseal(session: Session) -> int:
            again = [seal_again(sealed_of(row)) for row in session.fetch(SQL["sealed_otherwise"], newest, limit)]
            for each in again:
                session.execute(SQL["reseal"], each.id, each.key_id, each.sealed)
            if again:
                count = json.dumps({"secrets": len(again)})
                audit(session, now, by, "secret.reseal", newest, None, count, None)
            return len(again)

        return await self._runner.write(reseal)

    async def canary(self) -> str | None:
        row = await self._runner.read(lambda session: session.fetch_one(SQL["meta"], CANARY))
        return None if row is None else row["value"]

    async def set_canary(self, text: str, *, replace: bool = False) -> None:
        query = SQL["set_meta" if replace else "set_meta_once"]
        await self._runner.write(lambda session: session.execute(query, CANARY, text))


def insert_secrets(session: Session, secrets: Iterable[Sealed], now: datetime) -> None:
    """Insert secrets of jobs, inside the transaction that makes or changes them."""
    for each in secrets:
        session.execute(SQL["insert_secret"], each.id, each.job_id, each.field, each.key_id, each.sealed, now)


def write_secrets(session: Session, secrets: Sequence[NewSecret], now: datetime) -> None:
    """Put new secrets in the place of those before them, inside the transaction that changes their jobs."""
    for each in secrets:
        session.execute(SQL["end_secrets"], each.sealed.job_id, each.sealed.field, each.old_until)
    if secrets:
        session.execute(SQL["delete_ended"], now)
        insert_secrets(session, [each.sealed for each in secrets], now)


def secret_ids(session: Session, job_ids: Sequence[UUID], now: datetime) -> list[UUID]:
    """The secrets of jobs that are valid."""
    return [row["id"] for row in session.fetch(SQL["secrets_of_jobs"], list(job_ids), now)]
