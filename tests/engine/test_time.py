"""The database's time between samples, and when a step of it can be believed."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from hourbell.engine.time import STEP, DatabaseClock

T0 = datetime(2026, 3, 2, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@dataclass
class Elapsed:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_before_the_first_sample_there_is_no_time() -> None:
    clock = DatabaseClock(Elapsed())

    assert (clock.has_time, clock.confirmations, clock.drift_of(T0, 0.0)) == (False, 0, timedelta(0))
    with pytest.raises(RuntimeError, match="before its first sample"):
        clock.now()


def test_the_time_counts_from_the_arrival_of_the_sample() -> None:
    elapsed = Elapsed(7.5)
    clock = DatabaseClock(elapsed)

    assert clock.observe(T0, 5.0) == timedelta(0)

    assert (clock.has_time, clock.now()) == (True, T0 + 2.5 * SECOND)
    elapsed.seconds = 65.0
    assert clock.now() == T0 + 60 * SECOND


def test_every_clock_sample_is_taken_and_its_difference_logged() -> None:
    clock = DatabaseClock(Elapsed(20.0))
    clock.observe(T0, 10.0)

    assert clock.drift_of(T0 + 13 * SECOND, 20.0) == 3 * SECOND
    assert clock.observe(T0 + 13 * SECOND, 20.0) == 3 * SECOND
    assert clock.now() == T0 + 13 * SECOND


@pytest.mark.parametrize(
    ("drift", "confirmations"),
    [
        (timedelta(0), 3),
        (STEP, 3),
        (-STEP, 3),
        (STEP + timedelta(microseconds=1), 0),
        (-STEP - timedelta(microseconds=1), 0),
    ],
)
def test_a_sample_that_differs_by_more_than_a_minute_is_a_step(drift: timedelta, confirmations: int) -> None:
    clock = DatabaseClock(Elapsed())
    for _ in range(2):
        clock.observe(T0, 0.0)
    assert clock.confirmations == 2

    clock.observe(T0 + drift, 0.0)
    assert clock.confirmations == confirmations
    clock.observe(T0 + drift, 0.0)
    assert clock.confirmations == confirmations + 1


def test_a_step_is_more_than_a_minute() -> None:
    assert timedelta(minutes=1) == STEP
