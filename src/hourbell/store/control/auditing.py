"""Helpers for changes by users: each idempotency key acts once, and each change writes one audit row."""

import json
from typing import Any, TypeVar

from hourbell.core.job.definition import Definition
from hourbell.store.control.actor import Actor
from hourbell.store.control.session import Session, Sessions, Verb
from hourbell.store.errors import AlreadyAsked
from hourbell.store.rows import definition_text

T = TypeVar("T")


async def act(sessions: Sessions, actor: Actor, verb: Verb[T]) -> T:
    """Run a verb as one transaction, which first takes the key of the actor's request, if there is one.

    Raises AlreadyAsked if a committed change has the key; waits for a transaction that is about to commit it.
    """

    async def act_once(session: Session) -> T:
        request = actor.request
        if request.key is not None and not await session.fetch(
            "act_once", key=request.key, fingerprint=request.fingerprint, now=actor.at
        ):
            raise AlreadyAsked("a request with this idempotency key was already carried out")
        return await verb(session)

    return await sessions.transact(act_once)


async def audit(
    session: Session, actor: Actor, action: str, subject: object, before: Any = None, after: Any = None
) -> None:
    """Write the audit row of a change, inside its transaction; `before` and `after` are definitions or plain values."""
    request = actor.request
    await session.execute(
        "insert_audit",
        at=actor.at,
        actor=actor.by,
        action=action,
        subject=str(subject),
        before=_text(before),
        after=_text(after),
        token_id=request.token_id,
        ip=request.ip,
        request_id=request.id,
    )


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return definition_text(value) if isinstance(value, Definition) else json.dumps(value)
