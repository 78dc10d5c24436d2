"""Claims of the runner: which lanes in a tick, for how many slots, and when it polls again."""

from collections.abc import Collection
from uuid import UUID

import pytest

from hourbell.core.job.definition import Definition
from hourbell.core.run.settle import Failed
from hourbell.engine.loop import NotAsked
from hourbell.store.base import LaneDemand
from hourbell.store.errors import StoreUnavailable
from hourbell.targets.pool import Pool
from tests.core.values import MINUTE, SECOND, T0
from tests.engine.scripted import LEASE, SUSPECT_AFTER, Claim, Claiming, ScriptedStore, ScriptedTarget, a_run

pytestmark = pytest.mark.anyio
POLL_SECONDS, MIN_POLL_SECONDS, GATHER = 1.0, 0.1, 0.005


def waiting(**lanes: int) -> ScriptedStore:
    """A store in which so many runs wait in each lane."""
    store = ScriptedStore()
    for index, (lane, count) in enumerate(lanes.items()):
        store.add(lane, count, first=1 + 10_000 * index)
    return store


def job_of(number: int) -> UUID:
    return a_run(number).job_id


async def test_while_leases_are_not_renewed_nothing_is_asked() -> None:
    claiming = Claiming(waiting(a=1), is_renewing=False)
    delay = await claiming.tick()

    assert (delay, isinstance(delay, NotAsked), claiming.store.polls) == (1.0, True, 0)


async def test_while_the_node_stops_nothing_is_asked() -> None:
    claiming = Claiming(waiting(a=1))
    claiming.attempts.take_no_more()
    delay = await claiming.tick()

    assert (delay, isinstance(delay, NotAsked), claiming.store.polls) == (1.0, True, 0)


async def test_after_a_step_of_the_clock_nothing_is_asked_until_a_second_sample_confirms_it() -> None:
    claiming = Claiming(waiting(a=1))
    claiming.clock.observe(T0 + 2 * MINUTE, 100.0)
    delay = await claiming.tick()
    assert (delay, isinstance(delay, NotAsked), claiming.store.polls) == (0.1, True, 0)

    claiming.clock.observe(T0 + 2 * MINUTE, 100.0)
    await claiming.tick()
    assert (claiming.store.polls, len(claiming.target.calls)) == (1, 1)


async def test_a_claim_takes_a_lease_from_the_moment_it_is_asked_for() -> None:
    claiming = Claiming(waiting(a=2))
    await claiming.tick(after=5.0)
    now = T0 + 5 * SECOND

    assert claiming.store.claims[0] == Claim(now, now + LEASE, (LaneDemand("a", 16, 2),), False, SUSPECT_AFTER)
    assert set(claiming.target.calls) == {1, 2}
    assert claiming.metrics.registry.get_sample_value("hourbell_runs_claimed_total") == 2


async def test_an_idle_runner_scans_once_a_second() -> None:
    claiming = Claiming()
    delays = [await claiming.tick(), await claiming.tick(after=0.4), await claiming.tick(after=0.6)]

    assert delays == pytest.approx([POLL_SECONDS, 0.6, POLL_SECONDS])
    assert [isinstance(delay, NotAsked) for delay in delays] == [False, True, False]
    assert (claiming.store.polls, claiming.store.claims) == (2, [])


async def test_a_lane_that_is_ready_soon_is_waited_for() -> None:
    claiming = Claiming(ScriptedStore(ready_at={"a": T0 + 0.3 * SECOND}))

    assert await claiming.tick() == pytest.approx(0.3)
    assert claiming.store.claims == []
    claiming.store.add("a", 1)
    await claiming.tick(after=0.3)
    assert (claiming.store.polls, len(claiming.target.calls)) == (1, 1)


async def test_a_slow_scan_is_followed_at_once_by_the_next() -> None:
    claiming = Claiming()

    def take_long() -> None:
        claiming.elapsed.seconds += 3.0

    claiming.store.during["lanes"] = take_long

    assert await claiming.tick() == 0


async def test_a_failed_scan_is_repeated_at_once() -> None:
    claiming = Claiming(waiting(a=1))
    claiming.store.trouble["lanes"] = StoreUnavailable("unreachable")
    with pytest.raises(StoreUnavailable):
        await claiming.tick()
    claiming.store.trouble.clear()
    await claiming.tick()

    assert (claiming.store.polls, len(claiming.target.calls)) == (2, 1)


