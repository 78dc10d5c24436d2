"""The decision about an incident: what to do, given what is wrong now.

`watch` is the only function that opens, repeats, escalates and resolves. Its arguments are what was read inside one
transaction, and the caller writes the decision and its messages in that same transaction, so no message is lost between
fact and message, and none is sent for something that was not stored.

| trouble | incident | decision |
| --- | --- | --- |
| none | none, or resolved | nothing |
| none | unresolved | resolve; if it flaps, keep it until it has been calm for `CALM` |
| yes | none, or resolved | open; the first message goes out now, or later if it is held |
| yes | unresolved, its next step is due | tell, escalate, repeat, or digest |
| yes | unresolved | keep, with what was seen last |
| yes, another error | acknowledged | resolve without a message, then open: nobody takes care of that one yet |

A message is held while the incident is muted, in quiet hours, while `held` (recovery mode), and for `GROUP_WAIT` if
many jobs may have the same trouble. A trouble that ends while its first message is held is never notified:
neither its start nor its end.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hourbell.core.alerts.incident import Incident, Trouble, incident_id
from hourbell.core.alerts.kinds import Event, IncidentKind, IncidentState
from hourbell.core.alerts.policy import AlertPolicy

GROUP_WAIT = timedelta(seconds=10)  # so that the first message about a dead host counts its jobs
HELD_WAIT = timedelta(seconds=30)
ONE_DAY = timedelta(days=1)
CALM = timedelta(hours=6)  # a flapping incident is resolved when it has been calm for so long


class Move(StrEnum):
    NOTHING = "nothing"
    OPEN = "open"
    KEEP = "keep"
    NOTIFY = "notify"  # the first message of an incident that was opened before
    REPEAT = "repeat"
    ESCALATE = "escalate"
    RESOLVE = "resolve"
    REPLACE = "replace"  # resolve the incident without a message; the caller watches again, without it


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision. `incident` is what is stored from now on; None if there is nothing to store.

    `event` is the message to plan, for the channels in `notify` (None: every channel), ready at `send_at`; None if
    there is no message.
    """

    move: Move
    incident: Incident | None = None
    event: Event | None = None
    notify: tuple[str, ...] | None = ()
    send_at: datetime | None = None


NOTHING = Decision(Move.NOTHING)


def watch(
    trouble: Trouble | None,
    name: str,
    policy: AlertPolicy,
    incident: Incident | None,
    now: datetime,
    *,
    opened_before: int = 0,
    held: bool = False,
) -> Decision:
    """Decide what to do about one key. `name` is that of the policy.

    `opened_before` is the number of incidents of this key that were opened and notified in the last 24 hours. `held` is
    true in recovery mode, when one incident speaks for all.
    """
    if incident is None or incident.is_resolved:
        return NOTHING if trouble is None else _open(trouble, name, policy, now, opened_before, held=held)
    if trouble is None:
        return _ended(incident, policy, now)
    if incident.state is IncidentState.ACKNOWLEDGED and trouble.fingerprint != incident.fingerprint:
        return Decision(Move.REPLACE, _resolved(incident, now))
    return _step(_seen(incident, trouble, now), trouble, policy, now, held=held)


def _open(
    trouble: Trouble, name: str, policy: AlertPolicy, now: datetime, opened_before: int, *, held: bool
) -> Decision:
    incident = Incident(
        id=incident_id(trouble.key, now),
        key=trouble.key,
        kind=trouble.kind,
        state=IncidentState.OPEN,
        policy=name,
        opened_at=now,
        last_at=now,
        job_id=trouble.job_id,
        run_id=trouble.run_id,
        lane=trouble.lane,
        error=trouble.error,
        fingerprint=trouble.fingerprint,
        count=trouble.count,
        group_size=trouble.group_size,
        opened_before=opened_before,
    )
    until = _held_until(incident, policy, now, held=held)
    if until is None and waits_for_others(trouble, policy):
        until = now + GROUP_WAIT
    if until is not None:
        return Decision(Move.OPEN, replace(incident, next_at=until))
    return _notified(Move.OPEN, incident, _first_event(incident), policy.notify, policy, now)


def waits_for_others(trouble: Trouble, policy: AlertPolicy) -> bool:
    """Return True if the first message waits: for the other jobs of a host, for a run that is about to make up, or, in
    recovery mode, until the backlog is planned and can be counted."""
    is_grouped = policy.group == "host" and trouble.lane is not None and trouble.kind is IncidentKind.FAILED
    return is_grouped or trouble.kind in (IncidentKind.LATE, IncidentKind.MISSED, IncidentKind.RECOVERY)


