"""The values of policies: how long each retry preset waits, and where a run stands in its lane."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.job.definition import default_catch_up
from hourbell.core.run.policies import RETRY_PRESETS, CatchUp, Priority, Rank, RetryPolicy, rank_of
from hourbell.core.schedule import Schedule
from tests.core.schedule.strategies import examples

policies = st.builds(
    RetryPolicy,
    st.integers(1, 100),
    st.lists(st.timedeltas(timedelta(0), timedelta(days=30)), min_size=1, max_size=5).map(tuple),
    st.floats(0, 1),
)


def waits(name: str, random: float = 0.0) -> list[float]:
    """The seconds a preset waits after each failure, until it gives up."""
    found = []
    while (wait := RETRY_PRESETS[name].wait_after(len(found) + 1, random)) is not None:
        found.append(wait.total_seconds())
    return found


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("default", [30, 120, 600]),
        ("fixed", [60, 60]),
        ("exponential", [10, 40, 160, 640, 2560, 10240, 10240]),
        ("none", []),
    ],
)
def test_a_preset_has_its_waits_between_attempts(name: str, seconds: list[float]) -> None:
    assert waits(name) == seconds
    assert RETRY_PRESETS[name].attempts == len(seconds) + 1


def test_the_default_preset_waits_12_minutes_30_seconds_in_total() -> None:
    assert sum(waits("default")) == 12.5 * 60


@pytest.mark.parametrize("name", ["default", "fixed", "none"])
def test_a_preset_without_spread_is_not_random(name: str) -> None:
    assert waits(name, random=0.9) == waits(name)


def test_random_shortens_exponential_waits_by_up_to_half() -> None:
    assert waits("exponential", random=0.5)[:3] == [7.5, 30, 120]
    assert [wait / limit for wait, limit in zip(waits("exponential", 0.8), waits("exponential"), strict=True)] == [
        0.6
    ] * 7


def test_every_preset_ends_within_the_default_max_age() -> None:
    assert all(sum(waits(name)) < timedelta(hours=24).total_seconds() for name in RETRY_PRESETS)


def test_the_last_wait_repeats() -> None:
    policy = RetryPolicy(5, (timedelta(seconds=1), timedelta(seconds=2)))

    found = [policy.wait_after(failures) for failures in range(1, 6)]
    assert found == [timedelta(seconds=1), *[timedelta(seconds=2)] * 3, None]


@examples(200)
@given(policies, st.integers(1, 100), st.floats(0, 1, exclude_max=True))
def test_a_policy_gives_up_after_its_attempts_and_waits_within_its_bounds(
    policy: RetryPolicy, failures: int, random: float
) -> None:
    wait = policy.wait_after(failures, random)

    if failures >= policy.attempts:
        assert wait is None
    else:
        assert wait is not None
        assert min(policy.backoff) * (1 - policy.spread) <= wait + timedelta(microseconds=1)
        assert wait <= max(policy.backoff)


@pytest.mark.parametrize(
    ("priority", "on_time", "late"),
    [
        (Priority.HIGH, Rank.HIGH, Rank.NORMAL),
        (Priority.NORMAL, Rank.NORMAL, Rank.LOW),
        (Priority.LOW, Rank.LOW, Rank.LATE_LOW),
    ],
)
def test_a_late_run_has_one_priority_level_less(priority: Priority, on_time: Rank, late: Rank) -> None:
    assert rank_of(priority, is_late=False) is on_time
    assert rank_of(priority, is_late=True) is late
    assert on_time < late


@pytest.mark.parametrize(
    ("expression", "catch_up"),
    [
        ("0 9 * * *", CatchUp.LATEST),
        ("@hourly", CatchUp.LATEST),
        ("every 15m", CatchUp.LATEST),
        ("RRULE:FREQ=YEARLY;BYMONTH=5;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=0;BYSECOND=0", CatchUp.LATEST),
        ("at 2026-12-24T18:00:00", CatchUp.ALL),
        ("yearly 02-29 09:00", CatchUp.ALL),
    ],
)
def test_the_default_policy_catches_up_one_shot_and_yearly_jobs(expression: str, catch_up: CatchUp) -> None:
    assert default_catch_up(Schedule.parse(expression)) is catch_up
