"""Statistics of ended runs, in numbers that can be checked by hand."""

from datetime import timedelta
from statistics import mean

from hypothesis import given
from hypothesis import strategies as st

from hourbell.control.stats import Summary, summarize
from hourbell.core.run.states import ENDS, RunState
from hourbell.store.lists.query import EndedRun
from tests.core.schedule.strategies import examples
from tests.core.values import HOUR, SECOND, T0

MILLISECOND = timedelta(milliseconds=1)
SUCCEEDED, FAILED, CANCELLED = RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED


def ended(late_ms: float = 0, took_ms: float = 0, state: RunState = SUCCEEDED) -> EndedRun:
    started_at = T0 + late_ms * MILLISECOND
    return EndedRun(state, T0, started_at, started_at + took_ms * MILLISECOND)


def test_statistics_without_runs_are_empty() -> None:
    assert summarize([]) == Summary(0, 0, 0, 0, *[None] * 7)


def test_every_statistic_of_four_runs_is_right() -> None:
    runs = [ended(10, 100), ended(20, 300, FAILED), ended(30, 200), ended(1_000, 1_000, CANCELLED)]

    assert summarize(runs) == Summary(
        total=4,
        succeeded=2,
        failed=1,
        cancelled=1,
        success_rate_percent=66.7,
        average_duration_ms=400,
        p95_duration_ms=1_000,
        longest_duration_ms=1_000,
        average_lateness_ms=265,
        p95_lateness_ms=1_000,
        longest_lateness_ms=1_000,
    )


def test_the_95th_percentile_is_a_value_that_occurred() -> None:
    assert summarize([ended(took_ms=took) for took in range(1, 101)]).p95_duration_ms == 95
    assert summarize([ended(took_ms=took) for took in range(1, 21)]).p95_duration_ms == 19
    assert summarize([ended(took_ms=took) for took in range(1, 20)]).p95_duration_ms == 19


def test_a_run_that_never_began_counts_only_by_its_state() -> None:
    expired = EndedRun(FAILED, T0, None, T0 + HOUR)
    summary = summarize([expired, ended(took_ms=10)])

    assert (summary.total, summary.failed, summary.success_rate_percent) == (2, 1, 50.0)
    assert (summary.average_duration_ms, summary.longest_lateness_ms) == (10, 0)


def test_nothing_is_early_and_nothing_takes_less_than_no_time() -> None:
    backwards = EndedRun(SUCCEEDED, T0 + SECOND, T0, T0 - SECOND)

    assert summarize([backwards]).longest_duration_ms == 0
    assert summarize([backwards]).longest_lateness_ms == 0


def test_cancelled_runs_alone_have_no_rate() -> None:
    assert summarize([ended(state=CANCELLED)]).success_rate_percent is None


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**7), st.sampled_from(sorted(ENDS))), min_size=1))
def test_numbers_agree_with_their_definitions(runs: list[tuple[int, int, RunState]]) -> None:
    summary = summarize([ended(*run) for run in runs])
    took = sorted(run[1] for run in runs)

    assert summary.total == summary.succeeded + summary.failed + summary.cancelled == len(runs)
    assert summary.average_duration_ms == round(mean(took))
    assert summary.longest_duration_ms == took[-1]
    assert summary.p95_duration_ms == next(
        each for each in took if sum(x <= each for x in took) * 100 >= 95 * len(took)
    )
