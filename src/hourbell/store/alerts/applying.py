"""Decide and write what applying a bundle does to channels and alert policies, in the transaction of its jobs.

They are identified by name. Those of another owner are refused, and those that do not differ are left alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hourbell.core.alerts.policy import DEFAULT_POLICY, AlertPolicy, channels_of, policy_to_body
from hourbell.core.job.differences import FieldChange
from hourbell.core.job.same import same_json
from hourbell.core.job.secret_headers import SIGNING
from hourbell.store.alerts.bundle import (
    Action,
    AlertBundle,
    AppliedAlerts,
    AppliedEntry,
    ChannelEntry,
    ChannelSecrets,
    PolicyEntry,
)
from hourbell.store.alerts.rows import channel_of, policies_of, policy_of
from hourbell.store.alerts.writing import (
    MAX_CHANNEL_ROWS,
    MAX_POLICY_ROWS,
    Owner,
    owner_of,
    remove_channel,
    remove_policy,
    write_channel,
    write_policy,
)
from hourbell.store.control.actor import Actor
from hourbell.store.control.bundles import Bundle
from hourbell.store.control.secrets import insert_secrets
from hourbell.store.control.session import Session
from hourbell.store.errors import Conflict
from hourbell.store.rows import Row

_OTHERS = "take it over (take_over=true), delete it there, or use another name"
_MAX_NAMED_JOBS = 5  # of a policy that cannot be deleted
_OUTDATED = "channels or alert policies have changed since the plan was made; make a new plan"


@dataclass(frozen=True, slots=True)
class StoredAlerts:
    """All channels and policies as stored, by name, and the secrets of channels by job: their fields and origins."""

    channels: Mapping[str, Row]
    policies: Mapping[str, Row]
    secrets: Mapping[UUID, Sequence[Row]]

    def undefined_channels(self, bundle: Bundle, alerts: AlertBundle) -> dict[str, Row]:
        """Return the channels that the bundle deletes."""
        return _pruned(bundle, alerts.channels, self.channels)

    def undefined_policies(self, bundle: Bundle, alerts: AlertBundle) -> dict[str, Row]:
        """Return the policies that the bundle deletes."""
        return _pruned(bundle, alerts.policies, self.policies)

    def state(self, bundle: Bundle, alerts: AlertBundle) -> Iterator[str]:
        """Yield a text for everything that the bundle names or would delete, which changes if any of it does."""
        names = {each.name for each in alerts.channels} | self.undefined_channels(bundle, alerts).keys()
        for name in sorted(names & self.channels.keys()):
            row = self.channels[name]
            secrets = sorted(str(each["id"]) for each in self.secrets.get(row["job_id"], ()))
            yield _text("channel", row, "type", "config", "origin", "job_id") + f" {secrets}"
        names = {each.name for each in alerts.policies} | self.undefined_policies(bundle, alerts).keys()
        for name in sorted(names & self.policies.keys()):
            yield _text("alert_policy", self.policies[name], "definition")


async def read_alerts(session: Session, actor: Actor, *, lock: bool) -> StoredAlerts:
    """Read all channels and policies: few rows, and the limits and names of all of them count."""
    channels = await session.fetch("lock_channels" if lock else "channels")
    policies = await session.fetch("lock_alert_policies" if lock else "alert_policies")
    secrets: dict[UUID, list[Row]] = {}
    for row in await session.fetch("list_secrets", job_ids=[row["job_id"] for row in channels], now=actor.at):
        if row["valid_until"] is None:
            secrets.setdefault(row["job_id"], []).append(row)
    return StoredAlerts(_by_name(channels), _by_name(policies), secrets)


async def jobs_of_undefined(
    session: Session, bundle: Bundle, alerts: AlertBundle, stored: StoredAlerts, locked: Sequence[Row]
) -> dict[str, list[str]]:
    """Return some jobs that will still name each policy that is deleted. `locked` are the rows of the bundle."""
    gone = [name for name in stored.undefined_policies(bundle, alerts) if name != DEFAULT_POLICY]
    if not gone:
        return {}
    known = list({*bundle.names, *(row["name"] for row in locked)})
    rows = await session.fetch("jobs_of_policies", policies=gone, names=known, limit=_MAX_NAMED_JOBS)
    definitions = [entry.definition for entry in bundle.entries]
    found = [(each.alert_policy, each.name) for each in definitions if each.alert_policy in gone]
    users: dict[str, list[str]] = {}
    for policy, name in [*found, *((row["alert_policy"], row["name"]) for row in rows)]:
        users.setdefault(policy, []).append(name)
    return users


def decide_alerts(
    bundle: Bundle, alerts: AlertBundle, stored: StoredAlerts, users: Mapping[str, Sequence[str]]
) -> AppliedAlerts:
    """Decide what becomes of each channel and policy; `users` has the jobs that name deleted policies.

    Raise Conflict if a channel was read in another state.
    """
    gone_channels = stored.undefined_channels(bundle, alerts)
    gone_policies = stored.undefined_policies(bundle, alerts)
    policies = policies_of([row for name, row in stored.policies.items() if name not in gone_policies])
    policies |= {each.name: each.policy for each in alerts.policies}
    channels = {each.name for each in alerts.channels} | (stored.channels.keys() - gone_channels.keys())
    room = MAX_CHANNEL_ROWS - len(stored.channels) + len(gone_channels)
    applied_channels = []
    for channel in alerts.channels:
        applied = _channel(channel, stored, bundle)
        room -= applied.action is Action.CREATE
        applied_channels.append(applied if room >= 0 else _over(applied, f"there are {MAX_CHANNEL_ROWS} channels"))
    room = MAX_POLICY_ROWS - len(stored.policies) + len(gone_policies)
    applied_policies = []
    for policy in alerts.policies:
        applied = _policy(policy, stored, bundle, channels)
        room -= applied.action is Action.CREATE
        applied_policies.append(applied if room >= 0 else _over(applied, f"there are {MAX_POLICY_ROWS} policies"))
    return AppliedAlerts(
        (*applied_channels, *(_deleted_channel(name, policies) for name in gone_channels)),
        (*applied_policies, *(_deleted_policy(name, users.get(name, ())) for name in gone_policies)),
    )


async def write_alerts(
    session: Session,
    bundle: Bundle,
    alerts: AlertBundle,
    stored: StoredAlerts,
    applied: AppliedAlerts,
    secrets: Sequence[ChannelSecrets],
    actor: Actor,
) -> None:
    """Write the channels, then the policies that may name them; then delete policies and the channels they named."""
    owner = Owner(bundle.managed_by, bundle.source)
    actions = {each.name: each.action for each in applied.channels}
    new = {each.name: each.sealed for each in secrets}
    for channel in alerts.channels:
        if actions[channel.name] is not Action.NONE or channel.name in new:
            row = stored.channels.get(channel.name)
            own = channel.job_id if row is None else row["job_id"]
            await write_channel(session, channel.name, channel.parsed, own, row, owner, actor)
            for field in _replaced(channel, stored, {each.field for each in new.get(channel.name, ())}):
                await session.execute("remove_secrets", job_id=own, field=field)
            await insert_secrets(session, new.get(channel.name, ()), actor.at)
    actions = {each.name: each.action for each in applied.policies}
    for policy in alerts.policies:
        if actions[policy.name] is not Action.NONE:
            before = stored.policies.get(policy.name)
            try:
                await write_policy(session, policy.name, policy.policy, before, owner, actor)
            except Conflict:  # it was created after all of them were read
                raise Conflict("plan_outdated", _OUTDATED) from None
    for row in stored.undefined_policies(bundle, alerts).values():
        await remove_policy(session, row, actor)
    for row in stored.undefined_channels(bundle, alerts).values():
        await remove_channel(session, row, actor)


def _channel(entry: ChannelEntry, stored: StoredAlerts, bundle: Bundle) -> AppliedEntry:
    row = stored.channels.get(entry.name)
    known = None if row is None else channel_of(row)
    secrets = () if known is None else stored.secrets.get(known.job_id, ())
    if known != entry.known or {each["id"] for each in secrets} != entry.secret_ids:
        raise Conflict("plan_outdated", _OUTDATED)
    if row is None or known is None:
        return AppliedEntry(entry.name, Action.CREATE)
    before = {"type": known.type, **known.config, "origin": known.origin}
    after = {"type": entry.parsed.type, **entry.parsed.config, "origin": entry.parsed.origin}
    return _compared(entry.name, row, before, after, bundle)


def _policy(entry: PolicyEntry, stored: StoredAlerts, bundle: Bundle, channels: set[str]) -> AppliedEntry:
    row = stored.policies.get(entry.name)
    if unknown := sorted(channels_of(entry.policy) - channels):
        refused = f"there is no channel {', '.join(unknown)}"
        action = Action.CREATE if row is None else Action.CHANGE
        return AppliedEntry(entry.name, action, refused=refused, hint="create it first, or in the same file")
    if row is None:
        return AppliedEntry(entry.name, Action.CREATE)
    old = policy_of(row)
    return _compared(entry.name, row, {} if old is None else policy_to_body(old), policy_to_body(entry.policy), bundle)


def _compared(name: str, row: Row, before: Mapping[str, Any], after: Mapping[str, Any], bundle: Bundle) -> AppliedEntry:
    theirs = owner_of(row)
    if str(theirs) != bundle.owner and not bundle.take_over:
        return AppliedEntry(name, Action.CHANGE, refused=f"it belongs to {theirs}", hint=_OTHERS)
    fields = [
        FieldChange(field, before.get(field), after.get(field))
        for field in dict.fromkeys([*after, *before])
        if not same_json(before.get(field), after.get(field))
    ]
    if str(theirs) != bundle.owner:
        fields.append(FieldChange("owner", str(theirs), bundle.owner))
    return AppliedEntry(name, Action.CHANGE if fields else Action.NONE, tuple(fields))


def _deleted_channel(name: str, policies: Mapping[str, AlertPolicy]) -> AppliedEntry:
    users = [each for each, policy in policies.items() if name in channels_of(policy)]
    if not users:
        return AppliedEntry(name, Action.DELETE)
    refused = f"these alert policies name it: {', '.join(users)}"
    return AppliedEntry(name, Action.DELETE, refused=refused, hint="change them first, or keep it in the file")


def _deleted_policy(name: str, users: Sequence[str]) -> AppliedEntry:
    if not users:
        return AppliedEntry(name, Action.DELETE)
    refused = f"these jobs name it: {', '.join(users[:_MAX_NAMED_JOBS])}"
    return AppliedEntry(
        name, Action.DELETE, refused=refused, hint="give them another one first, or keep it in the file"
    )


def _over(applied: AppliedEntry, limit: str) -> AppliedEntry:
    if applied.action is not Action.CREATE:
        return applied
    return AppliedEntry(applied.name, Action.CREATE, refused=limit, hint="delete one first")


def _replaced(entry: ChannelEntry, stored: StoredAlerts, new: set[str]) -> list[str]:
    """Return the fields whose stored secrets go: given anew, of another type, or bound to another origin."""
    if entry.known is None:
        return []
    is_other = entry.known.type != entry.parsed.type
    return [
        row["field"]
        for row in stored.secrets.get(entry.known.job_id, ())
        if is_other or row["field"] in new or (row["field"] != SIGNING and row["origin"] != entry.parsed.origin)
    ]


def _pruned(bundle: Bundle, entries: Sequence[ChannelEntry | PolicyEntry], rows: Mapping[str, Row]) -> dict[str, Row]:
    """Return the rows of the bundle's owner that are not among its entries, if it prunes."""
    named = {each.name for each in entries}
    return {
        name: row
        for name, row in rows.items()
        if bundle.prune and str(owner_of(row)) == bundle.owner and name not in named
    }


def _by_name(rows: Sequence[Row]) -> dict[str, Row]:
    return {row["name"]: row for row in rows}


def _text(kind: str, row: Row, *columns: str) -> str:
    return repr([kind, *(str(row[column]) for column in ("name", *columns, "managed_by", "source"))])