async def test_a_hint_is_followed_even_if_no_scan_has_succeeded_yet() -> None:
    claiming = Claiming(waiting(a=1))
    claiming.store.trouble["lanes"] = StoreUnavailable("unreachable")
    with pytest.raises(StoreUnavailable):
        await claiming.tick()
    claiming.runner.hint(["a"])
    await claiming.tick()

    assert (claiming.store.polls, len(claiming.target.calls)) == (1, 1)


async def test_a_hint_is_followed_without_a_scan_and_shows_that_the_database_answers() -> None:
    claiming = Claiming()
    await claiming.tick()
    claiming.runner.hint(["a"])
    delay = await claiming.tick()
    assert ([claim.lanes for claim in claiming.store.claims], isinstance(delay, NotAsked)) == ([["a"]], False)

    claiming.store.add("a", 1)
    claiming.runner.hint(["a"])
    await claiming.tick()
    assert (claiming.store.polls, len(claiming.target.calls)) == (1, 1)


async def test_a_hint_that_was_followed_is_not_followed_again() -> None:
    claiming = Claiming()
    await claiming.tick()
    claiming.runner.hint(["a"])
    for _ in range(2):
        await claiming.tick()

    assert len(claiming.store.claims) == 1


async def test_runs_added_by_others_are_found_soon() -> None:
    claiming = Claiming()
    await claiming.tick()
    claiming.runner.rescan()

    assert await claiming.tick() == pytest.approx(MIN_POLL_SECONDS)
    await claiming.tick(after=MIN_POLL_SECONDS)
    assert claiming.store.polls == 2


async def test_a_lane_that_nobody_here_serves_is_not_claimed_from() -> None:
    claiming = Claiming(waiting(a=1, b=1), ScriptedTarget(("b",)))
    await claiming.tick()
    claiming.runner.hint(["c", "b"])
    await claiming.tick()

    assert {lane for claim in claiming.store.claims for lane in claim.lanes} == {"b"}


async def test_a_function_registered_later_is_served_from_the_next_scan_on() -> None:
    claiming = Claiming(waiting(a=1), ScriptedTarget(("b",)))
    await claiming.tick()
    claiming.target.served = ("a", "b")
    await claiming.tick(after=POLL_SECONDS)

    assert len(claiming.target.calls) == 1


@pytest.mark.parametrize(("slots", "delay"), [(2, POLL_SECONDS), (3, MIN_POLL_SECONDS), (4, MIN_POLL_SECONDS)])
async def test_after_a_claim_the_runner_scans_again_soon_if_a_slot_is_free(slots: int, delay: float) -> None:
    claiming = Claiming(waiting(a=2), slots=slots)

    assert await claiming.tick() == GATHER
    assert await claiming.tick() == pytest.approx(delay)


async def test_a_free_slot_alone_causes_no_scan() -> None:
    claiming = Claiming(ScriptedStore(ready_at={"a": T0}))

    assert await claiming.tick() == pytest.approx(POLL_SECONDS)
    assert len(claiming.claims) == 1


async def test_slots_are_never_overbooked() -> None:
    claiming = Claiming(waiting(a=5, b=5), slots=3)
    await claiming.tick()
    await claiming.tick()

    assert [claim.free for claim in claiming.claims] == [[3]]
    assert len(claiming.target.calls) == 3


async def test_the_only_slot_is_used() -> None:
    claiming = Claiming(waiting(a=1), slots=1)
    await claiming.tick()

    assert len(claiming.target.calls) == 1


async def test_lanes_share_a_claim() -> None:
    claiming = Claiming(waiting(**{f"lane{number}": 30 for number in range(10)}), slots=1_000)
    await claiming.tick()

    assert claiming.claims[0].free == [25] * 4  # a hundred
    assert len(claiming.claims) > 1  # and continues while there are slots


async def test_while_all_that_is_wanted_is_given_the_next_portion_is_claimed_at_once() -> None:
    claiming = Claiming(waiting(a=200, b=200), slots=300)
    delay = await claiming.tick()

    assert [sum(claim.free) for claim in claiming.claims[:2]] == [100, 15]
    assert delay == GATHER


@pytest.mark.parametrize("happens", ["a look is due", "the node stops", "leases are not renewed", "time has stepped"])
async def test_between_portions_it_sees_what_has_happened_meanwhile(happens: str) -> None:
    claiming = Claiming(waiting(a=200, b=200), slots=300)

    def happen() -> None:
        match happens:
            case "a look is due":
                claiming.elapsed.seconds += POLL_SECONDS
            case "the node stops":
                claiming.attempts.take_no_more()
            case "leases are not renewed":
                claiming.leases.renewed(0.0)
            case _:
                claiming.clock.observe(T0 + 5 * MINUTE, 100.0)

    claiming.store.during["claim"] = happen
    delay = await claiming.tick()

    assert (delay, len(claiming.claims)) == (0, 1)
    suspect_claims = len(claiming.store.claims) - 1
    assert suspect_claims == (1 if happens == "a look is due" else 0)


