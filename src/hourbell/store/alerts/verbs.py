"""Changes that users make: channels, policies and incidents. Each verb is one transaction and one audit row."""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from hourbell.core.alerts.channel import ParsedChannel, StoredChannel
from hourbell.core.alerts.incident import Incident, WrongMove
from hourbell.core.alerts.kinds import Event
from hourbell.core.alerts.message import Message
from hourbell.core.alerts.policy import DEFAULT_POLICY, AlertPolicy, channels_of, parse_policy
from hourbell.core.values.field_errors import BodyError
from hourbell.sealing import Sealed
from hourbell.store.alerts.messages import Messages, Step, plan_message
from hourbell.store.alerts.rows import channel_of, incident_of, policies_of, update_values
from hourbell.store.alerts.writing import (
    MAX_CHANNEL_ROWS,
    MAX_POLICY_ROWS,
    OWN,
    name_taken,
    owner_of,
    refuse_owned,
    remove_channel,
    remove_policy,
    write_channel,
    write_policy,
)
from hourbell.store.base import Wake
from hourbell.store.control.actor import Actor
from hourbell.store.control.auditing import audit
from hourbell.store.control.secrets import insert_secrets
from hourbell.store.control.session import Session, Sessions
from hourbell.store.control.verbs import Verbs
from hourbell.store.errors import Conflict, NameTaken
from hourbell.store.rows import UNREADABLE, Row

_MAX_NAMED_JOBS = 5  # of a policy that cannot be deleted
_NEWEST_AT, _NEWEST_ID = datetime(2200, 1, 1, tzinfo=UTC), UUID(int=2**128 - 1)


@dataclass(frozen=True, slots=True)
class ChannelView:
    """A channel as people see it, without its secrets."""

    channel: StoredChannel
    created_at: datetime
    updated_at: datetime
    updated_by: str
    managed_by: str = "api"
    source: str = ""


@dataclass(frozen=True, slots=True)
class PolicyView:
    name: str
    policy: AlertPolicy
    updated_at: datetime
    updated_by: str
    managed_by: str = "api"
    source: str = ""


@dataclass(frozen=True, slots=True)
class NotificationView:
    """A message of an incident, and what became of it: the state of its run, None if that was pruned."""

    run_id: UUID
    channel: str
    event: str
    step: int
    planned_at: datetime
    state: str | None
    attempt: int | None
    finished_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True)
class IncidentView:
    incident: Incident
    job_name: str | None


@dataclass(frozen=True, slots=True)
class IncidentQuery:
    states: tuple[str, ...]
    job_id: UUID | None = None
    after: tuple[datetime, UUID] | None = None  # the last incident of the page before


