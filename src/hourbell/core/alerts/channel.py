"""Channels as they are stored: where messages go, without what is secret about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from hourbell.core.job.definition import Definition
from hourbell.core.job.secret_headers import SIGNING
from hourbell.core.run.policies import RetryPolicy

CHANNEL = "channel"  # the type of the target
SYSTEM = "system"  # managed_by of jobs that Hourbell makes for itself
LANE_PREFIX = "channel:"
JOB_PREFIX = "hourbell-channel-"
# These receivers keep a state of their own for each incident: they always learn of its end, and get no digest.
STATEFUL_TYPES = frozenset({"pagerduty", "alertmanager"})
_SCHEDULE = "@yearly"  # never fires: the job is not enabled, and has no time to be planned
_WAITS = tuple(timedelta(seconds=seconds) for seconds in (10, 30, 60, 300, 900, 1_800))
_MAX_AGE = timedelta(hours=24)
# The types, and the fields of each that are secret.
SECRET_FIELDS: Mapping[str, tuple[str, ...]] = {
    "webhook": ("secret",),
    "email": (),
    "slack": ("url",),
    "mattermost": ("url",),
    "rocketchat": ("url",),
    "discord": ("url",),
    "ntfy": ("topic", "token"),
    "telegram": ("token",),
    "pagerduty": ("routing_key",),
    "alertmanager": ("token",),
}


@dataclass(frozen=True, slots=True)
class ParsedChannel:
    """A channel's valid configuration.

    `config` is stored and shown. `secrets` are sealed by field, and never shown; `origin` is where those that leave the
    process may be sent (scheme, host and port), and what is shown of a secret URL.
    """

    type: str
    config: Mapping[str, Any]
    secrets: Mapping[str, str]
    origin: str | None


@dataclass(frozen=True, slots=True)
class StoredChannel:
    """`job_id` is the system job whose runs are this channel's notifications, and which has its secrets."""

    name: str
    type: str
    config: Mapping[str, Any]
    origin: str | None
    job_id: UUID

    @property
    def is_stateful(self) -> bool:
        return self.type in STATEFUL_TYPES


def secret_field(name: str) -> str:
    """Return the field of a configuration that a stored secret was given in."""
    return "secret" if name == SIGNING else name


def lane_of_channel(name: str) -> str:
    return LANE_PREFIX + name


def system_job(name: str) -> Definition:
    """Return the definition of the job whose runs are a channel's notifications."""
    return Definition(
        name=JOB_PREFIX + name,
        schedule=_SCHEDULE,
        target={"type": CHANNEL, "channel": name},
        description=f"Notifications of the channel {name}",
        retry=RetryPolicy(attempts=20, backoff=_WAITS, spread=0.2),
        max_age=_MAX_AGE,
        enabled=False,
        lane=lane_of_channel(name),
        managed_by=SYSTEM,
        source="alerts",
    )
