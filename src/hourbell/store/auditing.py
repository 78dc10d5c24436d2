"""Changes that users ask for: each key acts once, and each change leaves one row in the audit."""

import json
from typing import Any, TypeVar

from hourbell.core.job.definition import Definition
from hourbell.store.actor import Actor
from hourbell.store.errors import AlreadyAsked
from hourbell.store.rows import definition_text
from hourbell.store.session import Session, Sessions, Verb

T = TypeVar("T")


async def act(sessions: Sessions, actor: Actor, verb: Verb[T]) -> T:
    """Run a verb as one transaction, which takes the key of the actor's request first, if it has one.

    AlreadyAsked if a committed change has the key. Where another one is about to commit it, this waits for its end.
    """

    async def act_once(session: Session) -> T:
        request = actor.request
        if request.key is not None and not await session.fetch(
            "act_once", key=request.key, fingerprint=request.fingerprint, now=actor.at
        ):
            raise AlreadyAsked("a request with this key has acted before")
        return await verb(session)

    return await sessions.transact(act_once)


async def audit(
    session: Session, actor: Actor, action: str, subject: object, before: Any = None, after: Any = None
) -> None:
    """Write down a change, inside its transaction: what was before and is after, a definition or plain values."""
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
