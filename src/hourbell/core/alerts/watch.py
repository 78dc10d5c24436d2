"""The decision about an incident: what to do, given what is wrong now.

`watch` is the only function that opens, repeats, escalates and resolves. Its arguments are what was read inside one
transaction, and the caller writes the decision and its messages in that same transaction, so no message is lost between
fact and message, and none is sent for something that was not stored.

| trouble | incident | decision |
| --- | --- | --- |
| none | none, or resolved | nothing |
| none | unresolved | resolve; if it flaps, keep it until it has been calm for `CALM` |
| yes, but nothing new since somebody resolved it by hand | none, or resolved | nothing |
| yes | none, or resolved | open; the first message goes out now, or later if it is held |
| yes | unresolved, a channel of its policy does not know of it | tell that channel |
| yes | unresolved, its next step is due | tell, escalate, repeat, or digest |
| yes | unresolved | keep, with what was seen last |
| yes, another error | acknowledged | resolve without a message, then open: nobody takes care of that one yet |

A message is held while the incident is muted, in quiet hours, while `held` (recovery mode), and for `GROUP_WAIT` if
many jobs may have the same trouble. A trouble that ends while its first message is held is never notified:
neither its start nor its end. What waits for the end of quiet hours has `quiet_until`, and `after_quiet_hours` decides
what is said then; the caller puts that into one message.

A receiver that keeps a state for each incident (`Audience.stateful`) always learns of the end of what it knows, also if
people do not: otherwise its own alert would stay open forever.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hourbell.core.alerts.incident import Incident, Trouble, incident_id
from hourbell.core.alerts.kinds import URGENT_KINDS, Event, IncidentKind, IncidentState
from hourbell.core.alerts.policy import AlertPolicy

GROUP_WAIT = timedelta(seconds=10)  # so that the first message about a dead host counts its jobs
HELD_WAIT = timedelta(seconds=30)
ONE_DAY = timedelta(days=1)
CALM = timedelta(hours=6, minutes=1)  # before a flapping incident is resolved; it was seen up to a minute before that


class Move(StrEnum):
    NOTHING = "nothing"
    OPEN = "open"
    KEEP = "keep"
    NOTIFY = "notify"  # the first message of an incident that was opened before, to all channels or to new ones
    REPEAT = "repeat"
    ESCALATE = "escalate"
    RESOLVE = "resolve"
    REPLACE = "replace"  # resolve the incident without a message; the caller watches again, without it


@dataclass(frozen=True, slots=True)
class Audience:
    """The channels that messages of an incident can go to, and those that have got one.

    A message does not count if its channel was deleted since, or corrected after it could not deliver.
    """

    channels: tuple[str, ...] = ()
    notified: frozenset[str] = frozenset()
    stateful: frozenset[str] = frozenset()

    def unnotified(self, names: Iterable[str] | None) -> tuple[str, ...]:
        """Return those of these channels, None for all, that exist and know nothing of the incident."""
        wanted = self.channels if names is None else [name for name in names if name in self.channels]
        return tuple(name for name in wanted if name not in self.notified)

    def people(self) -> tuple[str, ...]:
        """Return the notified channels, without the stateful ones."""
        return tuple(name for name in self.channels if name in self.notified and name not in self.stateful)

    def machines(self) -> tuple[str, ...]:
        """Return the notified channels that are stateful."""
        return tuple(name for name in self.channels if name in self.notified and name in self.stateful)


NOBODY = Audience()


@dataclass(frozen=True, slots=True)
class Before:
    """The past of a key: incidents opened and notified in the last 24 hours, and the last end by hand.

    An incident that somebody resolved by hand does not count: the trouble has not come and gone.
    """

    openings: int = 0
    closed_at: datetime | None = None


NEVER = Before()


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision. `incident` is what is stored from now on; None if there is nothing to store.

    `event` is the message to plan, for the channels in `notify` (None: every channel); None if there is no message.
    """

    move: Move
    incident: Incident | None = None
    event: Event | None = None
    notify: tuple[str, ...] | None = ()


NOTHING = Decision(Move.NOTHING)


def watch(
    trouble: Trouble | None,
    name: str,
    policy: AlertPolicy,
    incident: Incident | None,
    now: datetime,
    *,
    before: Before = NEVER,
    audience: Audience = NOBODY,
    held: bool = False,
) -> Decision:
    """Decide what to do about one key. `name` is that of the policy.

    `held` is true in recovery mode, when one incident speaks for all.
    """
    if incident is None or incident.is_resolved:
        if trouble is None or not trouble.is_news(before.closed_at):
            return NOTHING
        return _open(trouble, name, policy, now, before.openings, held=held)
    if trouble is None:
        return _ended(incident, policy, now, audience)
    if incident.state is IncidentState.ACKNOWLEDGED and trouble.fingerprint != incident.fingerprint:
        return replaced(incident, now, audience)
    return _step(_seen(incident, trouble, name, now), trouble, policy, now, audience, held=held)


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
    waiting = _held(incident, policy, now, held=held)
    if waiting is None and waits_for_others(trouble, policy):
        waiting = replace(incident, next_at=now + GROUP_WAIT)
    if waiting is not None:
        return Decision(Move.OPEN, waiting)
    return _notified(Move.OPEN, incident, _first_event(incident), policy.notify, policy, now)


