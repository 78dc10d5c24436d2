"""The channels and alert policies that are applied together with jobs.

A channel whose secret is not given keeps the stored one, as long as that may be sent to the channel's origin.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from hourbell.control.alerts import READ_ONLY, Alerts
from hourbell.control.secrets import Secrets
from hourbell.control.user import User
from hourbell.core.access.roles import Role
from hourbell.core.alerts.channel import SECRET_FIELDS, ParsedChannel, StoredChannel, secret_field
from hourbell.core.alerts.policy import check_name, check_policy_name, parse_policy
from hourbell.core.job.differences import FieldChange, hidden_change
from hourbell.core.job.secret_headers import SIGNING
from hourbell.core.values.field_errors import BodyError, FieldError, RequestError, pointer_to
from hourbell.sealing import Plain, Sealed
from hourbell.store.alerts.bundle import (
    Action,
    AlertBundle,
    AppliedAlerts,
    AppliedEntry,
    ChannelEntry,
    ChannelSecrets,
    PolicyEntry,
)
from hourbell.store.alerts.writing import MAX_CHANNEL_ROWS, MAX_POLICY_ROWS

CHANNELS, POLICIES = "channels", "alert_policies"


@dataclass(frozen=True, slots=True)
class PlannedEntry:
    """A channel or policy of the plan; `fields` is empty unless it changes."""

    name: str
    action: str
    fields: tuple[FieldChange, ...] = ()
    notes: tuple[str, ...] = ()
    generated_secret: Plain | None = None


@dataclass(frozen=True, slots=True)
class WantedChannel:
    """A channel as it is to be: its configuration with the secrets it keeps, and those that were given, by field."""

    entry: ChannelEntry
    given: Mapping[str, Plain] = field(default_factory=dict, repr=False)
    stored: Mapping[str, Sealed] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WantedAlerts:
    channels: Sequence[WantedChannel] = ()
    policies: Sequence[PolicyEntry] = ()

    @property
    def bundle(self) -> AlertBundle:
        return AlertBundle([each.entry for each in self.channels], self.policies)


@dataclass(frozen=True, slots=True)
class SecretWork:
    """The secrets to write for each channel, None for one to generate, and how the plan shows them."""

    to_set: Mapping[str, Mapping[str, Plain | None]]
    fields: Mapping[str, tuple[FieldChange, ...]]


class AlertBundles:
    def __init__(
        self, alerts: Alerts, *, secrets: Secrets, now: Callable[[], datetime], new_id: Callable[[], UUID]
    ) -> None:
        self._alerts = alerts
        self._secrets = secrets
        self._now = now
        self._new_id = new_id

    async def read(
        self,
        channels: Mapping[str, object],
        policies: Mapping[str, object],
        user: User,
        errors: list[FieldError],
        *,
        dry_run: bool,
    ) -> WantedAlerts:
        """Read the bodies and complete them with stored secrets; collect every error.

        In a dry run a secret of a new channel may be null, so that a plan can be made where it cannot be resolved.
        """
        if channels or policies:
            user.must_be(Role.EDITOR, "to define channels and alert policies")
        for kind, given, most in ((CHANNELS, channels, MAX_CHANNEL_ROWS), (POLICIES, policies, MAX_POLICY_ROWS)):
            if len(given) > most:
                errors.append(FieldError(pointer_to(kind), f"these are {len(given)}", f"write at most {most}"))
                return WantedAlerts()
        stored = {view.channel.name: view.channel for view in await self._alerts.channels()} if channels else {}
        ids = [stored[name].job_id for name in channels if name in stored]
        secrets = await self._secrets.current(ids, self._now()) if ids else {}
        wanted_channels = []
        for name, body in channels.items():
            known = stored.get(name)
            sealed = {each.field: each for each in secrets.get(known.job_id, ())} if known is not None else {}
            try:
                wanted_channels.append(self._read_channel(name, body, known, sealed, dry_run=dry_run))
            except BodyError as refused:
                errors += _within(CHANNELS, name, refused)
        wanted_policies = []
        for name, body in policies.items():
            try:
                check_policy_name(name)
                wanted_policies.append(PolicyEntry(name, parse_policy(body)))
            except BodyError as refused:
                errors += _within(POLICIES, name, refused)
        return WantedAlerts(wanted_channels, wanted_policies)

    def find_secrets(self, wanted: WantedAlerts, applied: AppliedAlerts, *, compares: bool) -> SecretWork:
        """Find the secrets to write. Without `compares`, every given secret counts as changed."""
        actions = {each.name: each.action for each in applied.channels}
        to_set: dict[str, dict[str, Plain | None]] = {}
        fields: dict[str, tuple[FieldChange, ...]] = {}
        for each in wanted.channels:
            name, parsed = each.entry.name, each.entry.parsed
            new = {
                secret: given
                for secret, given in each.given.items()
                if not (compares and self._is_same(each.stored.get(secret), given, parsed.origin))
            }
            to_set[name] = dict(new)
            fields[name] = tuple(
                hidden_change(secret_field(secret), was_there=secret in each.stored, is_there=True) for secret in new
            )
            is_other = actions[name] is Action.CREATE or (each.entry.known or each.entry.parsed).type != parsed.type
            if is_other and self._alerts.is_signed(parsed) and SIGNING not in each.given:
                to_set[name][SIGNING] = None
        return SecretWork(to_set, fields)

    async def seal(self, wanted: WantedAlerts, work: SecretWork) -> tuple[list[ChannelSecrets], dict[str, Plain]]:
        """Seal the secrets to write; also return the generated ones, by channel."""
        sealed, generated = [], {}
        for each in wanted.channels:
            entry = each.entry
            job_id = entry.job_id if entry.known is None else entry.known.job_id
            of_channel = []
            for secret, given in work.to_set[entry.name].items():
                plain = given or self._alerts.new_secret()
                if given is None:
                    generated[entry.name] = plain
                of_channel.append(await self._alerts.seal(secret, plain, job_id, entry.parsed))
            if of_channel:
                sealed.append(ChannelSecrets(entry.name, of_channel))
        return sealed, generated

    def plan(
        self, wanted: WantedAlerts, applied: AppliedAlerts, work: SecretWork, generated: Mapping[str, Plain]
    ) -> tuple[tuple[PlannedEntry, ...], tuple[PlannedEntry, ...]]:
        """Return the plan of the channels and of the policies."""
        notes = {each.entry.name: each.notes for each in wanted.channels}
        channels = []
        for each in applied.channels:
            hidden = () if each.action in (Action.CREATE, Action.DELETE) else work.fields[each.name]
            planned = _planned(replace(each, fields=(*each.fields, *hidden)), notes.get(each.name, ()))
            channels.append(replace(planned, generated_secret=generated.get(each.name)))
        return tuple(channels), tuple(_planned(each) for each in applied.policies)

    def _read_channel(
        self,
        name: str,
        body: object,
        known: StoredChannel | None,
        sealed: Mapping[str, Sealed],
        *,
        dry_run: bool,
    ) -> WantedChannel:
        check_name(name, "a channel")
        given = dict(body) if isinstance(body, Mapping) else {}
        kept = self._kept(given, known, sealed)
        ids = frozenset(each.id for each in sealed.values())
        try:
            parsed = self._alerts.parse(given | kept if isinstance(body, Mapping) else body)
        except RequestError as refused:
            lacking = _lacking(given, refused)
            if not dry_run or not lacking:
                raise
            notes = tuple(f"its {field} is not known here; it is needed to apply this" for field in lacking)
            config = {key: value for key, value in given.items() if key not in READ_ONLY}
            entry = ChannelEntry(name, ParsedChannel(str(given["type"]), config, {}, None), self._new_id(), known, ids)
            return WantedChannel(entry, {}, sealed, notes)
        refuse_other_origin(known, parsed, [field for field in kept if field != secret_field(SIGNING)])
        secrets = {field: Plain(text) for field, text in parsed.secrets.items() if secret_field(field) not in kept}
        notes = tuple(f"its {field} is not in the file, and stays" for field in kept if field != secret_field(SIGNING))
        return WantedChannel(ChannelEntry(name, parsed, self._new_id(), known, ids), secrets, sealed, notes)

    def _kept(
        self, given: Mapping[str, object], known: StoredChannel | None, sealed: Mapping[str, Sealed]
    ) -> dict[str, str]:
        """Return the stored secrets of the fields that are not given."""
        if known is None or known.type != given.get("type"):
            return {}
        found = {}
        for secret, each in sealed.items():
            name = secret_field(secret)
            if given.get(name) is None and (plain := self._secrets.reveal(each)) is not None:
                found[name] = plain.reveal()
        return found

    def _is_same(self, stored: Sealed | None, given: Plain, origin: str | None) -> bool:
        if stored is None or (stored.field != SIGNING and stored.origin != origin):
            return False
        return self._secrets.is_same(stored, given)


def refuse_other_origin(known: StoredChannel | None, parsed: ParsedChannel, kept: Sequence[str]) -> None:
    """Raise a RequestError if secrets that were set for one origin would be sent to another."""
    if known is not None and known.origin != parsed.origin and kept:
        raise RequestError(
            [
                FieldError(f"/{name}", f"{name} was set for {known.origin}", f"write it again for {parsed.origin}")
                for name in kept
            ]
        )


def _lacking(given: Mapping[str, object], refused: RequestError) -> list[str]:
    """Return the secret fields that are null, if nothing else is wrong."""
    secret = SECRET_FIELDS.get(str(given.get("type")), ())
    names = [error.pointer.removeprefix("/") for error in refused.errors]
    return names if all(name in secret and name in given and given[name] is None for name in names) else []


def _planned(each: AppliedEntry, notes: tuple[str, ...] = ()) -> PlannedEntry:
    action = Action.CHANGE if each.action is Action.NONE and each.fields else each.action
    return PlannedEntry(each.name, action.value, each.fields, notes)


def _within(kind: str, name: str, refused: BodyError) -> list[FieldError]:
    at = pointer_to(kind, name[:100])
    return [replace(error, pointer=at + error.pointer) for error in refused.errors]
