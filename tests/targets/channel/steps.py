"""A notification as a channel gets it, and the stored channel it goes to."""

import os
from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

from hourbell.core.alerts.channel import StoredChannel, system_job
from hourbell.core.alerts.kinds import Event
from hourbell.core.alerts.message import IncidentSummary, JobSummary, Message, RunSummary
from hourbell.core.run.settle import Outcome
from hourbell.core.values.url import parse_url
from hourbell.sealing import KeyRing, Plain, Sealed
from hourbell.targets.base import Call
from hourbell.targets.channel.base import SIGNING, Channel
from hourbell.targets.channel.target import ChannelTarget
from hourbell.targets.http.transport import Transport
from tests.core.alerts.values import opened
from tests.targets.calls import ReportingCall
from tests.targets.http.steps import RUN_ID, T0, a_run

JOB_ID = UUID(int=77)
KEYS = KeyRing([b"k" * 32], os.urandom)
MESSAGE = Message(
    str(RUN_ID),
    Event.OPENED,
    T0,
    "ops",
    IncidentSummary.of(opened(), ("nightly-report",)),
    JobSummary("j-1", "nightly-report", "0 3 * * *", "At 03:00", next_at=T0),
    RunSummary("r-1", "failed", "exhausted", T0, 4, T0, "HTTP 503"),
    {"incident": "https://hourbell.example/incidents/1"},
)


def a_channel(channel: Channel, config: Mapping[str, Any]) -> tuple[StoredChannel, tuple[Sealed, ...]]:
    """Parse a channel as the API does; return it as it is stored, with its sealed secrets."""
    parsed = channel.parse(config)
    stored = StoredChannel("ops", parsed.type, parsed.config, parsed.origin, JOB_ID)
    sealed = tuple(
        KEYS.seal(Plain(text), uuid4(), JOB_ID, field, None if field == SIGNING else parsed.origin)
        for field, text in parsed.secrets.items()
    )
    return stored, sealed


def a_notification(message: Message = MESSAGE, secrets: tuple[Sealed, ...] = (), **more: Any) -> Call:
    definition = system_job("ops")
    of_call = {name: more.pop(name) for name in ("begin",) if name in more}
    run = a_run(definition, job_id=JOB_ID, payload=message.to_json(), has_payload=True, **more)
    return ReportingCall(run, definition, T0, secrets=secrets, **of_call)


async def deliver(
    channel: Channel, config: Mapping[str, Any], transport: Transport, message: Message = MESSAGE, **more: Any
) -> Outcome:
    """Send a message to a channel of this configuration, as a node does."""
    stored, secrets = a_channel(channel, config)

    async def find(name: str) -> StoredChannel | None:
        return stored if name == stored.name else None

    target = ChannelTarget([channel], find, transport, keys=KEYS, user_agent="Hourbell/1")
    return await target.deliver(a_notification(message, secrets, **more))


def origin_of(url: str) -> str:
    return parse_url(url).origin
