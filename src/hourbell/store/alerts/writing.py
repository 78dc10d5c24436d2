"""Steps that change channels and alert policies, inside the caller's transaction; each writes one audit row."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from hourbell.core.alerts.channel import ParsedChannel, system_job
from hourbell.core.alerts.policy import AlertPolicy, policy_to_body
from hourbell.core.job.change import created
from hourbell.store.control.actor import Actor
from hourbell.store.control.auditing import audit
from hourbell.store.control.bundles import owner_text
from hourbell.store.control.changes import NewJob
from hourbell.store.control.changing import insert_jobs
from hourbell.store.control.session import Session
from hourbell.store.errors import Conflict, NameTaken
from hourbell.store.rows import UNREADABLE, Row

MAX_CHANNEL_ROWS, MAX_POLICY_ROWS = 100, 200  # every transaction of a watcher reads all of them


class Owner(NamedTuple):
    """The owner of a channel or a policy, as `managed_by` and `source` of a job."""

    managed_by: str = "api"
    source: str = ""

    def __str__(self) -> str:
        return owner_text(*self)


OWN = Owner()


def owner_of(row: Row) -> Owner:
    return Owner(row["managed_by"], row["source"])


def refuse_owned(row: Row | None, what: str, *, take_over: bool) -> None:
    """Raise Conflict if a jobs file manages the channel or policy, which would put it back."""
    if row is not None and owner_of(row) != OWN and not take_over:
        raise Conflict(
            "owned_by_another",
            f"the {what} belongs to {owner_of(row)}, which would put it back; "
            "change it there, or take it over (take_over=true)",
        )


async def write_channel(
    session: Session, name: str, parsed: ParsedChannel, job_id: UUID, before: Row | None, owner: Owner, actor: Actor
) -> None:
    """Create a channel and its system job, or change it. Its secrets are written by the caller.

    `Conflict` if a job has the name that its system job needs.
    """
    if before is None:
        definition = system_job(name)
        try:
            await session.refuse_taken_name(definition.name, job_id)
        except NameTaken:
            raise name_taken(name) from None
        await insert_jobs(session, [NewJob(job_id, created(definition, actor.at))], actor)
    values: dict[str, Any] = {"name": name, "type": parsed.type, "config": json.dumps(dict(parsed.config))}
    values |= {"origin": parsed.origin, "job_id": job_id, "now": actor.at, "by": actor.by, **owner._asdict()}
    await session.execute("put_channel", **values)
    after = {"type": parsed.type, "config": dict(parsed.config), "secrets": sorted(parsed.secrets)}
    action = "channel.create" if before is None else "channel.edit"
    await audit(session, actor, action, name, None if before is None else _audited(before), after)


async def remove_channel(session: Session, row: Row, actor: Actor) -> None:
    """Delete a channel with its secrets, and cancel its waiting messages."""
    await session.cancel_waiting([row["job_id"]], actor.at, every_kind=True)
    await session.execute("delete_secrets", job_ids=[row["job_id"]])
    await session.execute("delete_channel", name=row["name"])
    await session.execute("mark_deleted", ids=[row["job_id"]], now=actor.at)
    await audit(session, actor, "channel.delete", row["name"], before=_audited(row))


async def write_policy(
    session: Session, name: str, policy: AlertPolicy, before: Row | None, owner: Owner, actor: Actor
) -> None:
    """Create or replace a policy. `Conflict` if one that was not there has just been created."""
    body = policy_to_body(policy)
    values = {"name": name, "definition": json.dumps(body), "now": actor.at, "by": actor.by, **owner._asdict()}
    if not await session.fetch("put_alert_policy" if before else "insert_alert_policy", **values):
        raise Conflict("alert_policy_changed", "the alert policy has just been created; look at it, and try again")
    action = "alert_policy.create" if before is None else "alert_policy.edit"
    await audit(session, actor, action, name, None if before is None else readable(before["definition"]), body)


async def remove_policy(session: Session, row: Row, actor: Actor) -> None:
    await session.execute("delete_alert_policy", name=row["name"])
    await audit(session, actor, "alert_policy.delete", row["name"], before=readable(row["definition"]))


def name_taken(channel: str) -> Conflict:
    job = system_job(channel).name
    return Conflict("name_taken", f"a job has the name {job}, which this channel needs; rename the job")


def readable(text: str) -> Any:
    """Return stored JSON; None if it cannot be read."""
    try:
        return json.loads(text)
    except UNREADABLE:
        return None


def _audited(row: Row) -> Mapping[str, Any]:
    """Return a channel for the audit; its config holds no secret."""
    return {"type": row["type"], "config": readable(row["config"])}