class AlertVerbs(Verbs):
    """`public_url` is where people reach the page, for links in messages; None for messages without links."""

    def __init__(self, sessions: Sessions, *, public_url: str | None = None) -> None:
        super().__init__(sessions)
        self._public_url = public_url

    async def channels(self) -> list[ChannelView]:
        return [_channel_view(row) for row in await self._sessions.fetch("channels")]

    async def channel(self, name: str) -> ChannelView | None:
        return next(map(_channel_view, await self._sessions.fetch("channel", name=name)), None)

    async def put_channel(
        self,
        name: str,
        parsed: ParsedChannel,
        job_id: UUID,
        sealed: Callable[[UUID], Sequence[Sealed]],
        actor: Actor,
        *,
        take_over: bool = False,
    ) -> tuple[ChannelView, bool]:
        """Create a channel, or replace all of it with its secrets; return it, and True if it is new.

        `job_id` is that of its system job, if it is new; `sealed` seals its secrets for the id of the job. Messages
        that wait are sent to the new address. `Conflict` if a job has the name that its system job needs, or if a jobs
        file manages the channel and it is not taken over.
        """

        async def put(session: Session) -> tuple[ChannelView, bool]:
            before = await session.fetch_one("lock_channel", name=name)
            refuse_owned(before, "channel", take_over=take_over)
            own = job_id if before is None else before["job_id"]
            if before is None and len(await session.fetch("channels")) >= MAX_CHANNEL_ROWS:
                raise Conflict("too_many_channels", f"there are {MAX_CHANNEL_ROWS} channels; delete one first")
            await write_channel(session, name, parsed, own, before, OWN, actor)
            await session.execute("delete_secrets", job_ids=[own])
            await insert_secrets(session, sealed(own), actor.at)
            row = await session.fetch_one("channel", name=name)
            assert row is not None  # it was written above
            return _channel_view(row), before is None

        try:
            return await self._act(put, actor)
        except NameTaken:
            raise name_taken(name) from None

    async def edit_channel(
        self,
        name: str,
        parsed: ParsedChannel,
        sealed: Sequence[Sealed],
        actor: Actor,
        *,
        removed: Collection[str],
        expect: datetime,
        take_over: bool = False,
    ) -> ChannelView:
        """Change a channel. Secrets stay, except those that are given again, and the removed ones.

        `Conflict` if there is none, if it was changed after `expect`, or if a jobs file manages it and it is not taken
        over.
        """

        async def edit(session: Session) -> ChannelView:
            before = await session.fetch_one("lock_channel", name=name)
            if before is None:
                raise Conflict("no_such_channel", f"there is no channel {name!r}")
            refuse_owned(before, "channel", take_over=take_over)
            if before["updated_at"] != expect:
                raise Conflict("channel_changed", "the channel has just been changed; try again")
            for field in {*removed, *(each.field for each in sealed)}:
                await session.execute("remove_secrets", job_id=before["job_id"], field=field)
            await insert_secrets(session, sealed, actor.at)
            await write_channel(session, name, parsed, before["job_id"], before, OWN, actor)
            row = await session.fetch_one("channel", name=name)
            assert row is not None  # it was written above
            return _channel_view(row)

        return await self._act(edit, actor)

    async def delete_channel(self, name: str, actor: Actor, *, force: bool = False, take_over: bool = False) -> bool:
        """Delete a channel with its secrets; its waiting messages are cancelled. False if there is none.

        `Conflict` if a policy names it, unless it is forced, or if a jobs file manages it, unless it is taken over.
        """

        async def delete(session: Session) -> bool:
            row = await session.fetch_one("lock_channel", name=name)
            if row is None:
                return False
            refuse_owned(row, "channel", take_over=take_over)
            policies = policies_of(list(await session.fetch("alert_policies")))
            users = [each for each, policy in policies.items() if name in channels_of(policy)]
            if users and not force:
                named = ", ".join(users)
                raise Conflict("channel_in_use", f"these alert policies name it: {named}; change them first, or force")
            await remove_channel(session, row, actor)
            return True

        return await self._act(delete, actor)

    async def test_channel(self, name: str, run_id: UUID, message: Message, actor: Actor) -> bool:
        """Plan a test message to a channel, as a run with this id. False if there is no such channel."""

        async def test(session: Session) -> bool:
            row = await session.fetch_one("lock_channel", name=name)
            if row is None:
                return False
            await plan_message(session, channel_of(row), run_id, message, actor.at)
            await audit(session, actor, "channel.test", name, after={"run": str(run_id)})
            return True

        return await self._act(test, actor)

    async def alert_policies(self) -> list[PolicyView]:
        found = (_policy_view(row) for row in await self._sessions.fetch("alert_policies"))
        return [view for view in found if view is not None]

    async def put_policy(
        self, name: str, policy: AlertPolicy, actor: Actor, *, take_over: bool = False
    ) -> tuple[PolicyView, bool]:
        """Create or replace a policy; return it, and True if it is new.

        `Conflict` if it names an unknown channel, or if a jobs file manages it and it is not taken over.
        """

        async def put(session: Session) -> tuple[PolicyView, bool]:
            known = {row["name"] for row in await session.fetch("channels")}
            if unknown := sorted(channels_of(policy) - known):
                hint = "create it first: hourbell channel create"
                raise Conflict("no_such_channel", f"there is no channel {', '.join(unknown)}; {hint}")
            before = await session.fetch_one("lock_alert_policy", name=name)
            refuse_owned(before, "alert policy", take_over=take_over)
            if before is None and len(await session.fetch("alert_policies")) >= MAX_POLICY_ROWS:
                raise Conflict("too_many_alert_policies", f"there are {MAX_POLICY_ROWS} policies; delete one first")
            await write_policy(session, name, policy, before, OWN, actor)
            return PolicyView(name, policy, actor.at, actor.by), before is None

        return await self._act(put, actor)

    async def delete_policy(self, name: str, actor: Actor, *, force: bool = False, take_over: bool = False) -> bool:
        """Delete a policy. False if there is none.

        `Conflict` if jobs name it, unless it is forced: `default` applies to them then. `default` itself may always be
        deleted, because the built-in one takes its place. `Conflict`, too, if a jobs file manages it and it is not
        taken over.
        """

        async def delete(session: Session) -> bool:
            row = await session.fetch_one("lock_alert_policy", name=name)
            if row is None:
                return False
            refuse_owned(row, "alert policy", take_over=take_over)
            if name != DEFAULT_POLICY and not force:
                _refuse_use(await session.fetch("jobs_of_policy", name=name, limit=_MAX_NAMED_JOBS))
            await remove_policy(session, row, actor)
            return True

        return await self._act(delete, actor)

    async def incidents(self, query: IncidentQuery, limit: int) -> list[IncidentView]:
        """Return a page of incidents, the newest first."""
        after_at, after_id = query.after or (_NEWEST_AT, _NEWEST_ID)
        values: dict[str, Any] = {"states": list(query.states), "limit": limit}
        values |= {"after_at": after_at, "after_id": after_id}
        if query.job_id is None:
            rows = await self._sessions.fetch("incidents_page", **values)
        else:
            rows = await self._sessions.fetch("incidents_of_job_page", **values, job_id=query.job_id)
        return [IncidentView(incident_of(row), row["job_name"]) for row in rows]

    async def incident(self, incident_id: UUID) -> tuple[IncidentView, list[NotificationView], list[str]] | None:
        """Return an incident with its messages, and the names of some of its jobs."""

        async def look(session: Session) -> tuple[IncidentView, list[NotificationView], list[str]] | None:
            row = await session.fetch_one("incident", id=incident_id)
            if row is None:
                return None
            results = await session.fetch("notifications_of_incident", incident_id=incident_id)
            names = [each["name"] for each in await session.fetch("member_names", incident_id=incident_id, limit=100)]
            view = IncidentView(incident_of(row), row["job_name"])
            return view, [NotificationView(**each) for each in results], names or [n for n in [row["job_name"]] if n]

        return await self._sessions.snapshot(look)

    async def change_incident(
        self, incident_id: UUID, action: str, change: Callable[[Incident], Incident], actor: Actor
    ) -> IncidentView:
        """Write what `change` makes of an unresolved incident. `Conflict` if there is none, or it refuses.

        Receivers that keep a state for each incident learn that it is resolved; people get no message.
        """

        async def write(session: Session) -> IncidentView:
            row = await session.fetch_one("lock_incident", id=incident_id)
            if row is None:
                raise Conflict("no_such_incident", f"there is no incident {str(incident_id)!r}")
            before = incident_of(row)
            try:
                after = change(before)
            except WrongMove as error:
                raise Conflict("incident_ended", str(error)) from None
            if not await session.fetch("update_incident", **update_values(after)):
                raise Conflict("incident_changed", "the incident has just changed; look at it, and try again")
            if after.is_resolved:
                messages = await Messages.begin(session, actor.at, self._public_url)
                await messages.read_notified([after])
                await messages.plan(Step(after, Event.RESOLVED, messages.audience(after).machines()))
            await audit(session, actor, action, incident_id, _state(before), _state(after))
            await session.wake(Wake.RUNS)
            found = await session.fetch_one("incident", id=incident_id)
            assert found is not None  # it was written above
            return IncidentView(incident_of(found), found["job_name"])

        return await self._act(write, actor)