def waits_for_others(trouble: Trouble, policy: AlertPolicy) -> bool:
    """Return True if the first message waits: for the other jobs of a host, for a run that is about to make up, or, in
    recovery mode, until the backlog is planned and can be counted."""
    is_grouped = policy.group == "host" and trouble.lane is not None and trouble.kind is IncidentKind.FAILED
    return is_grouped or trouble.kind in (IncidentKind.LATE, IncidentKind.MISSED, IncidentKind.RECOVERY)


def _step(
    incident: Incident, trouble: Trouble, policy: AlertPolicy, now: datetime, audience: Audience, *, held: bool
) -> Decision:
    """Plan the message that is due, if one is."""
    if incident.quiet_until is not None:  # what is said at their end is decided by `after_quiet_hours`
        return Decision(Move.KEEP, _still_quiet(incident, policy, now, held=held))
    is_announced = incident.notified_at is not None and incident.state is IncidentState.OPEN
    unnotified = audience.unnotified(_notified_channels(incident, policy)) if is_announced else ()
    is_due = incident.next_at is not None and incident.next_at <= now
    if not is_due and (not unnotified or incident.is_muted(now)):
        return Decision(Move.KEEP, incident)
    if (waiting := _held(incident, policy, now, held=held)) is not None:
        return Decision(Move.KEEP, waiting)
    if incident.notified_at is None:
        return _notified(Move.NOTIFY, incident, _first_event(incident), policy.notify, policy, now)
    if unnotified:  # what else is due follows with the next look
        result = replace(incident, steps=incident.steps + 1)
        return Decision(Move.NOTIFY, result, _first_event(incident), unnotified)
    if incident.state is IncidentState.ACKNOWLEDGED:
        return Decision(Move.KEEP, replace(incident, next_at=None))
    due = [step for step in policy.escalate if _announced_at(incident) + step.after <= now]
    if len(due) > incident.escalated:
        names = tuple(dict.fromkeys(name for step in due[incident.escalated :] for name in step.notify))
        escalated = replace(incident, escalated=len(due))
        return _notified(Move.ESCALATE, escalated, Event.ESCALATED, names, policy, now)
    if incident.is_flapping and trouble.since > incident.notified_at:
        if now < incident.notified_at + ONE_DAY:  # it has come and gone since the last message: the digest will say so
            return Decision(Move.KEEP, replace(incident, next_at=_next_step(incident, policy, now)))
        return _notified(Move.REPEAT, incident, Event.DIGEST, _notified_channels(incident, policy), policy, now)
    is_repeated = policy.repeat is not None and incident.notified_at + policy.repeat <= now
    if is_repeated or _was_muted_since(incident, now):
        return _notified(Move.REPEAT, incident, Event.REPEATED, _notified_channels(incident, policy), policy, now)
    return Decision(Move.KEEP, replace(incident, next_at=_next_step(incident, policy, now)))


def _ended(incident: Incident, policy: AlertPolicy, now: datetime, audience: Audience) -> Decision:
    """Resolve an incident whose trouble is over. Whoever got a message learns that, whatever the policy is now."""
    if incident.is_flapping and incident.notified_at is not None:
        calm_at = incident.last_at + CALM
        if now < calm_at:
            return Decision(Move.KEEP, replace(incident, next_at=calm_at))
    resolved = _resolved(incident, now)
    if incident.notified_at is None or not policy.resolve or not audience.notified:
        return Decision(Move.RESOLVE, resolved)
    people = () if incident.is_muted(now) else audience.people()
    if people and (quiet_until := _quiet_until(incident.kind, policy, now)) is not None:
        resolved, people = replace(resolved, quiet_until=quiet_until), ()
    return _with_end(Move.RESOLVE, replace(resolved, steps=incident.steps + 1), (*people, *audience.machines()))


def replaced(incident: Incident, now: datetime, audience: Audience) -> Decision:
    """Resolve an incident that another one takes the place of: people get no message."""
    resolved = replace(_resolved(incident, now), steps=incident.steps + 1)
    return _with_end(Move.REPLACE, resolved, audience.machines())


def _with_end(move: Move, resolved: Incident, names: tuple[str, ...]) -> Decision:
    return Decision(move, resolved, Event.RESOLVED, names) if names else Decision(move, resolved)