async def test_a_claim_names_two_hundred_lanes_at_most() -> None:
    lanes = {f"lane{number}": 1 for number in range(700)}
    claiming = Claiming(waiting(**lanes), ScriptedTarget(lane_slots=1), slots=1_000)
    await claiming.tick()

    assert [len(claim.demands) for claim in claiming.claims[:3]] == [100, 200, 200]


async def test_a_lane_gets_no_more_than_its_limit() -> None:
    claiming = Claiming(waiting(a=1, b=1), ScriptedTarget(lane_slots=2))
    await claiming.tick()
    claiming.store.add("a", 5, first=100)
    for _ in range(2):
        claiming.runner.hint(["a"])
        await claiming.tick()

    assert [(claim.lanes, claim.free) for claim in claiming.claims] == [(["a", "b"], [2, 2]), (["a"], [1])]


@pytest.mark.parametrize(
    ("size", "lanes", "free"),
    [(4, ["a"], [4]), (4, ["a", "b"], [2, 1]), (5, ["a", "b"], [3, 1]), (5, ["a", "b", "c"], [3, 1, 1])],
)
async def test_lanes_of_a_pool_share_its_slots(size: int, lanes: list[str], free: list[int]) -> None:
    claiming = Claiming(waiting(**dict.fromkeys(lanes, 9)), ScriptedTarget(pool=Pool("threads", size)))
    await claiming.tick()

    assert claiming.claims[0].free == free


async def test_a_lane_without_a_pool_takes_no_slot_of_one() -> None:
    pooled, plain = ScriptedTarget(("a",), pool=Pool("threads", 1)), ScriptedTarget(("b", "c"))
    claiming = Claiming(waiting(b=2, a=2, c=2), pooled, plain)
    await claiming.tick()

    assert [(demand.lane, demand.free) for demand in claiming.claims[0].demands] == [("b", 16)]
    claiming = Claiming(waiting(a=2, b=2), pooled, plain)
    await claiming.tick()
    assert [(demand.lane, demand.free) for demand in claiming.claims[0].demands] == [("a", 1), ("b", 15)]


@pytest.mark.parametrize(("slots", "oldest"), [(16, [2, 2, 2]), (8, [1, 1, 1]), (9, [1, 1, 1])])
async def test_one_slot_in_eight_goes_to_the_oldest(slots: int, oldest: list[int]) -> None:
    claiming = Claiming(slots=slots)
    for _ in oldest:
        claiming.runner.hint(["a"])
        await claiming.tick()

    assert [claim.demands[0].oldest for claim in claiming.claims] == oldest


async def test_with_fewer_than_eight_slots_every_eighth_claim_goes_to_the_oldest() -> None:
    claiming = Claiming(slots=7)
    await claiming.tick()
    for _ in range(16):
        claiming.runner.hint(["a"])
        await claiming.tick()

    assert [claim.demands[0].oldest for claim in claiming.claims] == 2 * [0, 0, 0, 0, 0, 0, 0, 1]


async def test_a_scan_claims_one_suspect_of_a_lane_while_none_is_held() -> None:
    claiming = Claiming()
    claiming.store.suspects = {lane: [a_run(n, lane, crashes=SUSPECT_AFTER) for n in (1, 2)] for lane in ("a",)}
    await claiming.tick()
    claiming.runner.hint(["a"])
    await claiming.tick()
    await claiming.tick(after=POLL_SECONDS)
    suspects = [claim for claim in claiming.store.claims if claim.suspects]
    assert ([claim.demands for claim in suspects], set(claiming.target.calls)) == ([(LaneDemand("a", 1),)], {1})

    await claiming.target.answer(1)
    await claiming.write()
    await claiming.tick(after=POLL_SECONDS)
    assert set(claiming.target.calls) == {1, 2}


async def test_a_scan_finds_lanes_with_a_hanging_call() -> None:
    claiming = Claiming(waiting(a=2))
    await claiming.tick()
    await claiming.target.answer(1)
    assert claiming.probation.is_proven("a")
    await claiming.tick(after=3.0)

    assert not claiming.probation.is_proven("a")


