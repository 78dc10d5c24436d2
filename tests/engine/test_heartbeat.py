"""Heartbeats: what they ask and report, when they are skipped, and when they have succeeded for long enough to reap."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pytest

from hourbell.engine.heartbeat import Heartbeat, HeartbeatResult, Pulse
from hourbell.engine.leases import Leases
from hourbell.engine.loop import NotAsked
from hourbell.engine.outages import DatabaseReach, OutageRecorder
from hourbell.engine.time import STEP, DatabaseClock
from hourbell.store.base import EngineStore, HeartbeatReply, LeaseKey, Node
from hourbell.store.errors import StoreUnavailable
from tests.engine.test_time import SECOND, T0, Elapsed

pytestmark = pytest.mark.anyio
LEASE = timedelta(seconds=60)
INTERVAL = 15.0  # seconds between beats
NODE = Node(UUID(int=7), "here", T0, ("task:*",), "2026b")
KEPT, LOST, GIVEN_UP, ORPHAN = (LeaseKey(UUID(int=number), 1) for number in range(1, 5))
CANCELLED = UUID(int=9)


@dataclass
class ScriptedStore:
    """Gives scripted answers and records the calls."""

    elapsed: Elapsed
    answer: HeartbeatReply
    offset: timedelta = timedelta(0)  # of the database's clock
    is_out: bool = False
    is_closed: bool = False
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def now(self) -> datetime:
        return T0 + timedelta(seconds=self.elapsed.seconds) + self.offset

    async def sample_time(self) -> datetime:
        return self.now()

    async def heartbeat(
        self,
        node: Node,
        now: datetime,
        lease_until: datetime,
        held: Sequence[LeaseKey],
        *,
        given_up: Collection[LeaseKey],
        orphans: Collection[LeaseKey],
    ) -> HeartbeatReply:
        if self.is_out:
            raise StoreUnavailable("unreachable")
        self.asked.append((node, now, lease_until, held, given_up, orphans))
        return self.answer

    async def last_beat(self) -> datetime | None:
        return None

    async def close(self) -> None:
        self.is_closed = True


class Beating:
    """A heartbeat with its parts."""

    def __init__(self, lease: timedelta = LEASE, answer: HeartbeatReply = HeartbeatReply((), ())) -> None:  # noqa: B008
        self.elapsed = Elapsed(100.0)
        self.store = ScriptedStore(self.elapsed, answer)
        self.pulse = Pulse(self.elapsed)
        self.leases = Leases(lease, self.elapsed)
        self.results: list[HeartbeatResult] = []
        self.settled_while_asked: list[bool] = []
        clock = DatabaseClock(self.elapsed)
        self.heartbeat = Heartbeat(
            cast(EngineStore, self.store),
            clock,
            node=self._node,
            leases=self.leases,
            held=lambda: [KEPT, LOST],
            given_up=lambda: [GIVEN_UP],
            pulse=self.pulse,
            on_beat=self.results.append,
            outages=OutageRecorder(clock, DatabaseReach(self.elapsed), node_id=NODE.id, live_for=lease),
            elapsed=self.elapsed,
        )

    def _node(self) -> Node:
        self.settled_while_asked.append(self.heartbeat.has_settled)
        return NODE

    async def beat(self, *, after: float = 0.0) -> float:
        self.elapsed.seconds += after
        return await self.heartbeat.tick()

    async def settle(self) -> None:
        """Send heartbeats until they have succeeded for long enough."""
        for _ in range(3):
            await self.beat(after=INTERVAL)
        assert self.heartbeat.has_settled


async def test_a_heartbeat_renews_held_leases_and_reports_the_answer() -> None:
    beating = Beating(answer=HeartbeatReply((LOST,), (CANCELLED,), (ORPHAN,)))
    now = beating.store.now()
    await beating.beat()

    assert beating.store.asked == [(NODE, now, now + LEASE, [KEPT, LOST], [GIVEN_UP], ())]
    assert beating.results == [HeartbeatResult(timedelta(0), (KEPT,), 155.0, (LOST,), (CANCELLED,), (ORPHAN,))]


async def test_a_lease_not_held_at_two_heartbeats_is_an_orphan_if_its_claim_has_ended() -> None:
    beating = Beating(answer=HeartbeatReply((), (), unheld=(ORPHAN,)))
    named = []
    await beating.settle()
    with beating.leases.claiming():
        for _ in range(3):
            await beating.beat(after=INTERVAL)
            named.append(beating.store.asked[-1][-1])
    with beating.leases.claiming():  # a later one, which cannot have taken a lease that was seen before it
        for _ in range(3):
            await beating.beat(after=INTERVAL)
            named.append(beating.store.asked[-1][-1])
    await beating.beat(after=INTERVAL)
    named.append(beating.store.asked[-1][-1])

    assert named == [(ORPHAN,), (), (), (ORPHAN,), (), (), (ORPHAN,)]


async def test_an_orphaned_lease_is_checked_again_soon() -> None:
    beating = Beating(answer=HeartbeatReply((), (), unheld=(ORPHAN,)))
    await beating.settle()

    assert await beating.beat(after=INTERVAL) == INTERVAL / 4


async def test_heartbeats_come_every_quarter_of_a_lease_once_a_second_sample_confirmed_the_time() -> None:
    beating = Beating()

    assert [await beating.beat() for _ in range(3)] == [0.05, INTERVAL, INTERVAL]


@pytest.mark.parametrize(("lease", "longest"), [(60, 5.0), (40, 5.0), (8, 1.0)])
def test_after_an_outage_the_next_heartbeat_comes_within_half_an_interval(lease: float, longest: float) -> None:
    assert Beating(timedelta(seconds=lease)).heartbeat.max_backoff == longest


def test_a_pulse_has_stalled_when_it_has_not_beaten_for_two_seconds() -> None:
    elapsed = Elapsed(100.0)
    pulse = Pulse(elapsed)
    assert not pulse.has_stalled  # the engine has not started

    pulse.beat()
    elapsed.seconds = 102.0
    assert not pulse.has_stalled
    elapsed.seconds = 102.001
    assert pulse.has_stalled


async def test_while_the_event_loop_has_stalled_no_lease_is_renewed(caplog: pytest.LogCaptureFixture) -> None:
    beating = Beating()
    await beating.settle()
    beating.pulse.beat()
    asked, reported = len(beating.store.asked), len(beating.results)
    delay = await beating.beat(after=5.0)

    assert (delay, isinstance(delay, NotAsked)) == (INTERVAL / 4, True)
    assert (len(beating.store.asked), len(beating.results)) == (asked, reported)
    assert not beating.heartbeat.has_settled
    assert [record.message for record in caplog.records] == ["event_loop_stalled"]


async def test_heartbeats_are_settled_after_two_intervals_and_until_two_are_missed() -> None:
    beating = Beating()
    settled = []
    assert not beating.heartbeat.has_settled
    for _ in range(3):
        await beating.beat(after=INTERVAL)
        settled.append(beating.heartbeat.has_settled)

    assert settled == [False, False, True]
    beating.elapsed.seconds += 2 * INTERVAL - 0.001
    assert beating.heartbeat.has_settled
    beating.elapsed.seconds += 0.001
    assert beating.heartbeat.has_settled is False


@pytest.mark.parametrize(("gap", "is_settled"), [(2 * INTERVAL - 0.001, True), (2 * INTERVAL, False)])
async def test_a_machine_that_slept_restarts_the_count_of_heartbeats(gap: float, is_settled: bool) -> None:
    beating = Beating()
    await beating.settle()
    await beating.beat(after=gap)

    assert beating.heartbeat.has_settled is is_settled
    await beating.beat(after=INTERVAL)
    assert beating.heartbeat.has_settled is is_settled
    await beating.beat(after=INTERVAL)
    assert beating.heartbeat.has_settled


async def test_a_failed_heartbeat_restarts_the_count() -> None:
    beating = Beating()
    await beating.settle()
    reported = len(beating.results)
    beating.store.is_out = True
    with pytest.raises(StoreUnavailable):
        await beating.beat(after=1.0)

    assert not beating.heartbeat.has_settled
    assert len(beating.results) == reported
    beating.store.is_out = False
    await beating.beat(after=1.0)
    assert not beating.heartbeat.has_settled


@pytest.mark.parametrize("sign", [1, -1], ids=["forward", "back"])
@pytest.mark.parametrize(("step", "is_settled"), [(LEASE / 4, True), (LEASE / 4 + SECOND / 1_000, False)])
async def test_a_clock_step_longer_than_the_heartbeat_interval_restarts_the_count_at_once(
    sign: int, step: timedelta, is_settled: bool
) -> None:
    beating = Beating()
    await beating.settle()
    beating.store.offset = sign * step
    await beating.beat(after=1.0)

    assert beating.settled_while_asked[-1] is is_settled  # no reaper uses the new time before this heartbeat has ended
    assert beating.heartbeat.has_settled is is_settled
    assert beating.results[-1].drift == sign * step


@pytest.mark.parametrize("sign", [1, -1], ids=["forward", "back"])
@pytest.mark.parametrize(("step", "reported"), [(STEP, []), (STEP + SECOND, ["clock_stepped"])])
async def test_a_step_of_more_than_a_minute_is_logged_and_confirmed_soon(
    caplog: pytest.LogCaptureFixture, sign: int, step: timedelta, reported: list[str]
) -> None:
    beating = Beating()
    await beating.settle()
    beating.store.offset = sign * step
    with caplog.at_level(logging.WARNING, "hourbell.engine"):
        delay = await beating.beat(after=INTERVAL)

    assert [record.message for record in caplog.records] == reported
    assert delay == (0.05 if reported else INTERVAL)


async def test_a_heartbeat_closes_its_own_connection() -> None:
    beating = Beating()
    await beating.heartbeat.close()

    assert beating.store.is_closed
