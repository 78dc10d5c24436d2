"""Who asked for what, on SQLite: each key acts once, and each change leaves one row in the audit.

Every store that users may change something in calls both inside the transaction of the change: `act_once` as its first
statement, `audit` when it has changed something.
"""

from datetime import datetime

from hourbell.store.base import AlreadyAsked, Request
from hourbell.store.queries import load_queries
from hourbell.store.sqlite.connection import Session

SQL = load_queries("hourbell.store.sqlite", "auditing.sql")


def act_once(session: Session, request: Request | None, now: datetime) -> None:
    """Take the key of a request, if it has one, for this transaction; AlreadyAsked if a committed one has it."""
    if request is None or request.key is None:
        return
    if not session.fetch(SQL["act_once"], request.key, request.fingerprint, now):
        raise AlreadyAsked("a request with this key has acted before")


def audit(
    session: Session,
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
    session.execute(SQL["insert_audit"], now, by, action, subject, before, after, call.token_id, call.ip, call.id)
