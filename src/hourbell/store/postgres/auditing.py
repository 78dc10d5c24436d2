"""Who asked for what, on PostgreSQL: each key acts once, and each change leaves one row in the audit.

Every store that users may change something in calls both inside the transaction of the change: `act_once` as its first
statement, `audit` when it has changed something.
"""

from datetime import datetime
from typing import Any

from hourbell.store.base import AlreadyAsked, Request
from hourbell.store.queries import load_queries

SQL = load_queries("hourbell.store.postgres", "auditing.sql")


async def act_once(connection: Any, request: Request | None, now: datetime) -> None:
    """Take the key of a request, if it has one, for this transaction; AlreadyAsked if a committed one has it.

    Where another transaction is about to commit the same key, this waits for its end.
    """
    if request is None or request.key is None:
        return
    if await connection.fetchval(SQL["act_once"], request.key, request.fingerprint, now) is None:
        raise AlreadyAsked("a request with this key has acted before")


async def audit(
    connection: Any,
    now: datetime,
    by: str,
    action: str,
    subject: str,
    before: str | None,
    after: str | None,
    request: Request | None,
) -> None:
    """Write down a change with the call behind it. What was before and is after are JSON text."""
    call = request or Request()
    values = (now, by, action, subject, before, after, call.token_id, call.ip, call.id)
    await connection.execute(SQL["insert_audit"], *values)