async def test_a_scan_settles_attempts_whose_task_ended_without_an_outcome() -> None:
    claiming = Claiming(waiting(a=1))
    await claiming.tick()
    await claiming.target.answer(1, by=GeneratorExit())
    await claiming.tick(after=POLL_SECONDS)
    await claiming.write()

    assert [settled.settlement.run.id.int for settled in claiming.store.written] == [1]


async def test_a_definition_is_read_once() -> None:
    claiming = Claiming(waiting(a=1))
    await claiming.tick()
    claiming.store.ready["a"] = [a_run(2, job_id=job_of(1)), a_run(3)]
    claiming.runner.hint(["a"])
    await claiming.tick()

    assert claiming.store.versions == [{job_of(1)}, {job_of(3)}]
    assert [call.definition is claiming.store.definition for call in claiming.target.calls.values()] == [True] * 3


@pytest.mark.parametrize(("known", "asked"), [(10_000, 1), (10_001, 2)])
async def test_definitions_are_forgotten_when_there_are_too_many(known: int, asked: int) -> None:
    class Generous(ScriptedStore):
        async def definitions(self, versions: Collection[tuple[UUID, int]]) -> dict[tuple[UUID, int], Definition]:
            found = await super().definitions(versions)
            return found | {(UUID(int=n), 1): self.definition for n in range(known - len(found))}

    claiming = Claiming(Generous(ready={"a": [a_run(1)]}))
    await claiming.tick()
    claiming.store.ready["a"] = [a_run(2, job_id=job_of(1))]
    claiming.runner.hint(["a"])
    await claiming.tick()

    assert len(claiming.store.versions) == asked
    assert len(claiming.target.calls) == 2


async def test_a_definition_that_cannot_be_read_fails_its_run_and_no_other() -> None:
    class Unreadable(ScriptedStore):
        async def definitions(self, versions: Collection[tuple[UUID, int]]) -> dict[tuple[UUID, int], Definition]:
            found = await super().definitions(versions)
            if (job_of(2), 1) in versions:
                raise ValueError("of a later version")
            return found

    claiming = Claiming(Unreadable(ready={"a": [a_run(number) for number in (1, 2, 3)]}))
    await claiming.tick()
    await claiming.write()

    assert set(claiming.target.calls) == {1, 3}
    [settled] = claiming.store.written
    assert settled.settlement.run.id == UUID(int=2)
    assert isinstance(settled.settlement.outcome, Failed)
    assert not settled.settlement.outcome.retryable


@pytest.mark.parametrize("verb", ["definitions", "secrets"])
async def test_runs_that_were_claimed_and_cannot_be_prepared_are_handed_back(verb: str) -> None:
    claiming = Claiming(waiting(a=2), ScriptedTarget(reads_secrets=True))
    claiming.store.trouble[verb] = StoreUnavailable("unreachable")
    with pytest.raises(StoreUnavailable):
        await claiming.tick()
    await claiming.write()

    assert claiming.target.calls == {}
    assert [settled.node for settled in claiming.store.written] == [None] * 2  # nothing was attempted
    assert claiming.attempts.is_idle


async def test_secrets_are_given_to_those_who_read_them_and_read_each_time() -> None:
    reader, other = ScriptedTarget(("a",), reads_secrets=True), ScriptedTarget(("b",))
    claiming = Claiming(waiting(a=1, b=1), reader, other)
    for _ in range(2):
        await claiming.tick()
    claiming.store.ready["a"] = [a_run(2, job_id=job_of(1))]
    claiming.runner.hint(["a"])
    await claiming.tick()

    assert claiming.store.secret_jobs == [{job_of(1)}] * 2
    assert [call.secrets for call in reader.calls.values()] == [("sealed",)] * 2
    assert [call.secrets for call in other.calls.values()] == [()]


async def test_a_target_without_secrets_costs_no_query() -> None:
    claiming = Claiming(waiting(a=1))
    await claiming.tick()

    assert claiming.store.secret_jobs == []


async def test_a_job_that_is_gone_fails_its_run() -> None:
    class Empty(ScriptedStore):
        async def definitions(self, versions: Collection[tuple[UUID, int]]) -> dict[tuple[UUID, int], Definition]:
            await super().definitions(versions)
            return {}

    claiming = Claiming(Empty(ready={"a": [a_run(1)]}))
    await claiming.tick()
    await claiming.write()

    assert (claiming.target.calls, len(claiming.store.written)) == ({}, 1)
