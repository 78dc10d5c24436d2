"""The secrets of jobs on SQLite."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from uuid import UUID

from hourbell.sealing import Sealed
from hourbell.store.base import Conflict, Request
from hourbell.store.bundles import NewSecret
from hourbell.store.changes import ChangedJob, check_version
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
from hourbell.store.sqlite.auditing import act_once, audit
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.writer import Runner

SQL = load_queries("hourbell.store.sqlite", "secrets.sql")


class SqliteSecretStore:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

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
        def put(session: Session) -> None:
            act_once(session, request, now)
            sealed = secret.sealed
            job = session.fetch_one(SQL["lock_job"], sealed.job_id)
            if job is None:
                raise Conflict("no_such_job", "there is no such job")
            check_version(job, expect_version)
            rows = session.fetch(SQL["list_secrets"], [sealed.job_id], now)
            refuse_to_put(any(row["field"] == sealed.field for row in rows), is_first)
            write_secrets(session, [secret], now)
            audit(session, now, by, "secret.put", str(sealed.job_id), None, secret_text(secret), request)

        await self._runner.write(put)

    async def remove_secret(
        self, job_id: UUID, field: str, now: datetime, by: str, *, request: Request | None = None
    ) -> bool:
        def remove(session: Session) -> bool:
            act_once(session, request, now)
            if not session.execute(SQL["remove_secrets"], job_id, field):
                return False
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
        values = (each.id, each.job_id, each.field, each.key_id, each.sealed, each.origin)
        session.execute(SQL["insert_secret"], *values, now)


def write_secrets(session: Session, secrets: Sequence[NewSecret], now: datetime) -> None:
    """Put new secrets in the place of those before them, inside the transaction that changes their jobs."""
    for each in secrets:
        sealed = each.sealed
        ends = (each.old_until, each.waiting_until)
        session.execute(SQL["end_secrets"], sealed.job_id, sealed.field, sealed.origin, *ends)
    if secrets:
        session.execute(SQL["delete_ended"], now)
        insert_secrets(session, [each.sealed for each in secrets], now)


def secret_ids(session: Session, job_ids: Sequence[UUID], now: datetime) -> list[UUID]:
    """The secrets of jobs that are valid."""
    return [row["id"] for row in session.fetch(SQL["secrets_of_jobs"], list(job_ids), now)]


def current_headers(session: Session, job_ids: Sequence[UUID]) -> HeadersByJob:
    """The secret headers that jobs have now."""
    return headers_by_job(session.fetch(SQL["current_headers"], list(job_ids)) if job_ids else ())


def leave_headers(session: Session, changed: Iterable[ChangedJob], now: datetime) -> None:
    """End the headers that jobs leave behind at their old origin, as soon as no run waits for them any more."""
    for each in changed:
        if each.dropped_headers:
            session.execute(SQL["leave_secrets"], *left_values(each, now))
