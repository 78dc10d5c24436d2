"""Alerts for users: channels, alert policies and incidents, with the rules of who may do what.

Everybody may look. An operator acknowledges, mutes and resolves incidents and tests channels; an editor defines
channels and policies.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from uuid import UUID

from hourbell.control.jobs import Jobs
from hourbell.control.pages import Page, cursor_of, page_of, parts_of, position_of
from hourbell.control.secrets import Secrets
from hourbell.control.user import User
from hourbell.core.access.roles import Role
from hourbell.core.access.signing import SECRET_BYTES, new_secret
from hourbell.core.alerts.channel import SYSTEM, ParsedChannel
from hourbell.core.alerts.incident import Incident, check_move
from hourbell.core.alerts.kinds import Event, IncidentState
from hourbell.core.alerts.message import Message
from hourbell.core.alerts.policy import BUILT_IN, DEFAULT_POLICY, check_name, check_policy_name, parse_policy
from hourbell.core.alerts.watch import acknowledge, mute, resolve_by_hand
from hourbell.core.job.secret_headers import show_origin
from hourbell.core.values.field_errors import FieldError, RequestError, shown
from hourbell.core.values.url import parse_url
from hourbell.sealing import Plain, Sealed
from hourbell.store.alerts.verbs import (
    AlertVerbs,
    ChannelView,
    IncidentQuery,
    IncidentView,
    NotificationView,
    PolicyView,
)
from hourbell.store.errors import Conflict
from hourbell.targets.channel.base import SIGNING, Channel

MAX_MUTE = timedelta(days=365)
_CURSOR = "incidents"


@dataclass(frozen=True, slots=True)
class ChannelPut:
    """A channel that was created or replaced, and its signing secret if one was generated."""

    view: ChannelView
    is_new: bool
    secret: Plain | None


@dataclass(frozen=True, slots=True)
class IncidentDetail:
    view: IncidentView
    notifications: Sequence[NotificationView]
    jobs: Sequence[str]


class Alerts:
    def __init__(
        self,
        store: AlertVerbs,
        jobs: Jobs,
        channels: Sequence[Channel],
        *,
        secrets: Secrets,
        forbids: Callable[[IPv4Address | IPv6Address, int], str | None],
        now: Callable[[], datetime],
        new_id: Callable[[], UUID],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._types = {channel.type: channel for channel in channels}
        self._secrets = secrets
        self._forbids = forbids
        self._now = now
        self._new_id = new_id
        self._random_bytes = random_bytes

    async def channels(self) -> list[ChannelView]:
        """List the channels by name, without their secrets."""
        return await self._store.channels()

    async def channel(self, name: str) -> ChannelView:
        view = await self._store.channel(name)
        if view is None:
            raise _no_channel(name)
        return view

    async def put_channel(self, name: str, body: object, user: User, *, take_over: bool = False) -> ChannelPut:
        """Create a channel, or replace all of it. Secrets that are not given again are gone."""
        user.must_be(Role.EDITOR, "to define a channel")
        check_name(name, "a channel")
        parsed = self.parse(body)
        generated = None
        secrets = dict(parsed.secrets)
        if self.is_signed(parsed) and SIGNING not in secrets:
            generated = self.new_secret()
            secrets[SIGNING] = generated.reveal()
        parsed = replace(parsed, secrets=secrets)
        known = await self._store.channel(name)
        job_id = self._new_id() if known is None else known.channel.job_id
        sealed = [await self.seal(field, Plain(text), job_id, parsed) for field, text in secrets.items()]

        def seal(owner: UUID) -> Sequence[Sealed]:
            if owner != job_id and sealed:  # somebody else has created or deleted the channel meanwhile
                raise Conflict("channel_changed", "the channel has just been changed; try again")
            return sealed

        actor = user.actor(self._now())
        view, is_new = await self._store.put_channel(name, parsed, job_id, seal, actor, take_over=take_over)
        return ChannelPut(view, is_new, generated)

    async def patch_channel(self, name: str, patch: object, user: User, *, take_over: bool = False) -> ChannelPut:
        """Change a channel by a JSON merge patch. Secrets that are not given stay, if the origin stays the same.

        Secrets are bound to the origin that they were given for: raise Conflict (`secrets_bound`) if another one needs
        them again. A signing secret is sent nowhere, so it always stays; null generates a new one.
        """
        user.must_be(Role.EDITOR, "to define a channel")
        if not isinstance(patch, Mapping):
            raise RequestError(
                [FieldError("", "a change of a channel is an object", 'as in {"to": ["ops@example.com"]}')]
            )
        view = await self.channel(name)
        stored = view.channel
        if patch.get("type", stored.type) != stored.type:
            hint = "leave it out, or create another channel"
            raise RequestError([FieldError("/type", f"the channel is of type {stored.type}, and stays so", hint)])
        removed = {SIGNING if field == "secret" else field for field, value in patch.items() if value is None}
        rows = await self._secrets.list_by_job([stored.job_id], self._now())
        origins = {row.field: row.origin for row in rows.get(stored.job_id, ()) if row.field not in removed}
        changed = {**stored.config, **patch, "type": stored.type}
        parsed = self.parse({field: value for field, value in changed.items() if value is not None}, kept=origins)
        if parsed.origin is None:  # it follows from a secret that stays
            parsed = replace(parsed, origin=stored.origin)
        generated = None
        if stored.type == "webhook" and SIGNING in removed:
            generated = Plain(new_secret(self._random_bytes(SECRET_BYTES)))
            parsed = replace(parsed, secrets={SIGNING: generated.reveal()})
        _refuse_other_origin(origins, parsed)
        sealed = [await self.seal(field, Plain(text), stored.job_id, parsed) for field, text in parsed.secrets.items()]
        edited = await self._store.edit_channel(
            name,
            parsed,
            sealed,
            user.actor(self._now()),
            removed=removed,
            expect=view.updated_at,
            take_over=take_over,
        )
        return ChannelPut(edited, is_new=False, secret=generated)

    async def delete_channel(self, name: str, user: User, *, force: bool, take_over: bool = False) -> None:
        user.must_be(Role.EDITOR, "to delete a channel")
        if not await self._store.delete_channel(name, user.actor(self._now()), force=force, take_over=take_over):
            raise _no_channel(name)

    async def test_channel(self, name: str, user: User) -> UUID:
        """Send a test message to a channel; return the id of its run."""
        user.must_be(Role.OPERATOR, "to test a channel")
        run_id, now = self._new_id(), self._now()
        message = Message(str(run_id), Event.TEST, now, name)
        if not await self._store.test_channel(name, run_id, message, user.actor(now)):
            raise _no_channel(name)
        return run_id

    async def policies(self) -> list[PolicyView]:
        """List the policies by name; the built-in `default` first if nobody has defined one."""
        found = await self._store.alert_policies()
        if any(view.name == DEFAULT_POLICY for view in found):
            return found
        return [self._built_in(), *found]

    async def policy(self, name: str) -> PolicyView:
        found = next((view for view in await self.policies() if view.name == name), None)
        if found is None:
            raise _no_policy(name)
        return found

    async def put_policy(
        self, name: str, body: object, user: User, *, take_over: bool = False
    ) -> tuple[PolicyView, bool]:
        """Create or replace a policy; return it, and True if it is new."""
        user.must_be(Role.EDITOR, "to define an alert policy")
        check_policy_name(name)
        return await self._store.put_policy(name, parse_policy(body), user.actor(self._now()), take_over=take_over)

    async def delete_policy(self, name: str, user: User, *, force: bool, take_over: bool = False) -> None:
        """Delete a policy; with `force`, also one that jobs name, to which `default` applies then."""
        user.must_be(Role.EDITOR, "to delete an alert policy")
        if not await self._store.delete_policy(name, user.actor(self._now()), force=force, take_over=take_over):
            raise _no_policy(name)

    async def incidents(
        self, states: Sequence[IncidentState], job: str | None, limit: int, cursor: str | None
    ) -> Page[IncidentView]:
        """List incidents in these states, or in any, the newest first."""
        after = None
        if cursor is not None:
            key, last_id = parts_of(_CURSOR, cursor, 2)
            position = position_of(key, last_id, is_time=True)
            assert isinstance(position.key, datetime)  # is_time
            after = (position.key, position.id)
        job_id = None if job is None else (await self._jobs.get(job)).job.id
        wanted = tuple(state.value for state in states or tuple(IncidentState))
        found = await self._store.incidents(IncidentQuery(wanted, job_id, after), limit + 1)
        return page_of(found, limit, lambda view: cursor_of(_CURSOR, view.incident.opened_at, view.incident.id))

    async def incident(self, incident_id: UUID) -> IncidentDetail:
        found = await self._store.incident(incident_id)
        if found is None:
            raise Conflict("no_such_incident", f"there is no incident {str(incident_id)!r}")
        return IncidentDetail(*found)

    async def acknowledge(self, incident_id: UUID, user: User) -> IncidentView:
        """Say that somebody takes care of it. Acknowledging it again changes nothing."""

        def change(incident: Incident) -> Incident:
            check_move(incident, IncidentState.ACKNOWLEDGED)
            return acknowledge(incident, user.name, self._now())

        return await self._change(incident_id, "incident.acknowledge", change, user)

    async def mute(self, incident_id: UUID, until: datetime, user: User) -> IncidentView:
        """Send no messages of this incident until a time."""
        now = self._now()
        if not now < until <= now + MAX_MUTE:
            hint = "use a time in the next 365 days"
            raise RequestError([FieldError("/until", f"until is {shown(until.isoformat())}", hint)])
        return await self._change(incident_id, "incident.mute", lambda incident: _muted(incident, until), user)

    async def resolve(self, incident_id: UUID, user: User) -> IncidentView:
        """End an incident by hand. If the trouble goes on, the next failure opens another one."""

        def change(incident: Incident) -> Incident:
            check_move(incident, IncidentState.RESOLVED)
            return resolve_by_hand(incident, user.name, self._now())

        return await self._change(incident_id, "incident.resolve", change, user)

    async def _change(
        self, incident_id: UUID, action: str, change: Callable[[Incident], Incident], user: User
    ) -> IncidentView:
        user.must_be(Role.OPERATOR, "to change an incident")
        return await self._store.change_incident(incident_id, action, change, user.actor(self._now()))

    def parse(self, body: object, *, kept: Collection[str] = ()) -> ParsedChannel:
        """Parse the configuration of a channel, of which these secrets stay; raise a RequestError with all errors."""
        if not isinstance(body, Mapping):
            hint = 'write one such as {"type": "webhook", "url": "https://example.com/alerts"}'
            raise RequestError([FieldError("", "a channel is an object", hint)])
        given: Mapping[str, Any] = {name: value for name, value in body.items() if name not in READ_ONLY}
        channel = self._types.get(str(given.get("type")))
        if channel is None:
            known = ", ".join(sorted(self._types))
            raise RequestError([FieldError("/type", f"type is {shown(given.get('type'))}", f"write one of {known}")])
        parsed = channel.parse(given, kept)
        if parsed.origin is not None and parsed.origin.startswith(("http://", "https://")):
            url = parse_url(parsed.origin)
            why = self._forbids(ip_address(url.host), url.port) if url.is_address else None
            if why is not None:
                raise RequestError([FieldError("/url", why)])
        return parsed

    def is_signed(self, parsed: ParsedChannel) -> bool:
        """Return True if a channel gets a generated signing secret unless one is given."""
        return parsed.type == "webhook" and self._secrets.has_keys

    def new_secret(self) -> Plain:
        """Generate a signing secret."""
        return Plain(new_secret(self._random_bytes(SECRET_BYTES)))

    async def seal(self, field: str, plain: Plain, job_id: UUID, parsed: ParsedChannel) -> Sealed:
        """Seal a secret of a channel: one that leaves the process for the channel's origin."""
        return await self._secrets.seal(plain, job_id, field, None if field == SIGNING else parsed.origin)

    def _built_in(self) -> PolicyView:
        return PolicyView(DEFAULT_POLICY, BUILT_IN, self._now(), "hourbell", SYSTEM)


READ_ONLY = frozenset(
    {"name", "origin", "managed_by", "source", "created_at", "updated_at", "updated_by", "generated_secret"}
)


def _refuse_other_origin(origins: Mapping[str, str | None], parsed: ParsedChannel) -> None:
    """Raise a Conflict if a stored secret would have to be sent to another origin than it was given for."""
    bound = {field: origin for field, origin in origins.items() if field != SIGNING and field not in parsed.secrets}
    left = sorted(field for field, origin in bound.items() if origin != parsed.origin)
    if left:
        names, were = " and ".join(left), ", ".join(sorted({show_origin(bound[field]) for field in left}))
        raise Conflict(
            "secrets_bound",
            f"the {names} of this channel was given for {were}, and is not sent to {show_origin(parsed.origin)}: "
            "give it again",
        )


def _muted(incident: Incident, until: datetime) -> Incident:
    if incident.is_resolved:
        check_move(incident, IncidentState.RESOLVED)
    return mute(incident, until)


def _no_channel(name: str) -> Conflict:
    return Conflict("no_such_channel", f"there is no channel {name!r}")


def _no_policy(name: str) -> Conflict:
    return Conflict("no_such_alert_policy", f"there is no alert policy {name!r}")