def after_quiet_hours(
    incident: Incident, policy: AlertPolicy, now: datetime, audience: Audience, *, held: bool = False
) -> Decision:
    """Decide what an incident whose `quiet_until` has come says now: its start, its end, or that it goes on.

    The caller has seen to it that the trouble of an unresolved one goes on.
    """
    if incident.is_resolved:
        result = replace(incident, quiet_until=None)
        names = audience.people()
        return Decision(Move.RESOLVE, result, Event.RESOLVED, names) if names else Decision(Move.KEEP, result)
    if held:
        return Decision(Move.KEEP, replace(incident, quiet_until=now + HELD_WAIT))
    trouble = Trouble(incident.key, incident.kind, incident.last_at)
    return _step(replace(incident, quiet_until=None, next_at=now), trouble, policy, now, audience, held=False)


def _notified(
    move: Move,
    incident: Incident,
    event: Event,
    notify: tuple[str, ...] | None,
    policy: AlertPolicy,
    now: datetime,
) -> Decision:
    result = replace(
        incident, steps=incident.steps + 1, notified_at=now, announced_at=incident.announced_at or now, next_at=None
    )
    return Decision(move, replace(result, next_at=_next_step(result, policy, now)), event, notify)


def _seen(incident: Incident, trouble: Trouble, name: str, now: datetime) -> Incident:
    """Update an incident by what is wrong now."""
    return replace(
        incident,
        policy=name,
        last_at=now,
        error=trouble.error,
        fingerprint=trouble.fingerprint,
        run_id=trouble.run_id or incident.run_id,
        count=max(trouble.count, incident.count),
        group_size=max(trouble.group_size, incident.group_size),
    )


def _resolved(incident: Incident, now: datetime) -> Incident:
    return replace(incident, state=IncidentState.RESOLVED, resolved_at=now, next_at=None, quiet_until=None)


def acknowledge(incident: Incident, by: str, now: datetime) -> Incident:
    """Return the incident as somebody takes care of it: no repeats and no escalation from now on."""
    next_at = None if incident.notified_at is not None else incident.next_at
    return replace(incident, state=IncidentState.ACKNOWLEDGED, acknowledged_at=now, acknowledged_by=by, next_at=next_at)


def mute(incident: Incident, until: datetime) -> Incident:
    """Return the incident without messages until a time."""
    return replace(incident, muted_until=until, next_at=until)


def resolve_by_hand(incident: Incident, by: str, now: datetime) -> Incident:
    """Return the incident as resolved by a person. If the trouble goes on, the next failure opens another one."""
    return replace(_resolved(incident, now), resolved_by=by, steps=incident.steps + 1)


def _held(incident: Incident, policy: AlertPolicy, now: datetime, *, held: bool) -> Incident | None:
    """Return the incident as it waits until a message may be sent; None if one may be sent now."""
    if incident.is_muted(now):
        return replace(incident, next_at=incident.muted_until)
    if held:
        return replace(incident, next_at=now + HELD_WAIT)
    quiet_until = _quiet_until(incident.kind, policy, now)
    return None if quiet_until is None else replace(incident, quiet_until=quiet_until, next_at=None)


def _quiet_until(kind: IncidentKind, policy: AlertPolicy, now: datetime) -> datetime | None:
    """Return the end of the quiet hours that hold a message now."""
    return None if policy.quiet_hours is None or kind in URGENT_KINDS else policy.quiet_hours.until(now)


def _still_quiet(incident: Incident, policy: AlertPolicy, now: datetime, *, held: bool) -> Incident:
    """Return the incident as it waits for the end of quiet hours, which the policy may have changed meanwhile."""
    assert incident.quiet_until is not None  # the caller's condition
    until = _quiet_until(incident.kind, policy, now)
    if until is None and (held or incident.quiet_until <= now):
        return incident
    return replace(incident, quiet_until=until or now)


def _was_muted_since(incident: Incident, now: datetime) -> bool:
    """Return True if a mute has run out since the last message, so that people expect to hear of it again."""
    until = incident.muted_until
    return until is not None and incident.notified_at is not None and incident.notified_at < until <= now


def _first_event(incident: Incident) -> Event:
    return Event.FLAPPING if incident.is_flapping else Event.OPENED


def _announced_at(incident: Incident) -> datetime:
    return incident.announced_at or incident.opened_at


def _next_step(incident: Incident, policy: AlertPolicy, now: datetime) -> datetime | None:
    """Return when the next message of a notified incident is due, if nothing changes."""
    assert incident.notified_at is not None  # true of every incident that was notified
    steps = []
    if policy.repeat is not None:
        steps.append(incident.notified_at + policy.repeat)
    if incident.is_flapping:
        steps.append(incident.notified_at + ONE_DAY)
    if incident.escalated < len(policy.escalate):
        steps.append(_announced_at(incident) + policy.escalate[incident.escalated].after)
    due = [step for step in steps if step > now]
    return min(due, default=None)


def _notified_channels(incident: Incident, policy: AlertPolicy) -> tuple[str, ...] | None:
    """Return the channels that the policy notifies of this incident by now; None for every channel there is."""
    if policy.notify is None:
        return None
    steps = policy.escalate[: incident.escalated]
    return tuple(dict.fromkeys((*policy.notify, *(name for step in steps for name in step.notify))))
