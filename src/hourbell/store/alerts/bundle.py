"""The alert policies and channels that are applied together with the jobs of a bundle, and what becomes of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from hourbell.core.alerts.channel import ParsedChannel, StoredChannel
from hourbell.core.alerts.policy import AlertPolicy
from hourbell.core.job.differences import FieldChange
from hourbell.sealing import Sealed


@dataclass(frozen=True, slots=True)
class ChannelEntry:
    """A channel to apply. `job_id` is that of its system job, if it is new.

    `known` is the stored channel, and `secret_ids` its secrets, that this configuration was completed with.
    """

    name: str
    parsed: ParsedChannel
    job_id: UUID
    known: StoredChannel | None = None
    secret_ids: frozenset[UUID] = frozenset()


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    name: str
    policy: AlertPolicy


@dataclass(frozen=True, slots=True)
class AlertBundle:
    channels: Sequence[ChannelEntry] = ()
    policies: Sequence[PolicyEntry] = ()


@dataclass(frozen=True, slots=True)
class ChannelSecrets:
    """New secrets of one channel. Stored ones of other fields stay, if they may be sent to the channel's origin."""

    name: str
    sealed: Sequence[Sealed]


class Action(StrEnum):
    """The effect of applying a bundle on a channel or an alert policy."""

    CREATE = "create"
    CHANGE = "change"
    NONE = "none"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class AppliedEntry:
    """The result for one channel or policy; `refused` says why it cannot be applied, `hint` what to do."""

    name: str
    action: Action
    fields: tuple[FieldChange, ...] = ()
    refused: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class AppliedAlerts:
    """The results: those of the bundle in its order, then the deleted ones. If any is refused, nothing was changed."""

    channels: tuple[AppliedEntry, ...] = ()
    policies: tuple[AppliedEntry, ...] = ()

    @property
    def refused(self) -> list[tuple[str, AppliedEntry]]:
        """The refused entries, each with `channels` or `alert_policies`."""
        return [(kind, each) for kind, each in self._all() if each.refused is not None]

    @property
    def is_empty(self) -> bool:
        """True if nothing is to be written."""
        return all(each.action is Action.NONE for _, each in self._all())

    def _all(self) -> Iterator[tuple[str, AppliedEntry]]:
        yield from (("channels", each) for each in self.channels)
        yield from (("alert_policies", each) for each in self.policies)
