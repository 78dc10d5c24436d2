"""Outcomes are written in batches, one that cannot be written delays no other, and freed slots are announced."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast
from uuid import UUID

import pytest

from hourbell.core.job.definition import Definition
from hourbell.core.run.run import Run
from hourbell.core.run.settle import Answer, Cancelled, Failed, Outcome, Settlement, Succeeded
from hourbell.core.run.states import Kind, RunState
from hourbell.engine.events import EngineEvents
from hourbell.engine.settler import BATCH, Settler
from hourbell.metrics import Metrics
from hourbell.store.base import EngineStore, LeaseKey, Saved, SettledAttempt
from hourbell.store.errors import StoreUnavailable
from tests.core.values import DAY, JOB, T0
from tests.engine.nodes import MINUTE, SECOND, Cluster, virtually
from tests.engine.virtual import run_virtually

pytestmark = pytest.mark.anyio
NODE = UUID(int=7)
DEFINITION = Definition("job", "0 9 * * *", {"type": "task", "name": "a"})
ENOUGH, GATHER, IDLE = 200, 0.005, 60.0


def settled(number: int, outcome: Outcome | None = None, job: UUID = JOB) -> SettledAttempt:
    run = Run(UUID(int=number), job, 3, Kind.SCHEDULED, T0, T0, T0 + DAY, RunState.RUNNING, "a", 2, 0, 0)
    return SettledAttempt(Settlement(run, outcome or Succeeded(), RunState.SUCCEEDED, T0), NODE, T0)


def number_of(each: SettledAttempt) -> int:
    return each.settlement.run.id.int


@dataclass
class ScriptedStore:
    """Refuses batches with these numbers in them; those in `hopeless` even without their text."""

    refused: set[int] = field(default_factory=set)
    hopeless: set[int] = field(default_factory=set)
    answers: dict[int, Saved] = field(default_factory=dict)
    is_out: bool = False
    may_pause: bool | Exception = True
    batches: list[list[int]] = field(default_factory=list)  # that were asked for
    written: list[SettledAttempt] = field(default_factory=list)
    paused: list[tuple[Any, ...]] = field(default_factory=list)

    async def settle(self, batch: Sequence[SettledAttempt]) -> list[Saved]:
        if self.is_out:
            raise StoreUnavailable("unreachable")
        numbers = [number_of(each) for each in batch]
        self.batches.append(numbers)
        refused = self.hopeless | {number_of(each) for each in batch if each.error is None} & self.refused
        if refused.intersection(numbers):
            raise ValueError("odd words")
        self.written += batch
        return [self.answers.get(number, Saved.SAVED) for number in numbers]

    async def pause_gone(self, job_id: UUID, version: int, at: datetime, note: str) -> bool:
        self.paused.append((job_id, version, at, note))
        if isinstance(self.may_pause, Exception):
            raise self.may_pause
        return self.may_pause


class Settling:
    """A settler and its notifications, in order."""

    def __init__(self, store: ScriptedStore | None = None) -> None:
        self.store = store or ScriptedStore()
        self.reported: list[str] = []
        self.released: list[object] = []
        self.metrics = Metrics()
        self.settler = Settler(
            cast(EngineStore, self.store),
            events=EngineEvents(self.metrics, lambda: 0.0),
            on_slots=lambda: self.reported.append("slots"),
            on_written=self._on_written,
        )
        self.settler.wake = lambda: self.reported.append("wake")

    def _on_written(self, written: Any) -> None:
        self.reported.append("written")
        self.released += written

    def add(self, *numbers: int) -> None:
        for number in numbers:
            self.settler.add(settled(number), DEFINITION, number)

    def count_of(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)

    async def write(self, *outcomes: SettledAttempt) -> float:
        """Add these, let others join, and write."""
        for each in outcomes:
            self.settler.add(each, DEFINITION, number_of(each))
        await self.settler.tick()
        return await self.settler.tick()


async def test_a_settler_without_outcomes_sleeps() -> None:
    settling = Settling()

    assert (await settling.settler.tick(), settling.reported, settling.settler.is_idle) == (IDLE, [], True)


async def test_a_few_outcomes_wait_a_moment_for_others_each_time() -> None:
    settling = Settling()
    for numbers in ([1, 2], [3]):
        settling.add(*numbers)
        assert (await settling.settler.tick(), settling.settler.is_idle) == (GATHER, False)
        assert await settling.settler.tick() == IDLE

    assert settling.store.batches == [[1, 2], [3]]
    assert (settling.released, settling.settler.is_idle) == ([1, 2, 3], True)
    assert settling.count_of("hourbell_runs_ended_total", state="succeeded") == 3


@pytest.mark.parametrize(("count", "is_written"), [(ENOUGH - 1, False), (ENOUGH, True), (ENOUGH + 1, True)])
async def test_many_outcomes_are_written_at_once(count: int, is_written: bool) -> None:
    settling = Settling()
    settling.add(*range(count))
    await settling.settler.tick()

    assert settling.settler.is_idle is is_written


async def test_more_than_a_batch_is_written_batch_by_batch_without_a_pause() -> None:
    settling = Settling()
    settling.add(*range(BATCH + ENOUGH))

    assert [await settling.settler.tick() for _ in range(2)] == [0, IDLE]
    assert [len(batch) for batch in settling.store.batches] == [1_000, ENOUGH]


async def test_the_loop_is_woken_by_the_first_outcome_and_by_a_full_batch() -> None:
    settling = Settling()
    woken = []
    for number in range(1, 1_010):
        settling.reported.clear()
        settling.add(number)
        woken += [number] * settling.reported.count("wake")

    assert woken == [1, 1_000]


async def test_slots_are_offered_before_and_after_a_batch_is_written() -> None:
    settling = Settling()
    await settling.write(settled(1))

    assert settling.reported == ["wake", "slots", "written", "slots"]


async def test_outcomes_wait_while_the_database_is_unreachable() -> None:
    settling = Settling(ScriptedStore(is_out=True))
    with pytest.raises(StoreUnavailable):
        await settling.write(settled(1))
    assert (settling.settler.is_idle, settling.released) == (False, [])

    settling.store.is_out = False
    await settling.settler.tick()
    assert (settling.settler.is_idle, settling.released) == (True, [1])


async def test_a_refused_outcome_is_isolated_by_halving_and_loses_its_text() -> None:
    settling = Settling(ScriptedStore(refused={6}))
    await settling.write(*(settled(number, Succeeded({"n": number})) for number in range(8)))

    halves = [[*range(8)], [0, 1, 2, 3], [4, 5, 6, 7], [4, 5], [6, 7], [6], [6], [7]]
    assert settling.store.batches == halves
    assert [number_of(each) for each in settling.store.written] == [*range(8)]
    plain = settling.store.written[6]
    assert (plain.settlement.outcome, plain.settlement.state) == (Succeeded(), RunState.SUCCEEDED)
    assert plain.error == "the outcome cannot be written: ValueError('odd words')"
    assert (settling.released, settling.settler.given_up) == ([*range(8)], frozenset())
    assert settling.count_of("hourbell_runs_ended_total", state="succeeded") == 8


ERROR = "the outcome cannot be written: ValueError('odd words')"


@pytest.mark.parametrize(
    ("outcome", "plain"),
    [
        (Succeeded(1), Succeeded()),
        (Succeeded(1, Answer(200, "words")), Succeeded(answer=Answer(200))),
        (Failed("words"), Failed(ERROR)),
        (Failed("words", answer=Answer(500, "words")), Failed(ERROR, answer=Answer(500))),
        (Cancelled(), Cancelled()),
    ],
)
async def test_an_outcome_without_its_text_keeps_its_kind_and_status(outcome: Outcome, plain: Outcome) -> None:
    settling = Settling(ScriptedStore(refused={1}))
    await settling.write(settled(1, outcome))

    assert [(each.settlement.outcome, each.error) for each in settling.store.written] == [(plain, ERROR)]


async def test_an_outcome_that_cannot_be_written_at_all_is_dropped_and_counts_as_superseded() -> None:
    settling = Settling(ScriptedStore(hopeless={2}))
    await settling.write(settled(1), settled(2), settled(3))

    assert settling.settler.given_up == {LeaseKey(UUID(int=2), 2)}
    assert (settling.released, settling.settler.is_idle) == ([1, 2, 3], True)
    assert settling.count_of("hourbell_runs_ended_total", state="succeeded") == 2
    assert settling.count_of("hourbell_writes_superseded_total") == 1


async def test_an_outcome_is_not_dropped_because_the_database_was_unreachable() -> None:
    class Failing(ScriptedStore):
        async def settle(self, batch: Sequence[SettledAttempt]) -> list[Saved]:
            self.is_out = batch[0].error is not None
            return await super().settle(batch)

    settling = Settling(Failing(refused={1}))
    with pytest.raises(StoreUnavailable):
        await settling.write(settled(1))

    assert (settling.settler.given_up, settling.settler.is_idle) == (frozenset(), False)


GONE = Failed("410", retryable=False, pauses_job="gone for good")


def logged_of(caplog: pytest.LogCaptureFixture, event: str) -> list[Any]:
    return [record.__dict__ for record in caplog.records if record.message == event]


async def test_a_job_whose_receiver_is_gone_is_paused_once(caplog: pytest.LogCaptureFixture) -> None:
    other = UUID(int=8)
    settling = Settling()
    await settling.write(settled(1, GONE), settled(2, GONE), settled(3, GONE, other), settled(4, Failed("500")))

    assert settling.store.paused == [(JOB, 3, T0, "gone for good"), (other, 3, T0, "gone for good")]
    assert [(reported["job"], reported["note"]) for reported in logged_of(caplog, "job_paused")] == [
        ("job", "gone for good")
    ] * 2


async def test_an_answer_to_an_attempt_that_was_superseded_pauses_nothing() -> None:
    settling = Settling(ScriptedStore(answers={1: Saved.SUPERSEDED, 2: Saved.REPEATED}))
    await settling.write(settled(1, GONE), settled(2, GONE, UUID(int=8)))

    assert [job_id for job_id, *_ in settling.store.paused] == [UUID(int=8)]


async def test_a_pause_by_somebody_else_is_not_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    await Settling(ScriptedStore(may_pause=False)).write(settled(1, GONE))

    assert logged_of(caplog, "job_paused") == []


async def test_a_pause_that_fails_holds_no_outcome_up(caplog: pytest.LogCaptureFixture) -> None:
    settling = Settling(ScriptedStore(may_pause=StoreUnavailable("unreachable")))

    assert await settling.write(settled(1, GONE)) == IDLE
    assert [reported["error"] for reported in logged_of(caplog, "job_not_paused")] == ["unreachable"]


def test_a_pause_that_takes_longer_than_two_seconds_is_given_up() -> None:
    class Hanging(ScriptedStore):
        async def pause_gone(self, *_: object) -> bool:
            await asyncio.sleep(3_600)
            return True

    async def main(time: Any) -> float:
        await Settling(Hanging()).write(settled(1, GONE))
        return float(time.elapsed())

    assert run_virtually(main) == pytest.approx(2.0, abs=0.01)


@virtually
async def test_an_outcome_is_written_within_a_moment(cluster: Cluster) -> None:
    await cluster.add_job()
    await cluster.start()
    await cluster.advance(MINUTE + SECOND / 10)

    assert await cluster.states() == ["succeeded"]
