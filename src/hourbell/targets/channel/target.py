"""The channel target: each notification is a run, and this makes one attempt of it.

1. Read the channel as it is stored now, so that a corrected address holds for messages that wait.
2. Open its secrets. Those that leave the process must be bound to the channel's present origin.
3. Let the type of the channel send the message, which is the run's payload.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from uuid import UUID

from hourbell.core.alerts.channel import LANE_PREFIX, StoredChannel, lane_of_channel
from hourbell.core.alerts.message import Message
from hourbell.core.run.settle import Failed, Outcome
from hourbell.core.values.url import parse_url
from hourbell.sealing import CannotOpen, KeyRing, Sealed
from hourbell.targets.base import Call
from hourbell.targets.channel.base import SIGNING, Channel, Delivery
from hourbell.targets.http.transport import Transport
from hourbell.targets.pool import Pool

SLOTS = 4

FindChannel = Callable[[str], Awaitable[StoredChannel | None]]


class ChannelTarget:
    reads_secrets = True
    pools: tuple[Pool, ...] = ()

    def __init__(
        self,
        channels: Iterable[Channel],
        find: FindChannel,
        http: Transport,
        *,
        keys: KeyRing | None,
        user_agent: str,
    ) -> None:
        self._channels = {channel.type: channel for channel in channels}
        self._find = find
        self._http = http
        self._keys = keys
        self._user_agent = user_agent

    def lanes(self) -> tuple[str, ...]:
        return (f"{LANE_PREFIX}*",)

    def slots(self, lane: str) -> int:
        del lane
        return SLOTS

    def pool(self, lane: str) -> None:
        """Return None: channels share no limited resource."""

    async def deliver(self, call: Call) -> Outcome:
        name = call.run.lane.removeprefix(LANE_PREFIX)
        stored = await self._find(name)
        if stored is None:
            return Failed(f"there is no channel {name} any more", retryable=False, begun=False)
        channel = self._channels.get(stored.type)
        if channel is None:
            return Failed(f"this node has no channels of type {stored.type}; install it on every node", begun=False)
        try:
            message = Message.from_json(call.payload)
            secrets = self._open(call, stored)
        except CannotOpen as error:
            return Failed(str(error), begun=False)
        except ValueError as error:
            return Failed(str(error), retryable=False, begun=False)
        return await channel.send(message, stored.config, secrets, Delivery(call, self._http, self._user_agent))

    async def close(self) -> None:
        await self._http.close()

    def can_deliver(self, stored: StoredChannel, secrets: Iterable[Sealed]) -> bool:
        """Return True if this node has the type of the channel, its settings, and the key of each of its secrets."""
        channel = self._channels.get(stored.type)
        return channel is not None and channel.is_usable and all(map(self._can_open, secrets))

    def _can_open(self, sealed: Sealed) -> bool:
        try:
            return self._keys is not None and self._keys.open(sealed) is not None
        except CannotOpen:
            return False

    def _open(self, call: Call, stored: StoredChannel) -> dict[str, str]:
        """Open the channel's secrets: the newest of each field, and only those that are bound to its origin."""
        opened: dict[str, str] = {}
        origin = _origin_of(stored)
        for sealed in call.secrets:
            if sealed.field in opened or (sealed.field != SIGNING and sealed.origin != origin):
                continue
            if self._keys is None:
                raise CannotOpen("the channel has a secret, and this node has no HOURBELL_SECRET_KEY")
            opened[sealed.field] = self._keys.open(sealed).reveal()
        return opened


class OwnChannels(ChannelTarget):
    """The channels of a node in a program, which may lack keys and mail server: it serves those that it can deliver.

    `refresh` reads which these are; call it from time to time.
    """

    _lanes: tuple[str, ...] = ()

    def lanes(self) -> tuple[str, ...]:
        return self._lanes

    def refresh(self, channels: Sequence[StoredChannel], secrets: Iterable[Sealed]) -> None:
        """Serve those of all channels that this node can deliver."""
        by_job: dict[UUID, list[Sealed]] = {}
        for sealed in secrets:
            by_job.setdefault(sealed.job_id, []).append(sealed)
        able = [each.name for each in channels if self.can_deliver(each, by_job.get(each.job_id, ()))]
        self._lanes = tuple(map(lane_of_channel, able))


def _origin_of(stored: StoredChannel) -> str | None:
    """Return the origin that messages go to: that of the visible URL, which plain SQL may have changed, if any."""
    url = stored.config.get("url")
    return stored.origin if url is None else parse_url(url).origin
