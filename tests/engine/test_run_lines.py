"""Each ended run has a log line while they are few; while they are many, a summary each second."""

import logging
from typing import Any

import pytest

from hourbell.core.run.settle import Failed, Settlement
from hourbell.core.run.states import Reason, RunState
from hourbell.engine.events import EngineEvents
from hourbell.engine.run_lines import MAX_LINES_PER_SECOND
from hourbell.metrics import Metrics
from hourbell.store.base import Saved, SettledAttempt
from tests.core.values import T0
from tests.engine.test_settler import DEFINITION, NODE, settled


class Ending:
    def __init__(self) -> None:
        self.seconds = 100.2
        self.metrics = Metrics(with_job_names=True)
        self.events = EngineEvents(self.metrics, lambda: self.seconds)

    def end(self, *attempts: SettledAttempt) -> None:
        self.events.settled([(each, DEFINITION, None) for each in attempts], [Saved.SAVED] * len(attempts))


def failed(number: int) -> SettledAttempt:
    run = settled(number).settlement.run
    return SettledAttempt(Settlement(run, Failed("no"), RunState.FAILED, T0, Reason.EXHAUSTED), NODE, T0)


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if record.message == event]


@pytest.fixture(autouse=True)
def from_info_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hourbell.engine")


def test_a_line_says_when_a_run_was_due_how_long_it_took_and_what_comes_next(caplog: pytest.LogCaptureFixture) -> None:
    Ending().end(settled(1), failed(2))

    [success], [failure] = lines(caplog, "run_succeeded"), lines(caplog, "run_failed")
    for line in (success, failure):
        assert (line["job"], line["attempt"], line["duration_seconds"]) == ("job", 2, 0.0)
        assert line["scheduled_at"] == T0.isoformat()
        assert line["next_at"] == DEFINITION.parsed().next(T0).isoformat()  # type: ignore[union-attr]
    assert (failure["reason"], failure["error"]) == ("exhausted", "no")


@pytest.mark.parametrize("in_batches_of", [1, 30, 1_000])
def test_above_the_limit_a_summary_has_the_rest(in_batches_of: int, caplog: pytest.LogCaptureFixture) -> None:
    ending, count = Ending(), 500
    runs = [settled(number) for number in range(count)]
    for first in range(0, count, in_batches_of):
        ending.end(*runs[first : first + in_batches_of])

    assert len(lines(caplog, "run_succeeded")) == MAX_LINES_PER_SECOND
    assert ending.events.has_summary
    ending.events.flush()
    [summary] = lines(caplog, "runs_ended")
    assert summary["succeeded"] == count - MAX_LINES_PER_SECOND
    assert not ending.events.has_summary
    sample = ending.metrics.registry.get_sample_value("hourbell_job_runs_total", {"job": "job", "state": "succeeded"})
    assert sample == count


def test_many_successes_do_not_hide_failures(caplog: pytest.LogCaptureFixture) -> None:
    Ending().end(*(settled(number) for number in range(500)), failed(501))

    assert len(lines(caplog, "run_failed")) == 1


def test_the_next_second_has_lines_again_and_brings_the_summary(caplog: pytest.LogCaptureFixture) -> None:
    ending = Ending()
    ending.end(*(settled(number) for number in range(60)))
    ending.seconds += 1
    ending.end(settled(61))

    assert len(lines(caplog, "run_succeeded")) == MAX_LINES_PER_SECOND + 1
    assert [line["succeeded"] for line in lines(caplog, "runs_ended")] == [10]


def test_above_the_level_info_nothing_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "hourbell.engine")
    ending = Ending()
    ending.end(settled(1))
    ending.events.flush()

    assert caplog.messages == []
