"""Lanes share the slots of a node: hanging lanes leave room for others, and no lane starves."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.run.settle import Outcome, Succeeded
from hourbell.engine.shares import (
    FEW_SLOTS,
    PROVEN_SECONDS,
    SMALL_NODE_SLOTS,
    SOON_SECONDS,
    Probation,
    SlotUse,
    claimable_slots,
    last_slots,
    probation_slots,
)
from hourbell.targets.base import Call
from tests.engine.nodes import MINUTE, SECOND, Cluster, Node, hang, takes, virtually
from tests.engine.virtual import START

SLOTS, LANE_SLOTS = 1_000, 100  # the defaults
AT_ONCE = FEW_SLOTS + 1

slots = st.integers(1, 3_000)
lanes = st.integers(0, 40)


@dataclass
class Sharing:
    """A node whose calls never end, unless `end` says so."""

    slots: int
    held: Counter[int] = field(default_factory=Counter)
    on_probation: Counter[int] = field(default_factory=Counter)

    @property
    def free(self) -> int:
        return self.slots - self.held.total()

    def claimable(self, lane: int, *, is_proven: bool) -> int:
        use = SlotUse(self.slots, self.free, self.on_probation.total())
        return claimable_slots(use, self.held[lane], is_proven=is_proven)

    def claim(self, lane: int, limit: int, *, is_proven: bool = False) -> int:
        taken = min(limit, self.claimable(lane, is_proven=is_proven))
        self.held[lane] += taken
        if not is_proven:
            self.on_probation[lane] += taken
        return taken

    def fill(self, lanes: int, limit: int = LANE_SLOTS, *, is_proven: bool = False) -> None:
        """Let lanes claim in turn, a few at a time, until none of them gets any more."""
        while sum(
            self.claim(lane, min(AT_ONCE, limit - self.held[lane]), is_proven=is_proven) for lane in range(lanes)
        ):
            pass


def hung(lanes: int, limit: int = LANE_SLOTS, slots: int = SLOTS, *, is_proven: bool = False) -> Sharing:
    sharing = Sharing(slots)
    sharing.fill(lanes, limit, is_proven=is_proven)
    return sharing


@given(slots, st.integers(-50, 3_000), st.integers(0, 3_000), st.integers(0, 3_000), st.booleans())
def test_a_lane_is_offered_free_slots_only(
    slots: int, free: int, on_probation: int, held: int, is_proven: bool
) -> None:
    offered = claimable_slots(SlotUse(slots, free, on_probation), held, is_proven=is_proven)
    assert 0 <= offered <= max(0, free)


@given(slots, st.lists(st.tuples(st.integers(0, 12), st.integers(1, 500), st.booleans()), max_size=60))
def test_whatever_lanes_ask_for_every_reserve_is_kept(slots: int, asked: list[tuple[int, int, bool]]) -> None:
    sharing = Sharing(slots)
    for lane, limit, is_proven in asked:
        sharing.claim(lane, limit, is_proven=is_proven)
        small = sum(1 for held in sharing.held.values() if held) * FEW_SLOTS

        assert sharing.free >= 0
        assert sharing.on_probation.total() <= probation_slots(slots)
        assert sharing.free >= last_slots(slots) - small


@given(slots, lanes, st.integers(1, 500), st.integers(1, 100))
def test_claiming_at_once_or_one_by_one_comes_to_the_same(slots: int, others: int, limit: int, asked: int) -> None:
    at_once, one_by_one = hung(others, limit, slots), hung(others, limit, slots)
    at_once.claim(99, asked)
    while one_by_one.held[99] < asked and one_by_one.claim(99, 1):
        pass

    assert at_once.held == one_by_one.held


@given(slots, st.integers(0, 10_000))
def test_a_lane_that_answers_has_a_quarter_of_the_slots_however_many_lanes_hang(slots: int, lanes: int) -> None:
    sharing = Sharing(slots)
    for lane in range(lanes):
        if not sharing.claim(lane, LANE_SLOTS) and sharing.on_probation.total() >= probation_slots(slots):
            break

    if slots > SMALL_NODE_SLOTS:
        reserved = slots - probation_slots(slots) - last_slots(slots)
        assert sharing.claimable(-1, is_proven=True) >= max(1, reserved)


@given(st.integers(17, 3_000), st.integers(1, 30), st.integers(1, 3_000))
def test_lanes_that_answered_and_then_hang_leave_a_slot_to_any_other(slots: int, lanes: int, limit: int) -> None:
    sharing = hung(lanes, limit, slots, is_proven=True)

    if lanes * AT_ONCE <= slots - last_slots(slots):  # each of them holds more than a few
        assert sharing.claimable(-1, is_proven=True) >= min(FEW_SLOTS, last_slots(slots) or 1)


def test_eleven_hanging_lanes_leave_slots_to_a_lane_never_seen_before() -> None:
    """The request of the attack: 11 origins, 100 triggers each."""
    sharing = hung(11)

    assert sharing.claimable(-1, is_proven=True) >= 180
    assert sharing.claimable(-1, is_proven=False) >= 20
    assert min(sharing.held[lane] for lane in range(11)) >= 55


def test_eleven_hanging_lanes_that_come_in_turn_leave_slots_too() -> None:
    sharing = Sharing(SLOTS)
    for lane in range(11):
        sharing.claim(lane, LANE_SLOTS)

    assert sharing.claimable(-1, is_proven=False) >= FEW_SLOTS
    assert sharing.held[10] >= FEW_SLOTS


def test_eleven_lanes_that_answered_before_they_hang_leave_slots_too() -> None:
    sharing = hung(11, is_proven=True)

    assert sharing.claimable(-1, is_proven=True) == FEW_SLOTS
    assert sharing.claimable(-1, is_proven=False) == FEW_SLOTS


@pytest.mark.parametrize(("lanes", "each"), [(1, 100), (3, 100), (9, 65), (20, 31)])
def test_slow_lanes_share_fairly_and_a_few_have_all_they_may(lanes: int, each: int) -> None:
    sharing = hung(lanes)

    assert all(each <= sharing.held[lane] <= each + 5 for lane in range(lanes))


@pytest.mark.parametrize("slots", [1, 2, 5, SMALL_NODE_SLOTS])
def test_a_small_node_gives_all_its_slots_to_whoever_comes_first(slots: int) -> None:
    assert hung(1, slots, slots).free == 0


def test_a_lane_is_proven_while_its_calls_end_soon() -> None:
    now = 0.0
    probation = Probation(lambda: now)
    assert not probation.is_proven("a")

    probation.ended("a", now)
    assert probation.is_proven("a")
    assert not probation.is_proven("b")
    now = PROVEN_SECONDS
    assert not probation.is_proven("a")

    probation.ended("a", now)
    probation.ended("a", now - SOON_SECONDS - 0.1)
    assert not probation.is_proven("a"), "its latest call was slow"


def test_a_lane_with_a_call_that_is_out_for_long_is_on_probation_until_it_ends() -> None:
    now = 10.0
    probation = Probation(lambda: now)
    probation.ended("a", now)
    probation.observe([("a", now - SOON_SECONDS - 0.1), ("b", now)])
    assert not probation.is_proven("a")

    probation.observe([])
    assert probation.is_proven("a")


async def attack(cluster: Cluster, lanes: int = 11, triggers: int = 100) -> None:
    """Trigger jobs whose calls hang, all of them at once."""
    for number in range(lanes):
        job = await cluster.add_job(f"hung-{number}", "0 0 1 1 *")
        cluster.lane_slots[f"task:hung-{number}"] = LANE_SLOTS
        for _ in range(triggers):
            await cluster.trigger(job)


@virtually
async def test_eleven_hanging_lanes_do_not_delay_a_job_that_fires_every_second(cluster: Cluster) -> None:
    cluster.script |= {f"hung-{number}": hang for number in range(11)}
    await cluster.add_job("good", "every 1s")
    await cluster.start()
    await cluster.advance(3 * SECOND)
    await attack(cluster)
    await cluster.advance(12 * SECOND)

    good = cluster.calls_of("good")
    assert len(good) >= 14
    assert max(called.lateness for called in good) < SECOND / 2
    assert sum(cluster.running.values()) >= 400


@virtually
async def test_hanging_lanes_do_not_delay_a_job_that_comes_after_them(cluster: Cluster) -> None:
    cluster.script |= {f"hung-{number}": hang for number in range(11)}
    await cluster.start()
    await attack(cluster)
    await cluster.advance(5 * SECOND)
    await cluster.add_job("new", "every 1s")
    await cluster.advance(10 * SECOND)

    assert len(cluster.calls_of("new")) >= 9
    assert max(called.lateness for called in cluster.calls_of("new")) < SECOND / 2


@virtually
async def test_lanes_that_answer_first_and_then_hang_do_not_take_all_slots(cluster: Cluster) -> None:
    seen: Counter[str] = Counter()

    async def answer_ten(node: Node, call: Call) -> Outcome:
        seen[call.definition.name] += 1
        return Succeeded() if seen[call.definition.name] <= 10 else await hang(node, call)

    cluster.script |= {f"hung-{number}": answer_ten for number in range(11)}
    await cluster.add_job("good", "every 1s")
    await cluster.start()
    await attack(cluster, triggers=10)
    await cluster.advance(2 * SECOND)
    for job in cluster.made[1:]:
        for _ in range(100):
            await cluster.trigger(job)
    await cluster.advance(10 * SECOND)
    await cluster.add_job("new", "every 1s")
    await cluster.advance(5 * SECOND)

    assert sum(cluster.running.values()) > probation_slots(SLOTS)
    assert max(called.lateness for name in ("good", "new") for called in cluster.calls_of(name)) < SECOND / 2
    assert len(cluster.calls_of("new")) >= 4


@virtually
async def test_a_thousand_hanging_lanes_do_not_delay_a_lane_that_answers(cluster: Cluster) -> None:
    cluster.script["*"] = hang
    cluster.script["good"] = takes(SECOND / 10)
    await cluster.add_job("good", "every 1s")
    await cluster.start()
    await cluster.advance(3 * SECOND)
    await attack(cluster, lanes=1_000, triggers=2)
    await cluster.advance(10 * SECOND)

    assert max(called.lateness for called in cluster.calls_of("good")) < SECOND / 2
    assert sum(cluster.running.values()) == probation_slots(SLOTS)


@virtually
async def test_a_slow_lane_alone_uses_all_the_slots_it_may_have(cluster: Cluster) -> None:
    cluster.script["*"] = takes(20 * SECOND)
    cluster.lane_slots["task:slow"] = LANE_SLOTS
    for number in range(300):
        await cluster.add_job(f"slow-{number}", lane="slow")
    await cluster.start()
    await cluster.advance_to(START + MINUTE + 59 * SECOND)

    assert len(cluster.calls) == 300, "three waves of a hundred"


@virtually
async def test_a_lane_that_hung_has_all_its_slots_again_when_it_answers(cluster: Cluster) -> None:
    answers = asyncio.Event()

    async def behave(_: Node, call: Call) -> Outcome:
        await answers.wait()
        return Succeeded(call.run.attempt)

    cluster.script |= {f"hung-{number}": hang for number in range(11)} | {"hung-0": behave}
    await cluster.start()
    await attack(cluster, triggers=200)
    await cluster.advance(20 * SECOND)
    held = cluster.running["hung-0"]
    answers.set()
    await cluster.advance(3 * SECOND)

    assert 20 <= held <= LANE_SLOTS
    assert len(cluster.calls_of("hung-0")) == 200