def _step(incident: Incident, trouble: Trouble, policy: AlertPolicy, now: datetime, *, held: bool) -> Decision:
    """Plan the message that is due, if one is."""
    if incident.next_at is None or now < incident.next_at:
        return Decision(Move.KEEP, incident)
    if (until := _held_until(incident, policy, now, held=held)) is not None:
        return Decision(Move.KEEP, replace(incident, next_at=until))
    if incident.notified_at is None:
        return _notified(Move.NOTIFY, incident, _first_event(incident), policy.notify, policy, now)
    if incident.state is IncidentState.ACKNOWLEDGED:
        return Decision(Move.KEEP, replace(incident, next_at=None))
    due = [step for step in policy.escalate if incident.opened_at + step.after <= now]
    if len(due) > incident.escalated:
        names = tuple(dict.fromkeys(name for step in due[incident.escalated :] for name in step.notify))
        escalated = replace(incident, escalated=len(due))
        return _notified(Move.ESCALATE, escalated, Event.ESCALATED, names, policy, now)
    if incident.is_flapping and trouble.since > incident.notified_at:
        if now < incident.notified_at + ONE_DAY:  # it has come and gone since the last message: the digest will say so
            return Decision(Move.KEEP, replace(incident, next_at=_next_step(incident, policy, now)))
        return _notified(Move.REPEAT, incident, Event.DIGEST, _notified_channels(incident, policy), policy, now)
    if policy.repeat is not None and incident.notified_at + policy.repeat <= now:
        return _notified(Move.REPEAT, incident, Event.REPEATED, _notified_channels(incident, policy), policy, now)
    return Decision(Move.KEEP, replace(incident, next_at=_next_step(incident, policy, now)))


def _ended(incident: Incident, policy: AlertPolicy, now: datetime) -> Decision:
    """Resolve an incident whose trouble is over."""
    if incident.is_flapping and incident.notified_at is not None:
        calm_at = incident.last_at + CALM
        if now < calm_at:
            return Decision(Move.KEEP, replace(incident, next_at=calm_at))
    resolved = _resolved(incident, now)
    if incident.notified_at is None or not policy.resolve or incident.is_muted(now):
        return Decision(Move.RESOLVE, resolved)
    quiet_until = policy.quiet_hours.until(now) if policy.quiet_hours else None
    return Decision(
        Move.RESOLVE,
        replace(resolved, steps=incident.steps + 1),
        Event.RESOLVED,
        _notified_channels(incident, policy),
        quiet_until or now,
    )


def _notified(
    move: Move,
    incident: Incident,
    event: Event,
    notify: tuple[str, ...] | None,
    policy: AlertPolicy,
    now: datetime,
) -> Decision:
    results = replace(incident, steps=incident.steps + 1, notified_at=now)
    return Decision(move, replace(results, next_at=_next_step(results, policy, now)), event, notify, now)


def _seen(incident: Incident, trouble: Trouble, now: datetime) -> Incident:
    """Update an incident by what is wrong now."""
    return replace(
        incident,
        last_at=now,
        error=trouble.error,
        fingerprint=trouble.fingerprint,
        run_id=trouble.run_id or incident.run_id,
        count=max(trouble.count, incident.count),
        group_size=max(trouble.group_size, incident.group_size),
    )


def _resolved(incident: Incident, now: datetime) -> Incident:
    return replace(incident, state=IncidentState.RESOLVED, resolved_at=now, next_at=None)


def acknowledge(incident: Incident, by: str, now: datetime) -> Incident:
    """Return the incident as somebody takes care of it: no repeats and no escalation from now on."""
    next_at = None if incident.notified_at is not None else incident.next_at
    return replace(incident, state=IncidentState.ACKNOWLEDGED, acknowledged_at=now, acknowledged_by=by, next_at=next_at)


def mute(incident: Incident, until: datetime) -> Incident:
    """Return the incident without messages until a time."""
    return replace(incident, muted_until=until, next_at=until)


def resolve_by_hand(incident: Incident, by: str, now: datetime) -> Incident:
    """Return the incident as resolved by a person. If the trouble goes on, the next failure opens another one."""
    return replace(_resolved(incident, now), resolved_by=by)


def _held_until(incident: Incident, policy: AlertPolicy, now: datetime, *, held: bool) -> datetime | None:
    """Return until when no message of this incident is sent; None if one may be sent now."""
    if incident.is_muted(now):
        return incident.muted_until
    if held:
        return now + HELD_WAIT
    return policy.quiet_hours.until(now) if policy.quiet_hours else None


def _first_event(incident: Incident) -> Event:
    return Event.FLAPPING if incident.is_flapping else Event.OPENED


def _next_step(incident: Incident, policy: AlertPolicy, now: datetime) -> datetime | None:
    """Return when the next message of a notified incident is due, if nothing changes."""
    assert incident.notified_at is not None  # true of every incident that was told
    steps = []
    if policy.repeat is not None:
        steps.append(incident.notified_at + policy.repeat)
    if incident.is_flapping:
        steps.append(incident.notified_at + ONE_DAY)
    if incident.escalated < len(policy.escalate):
        steps.append(incident.opened_at + policy.escalate[incident.escalated].after)
    due = [step for step in steps if step > now]
    return min(due, default=None)


def _notified_channels(incident: Incident, policy: AlertPolicy) -> tuple[str, ...] | None:
    """Return the channels that have got messages of this incident; None for every channel there is."""
    if policy.notify is None:
        return None
    steps = policy.escalate[: incident.escalated]
    return tuple(dict.fromkeys((*policy.notify, *(name for step in steps for name in step.notify))))
