"""Birthdays under virtual time: the example's own loader and receiver around the real engine and the real http target.

Only the network is replaced. What leaves a node is verified by the signature the job's secret makes, and handed to the
example's receiver, which writes to a database of its own.
"""

import asyncio
import hashlib
import itertools
import json
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

from examples.birthdays.load import Loaded, Person, birthday_job, load
from examples.birthdays.receiver import greet, open_database

from hourbell.control.secrets import Secrets
from hourbell.receiver import Verifier
from hourbell.sealing import KeyRing
from hourbell.targets.http.target import HttpTarget
from hourbell.targets.http.transport import NotBegun, Request, Response
from tests.engine.nodes import SECOND, Cluster, Node, virtually

SECRET = "whsec_YW4gZXhhbXBsZSwgbm90IGEgc2VjcmV0LCAzMmJ5dGU="
URL = "https://greetings.example.com/birthdays"
ZONES = (
    "Pacific/Auckland", "Australia/Adelaide", "Asia/Tokyo", "Asia/Kathmandu", "Asia/Kolkata", "Africa/Nairobi",
    "Europe/Paris", "Europe/London", "America/Sao_Paulo", "America/New_York", "America/Los_Angeles",
    "Pacific/Honolulu",
)  # fmt: skip


def people(count: int, born: Callable[[int], date]) -> list[Person]:
    """So many people, in every zone."""
    return [
        Person(f"p{number:03}", "Person", f"{number:03}", born(number), ZONES[number % len(ZONES)])
        for number in range(count)
    ]


def birthdays(person: Person, after: datetime, until: datetime) -> dict[tuple[str, int], datetime]:
    """Return when a person is to be greeted, by year; computed without Hourbell's arithmetic."""
    found = {}
    for year in range(after.year - 1, until.year + 2):
        try:
            day = person.birthday.replace(year=year)
        except ValueError:
            day = date(year, 2, 28)
        instant = datetime(day.year, day.month, day.day, 9, tzinfo=ZoneInfo(person.timezone)).astimezone(UTC)
        if after < instant <= until:
            found[person.id, year] = instant
    return found


@dataclass(frozen=True)
class Delivered:
    """A request that the receiver got; its message is None if it was a repeat."""

    person: str
    year: int
    run_id: str
    scheduled_at: datetime
    at: datetime
    message: str | None


@dataclass
class Greetings:
    """The example in a cluster."""

    cluster: Cluster
    delivered: list[Delivered] = field(default_factory=list)
    crash_before: str | None = None  # whose request never reaches the receiver, because the node dies
    crash_after: str | None = None  # whose request has arrived when the node dies, so that the answer is lost

    def __post_init__(self) -> None:
        self.database = open_database(":memory:")
        self.verifier = Verifier(SECRET)
        self._numbers = itertools.count(1)
        self._keys = KeyRing([bytes(32)], self._bytes)
        self._secrets = Secrets(
            self.cluster.database.secrets(), self.cluster.control, self._keys, new_id=self._id, random_bytes=self._bytes
        )

    async def load(self, people: Iterable[Person], secret: str = SECRET, *, sign_again: bool = False) -> Loaded:
        """Run `load.py` with a file of these people."""
        there = [row["name"] for row in await self.cluster.rows("jobs", source="birthdays", deleted_at=None)]
        jobs = [birthday_job(person, URL) for person in people]
        return await load(
            self.cluster.control,
            self._secrets,
            jobs,
            secret,
            self.cluster.now(),
            there=there,
            sign_again=sign_again,
        )

    async def start(self) -> Node:
        transport = _Transport(self)
        target = HttpTarget(
            transport, keys=self._keys, user_agent="Hourbell", slots=100, elapsed=self.cluster.time.elapsed
        )
        transport.node = await self.cluster.start([target])
        return transport.node

    async def serve_at(self, moment: datetime, *, until: timedelta = 5 * SECOND) -> None:
        """Have a node at work, from shortly before a moment until so long after it."""
        await self.cluster.advance_to(moment - 5 * SECOND)
        node = await self.start()
        await self.cluster.advance_to(moment + until)
        if not node.is_dead:
            await node.stop()

    def receive(self, request: Request) -> None:
        """Answer a request as the receiver's server does."""
        webhook = self.verifier.verify(request.headers, request.body, self.cluster.now())
        message, body = greet(self.database, webhook), webhook.json()
        scheduled_at = datetime.fromisoformat(body["scheduled_at"])
        year = scheduled_at.astimezone(ZoneInfo(body["timezone"])).year
        self.delivered.append(Delivered(body["person"], year, webhook.id, scheduled_at, self.cluster.now(), message))

    @property
    def greeted(self) -> dict[tuple[str, int], Delivered]:
        """The greetings that were made, by person and year; each once."""
        made = [each for each in self.delivered if each.message is not None]
        assert len({(each.person, each.year) for each in made}) == len(made)
        kept = self.database.execute("select person, year, message from greetings").fetchall()
        assert sorted(kept) == sorted((each.person, each.year, each.message) for each in made)
        return {(each.person, each.year): each for each in made}

    def _bytes(self, count: int) -> bytes:
        return hashlib.shake_128(str(next(self._numbers)).encode()).digest(count)

    def _id(self) -> UUID:
        return UUID(bytes=self._bytes(16))


def with_greetings(test: Callable[[Greetings], Awaitable[None]]) -> Callable[[], None]:
    """Run a test's coroutine under virtual time, on databases of its own."""

    async def run(cluster: Cluster) -> None:
        greetings = Greetings(cluster)
        with closing(greetings.database):
            await test(greetings)

    return virtually(run)


class _Transport:
    """The way from one node to the receiver."""

    node: Node

    def __init__(self, greetings: Greetings) -> None:
        self._greetings = greetings

    async def send(self, request: Request, begin: Callable[[], Awaitable[bool]]) -> Response:
        if not await begin():
            raise NotBegun
        greetings, person = self._greetings, json.loads(request.body)["person"]
        if person == greetings.crash_before:
            greetings.crash_before = None
            await self._die()
        greetings.receive(request)
        if person == greetings.crash_after:
            greetings.crash_after = None
            await self._die()
        return Response(204, (), b"", is_whole=True)

    async def close(self) -> None: ...

    async def _die(self) -> None:
        self.node.crash()
        await asyncio.get_running_loop().create_future()
