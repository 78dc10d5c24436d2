"""The fate of a scheduled time, and figures about runs."""

from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.run.fates import Fate, fate_of, is_late, lateness
from hourbell.core.run.measures import failure_streak, percentile_ms, slope_ms_per_week
from hourbell.core.run.states import ENDS, Kind, RunState
from tests.core.values import DAY, HOUR, MINUTE, SECOND, T0

spans = st.integers(-3600, 3600).map(lambda seconds: seconds * SECOND)
LATE_AFTER = 5 * MINUTE


@pytest.mark.parametrize("state", RunState)
def test_every_state_has_a_fate_and_only_a_success_can_be_late(state: RunState) -> None:
    in_time, late = fate_of(state, is_late=False), fate_of(state, is_late=True)

    assert (late is Fate.LATE) == (state is RunState.SUCCEEDED)
    assert in_time not in (Fate.LATE, Fate.SKIPPED)
    assert in_time is late or state is RunState.SUCCEEDED


@given(st.sampled_from(Kind), spans)
def test_a_run_is_late_if_it_began_more_than_late_after_behind_its_time(kind: Kind, behind: timedelta) -> None:
    repeats_the_past = kind in (Kind.BACKFILL, Kind.REPLAY)

    assert is_late(kind, T0, T0 + behind, LATE_AFTER) == (behind > LATE_AFTER and not repeats_the_past)
    assert not is_late(kind, T0, None, LATE_AFTER)
    assert not is_late(kind, T0, T0 + behind, None)


@given(st.sampled_from(Kind), spans, spans)
def test_lateness_counts_from_the_time_a_run_was_due_and_is_never_negative(
    kind: Kind, ready_after: timedelta, behind: timedelta
) -> None:
    found = lateness(kind, T0, T0 + ready_after, T0 + behind)

    due_after = ready_after if kind in (Kind.BACKFILL, Kind.REPLAY) else timedelta(0)
    assert found == max(timedelta(0), behind - due_after)
    assert lateness(kind, T0, T0, None) is None


@given(st.lists(st.sampled_from(sorted(ENDS)), max_size=20), st.randoms())
def test_the_streak_is_the_failed_runs_that_ended_last_in_a_row(states: list[RunState], random: Random) -> None:
    runs = [(state, T0 + number * SECOND) for number, state in enumerate(states)]
    shuffled = [*runs, (RunState.RUNNING, None)]
    random.shuffle(shuffled)

    streak = failure_streak(shuffled)

    newest = list(reversed(states))
    assert newest[:streak] == [RunState.FAILED] * streak
    assert newest[streak : streak + 1] != [RunState.FAILED]


@given(st.lists(spans, min_size=1), st.integers(1, 100))
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(values: list[timedelta], percent: int) -> None:
    rising = sorted(values)

    found = percentile_ms(rising, percent)

    assert found is not None
    value = timedelta(milliseconds=found)
    assert sum(each <= value for each in rising) * 100 >= percent * len(rising)
    assert sum(each < value for each in rising) * 100 < percent * len(rising)


@given(st.integers(12, 100), st.integers(-1000, 1000), st.integers(0, 10**6))
def test_the_trend_of_a_line_is_its_slope(count: int, per_day: int, start: int) -> None:
    points = [(T0 + day * DAY, timedelta(milliseconds=start + per_day * day)) for day in range(count)]

    slope = slope_ms_per_week(points)

    assert slope == 7 * per_day


@given(st.integers(0, 59), st.integers(0, 10**9))
def test_one_outlier_hardly_changes_the_trend(index: int, value: int) -> None:
    points = [(T0 + day * DAY, timedelta(milliseconds=100 * day)) for day in range(60)]
    points[index] = (points[index][0], timedelta(milliseconds=value))

    slope = slope_ms_per_week(points)

    assert slope is not None
    assert abs(slope - 700) <= 35


def test_a_trend_needs_a_dozen_runs_over_a_day() -> None:
    def points(count: int, apart: timedelta) -> list[tuple[datetime, timedelta]]:
        return [(T0 + number * apart, SECOND) for number in range(count)]

    assert slope_ms_per_week(points(11, DAY)) is None
    assert slope_ms_per_week(points(12, HOUR)) is None
    assert slope_ms_per_week(points(12, 3 * HOUR)) == 0
    assert slope_ms_per_week([]) is None