def _refuse_use(jobs: Sequence[Row]) -> None:
    """Raise a Conflict if jobs name the policy; the rows are the first of them."""
    if not jobs:
        return
    count = int(jobs[0]["jobs"])
    names = ", ".join(row["name"] for row in jobs) + (f" and {count - len(jobs)} more" if count > len(jobs) else "")
    those = "1 job names it" if count == 1 else f"{count} jobs name it"
    advice = "give them another one (hourbell job edit JOB --alert-policy default), or force: then default applies"
    raise Conflict("alert_policy_in_use", f"{those}: {names}; {advice}")


def _channel_view(row: Row) -> ChannelView:
    return ChannelView(channel_of(row), row["created_at"], row["updated_at"], row["updated_by"], *owner_of(row))


def _policy_view(row: Row) -> PolicyView | None:
    try:
        policy = parse_policy(json.loads(row["definition"]))
    except (BodyError, *UNREADABLE):
        return None
    return PolicyView(row["name"], policy, row["updated_at"], row["updated_by"], *owner_of(row))


def _state(incident: Incident) -> dict[str, Any]:
    muted = None if incident.muted_until is None else incident.muted_until.isoformat()
    return {"state": incident.state.value, "acknowledged_by": incident.acknowledged_by, "muted_until": muted}
