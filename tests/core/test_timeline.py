"""The time line's arithmetic: buckets, planned times, medians; and the order and the notes of attention."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.job.definition import Definition
from hourbell.core.run.attention import Attention, first_reason
from hourbell.core.run.attention_notes import failing_note, late_note, losing_note, paused_note, retrying_note
from hourbell.core.run.states import Kind, RunState, SkipReason
from hourbell.core.run.timeline import (
    MAX_BUCKETS,
    Bucket,
    RunCount,
    SkippedRange,
    Window,
    count_planned,
    count_planned_by_bucket,
    fill_buckets,
    median_duration,
    planned_from,
    planned_times,
    waits_late,
)
from tests.core.values import DAY, HOUR, MINUTE, SECOND, T0

EVERY_MINUTE = Definition("job", "* * * * *", {})
SPANS = st.timedeltas(min_value=timedelta(microseconds=1), max_value=62 * DAY)
STARTS = st.timedeltas(min_value=-DAY, max_value=DAY)


@pytest.mark.parametrize(
    ("span", "width"),
    [
        (MINUTE, SECOND),
        (HOUR, 30 * SECOND),
        (DAY, 10 * MINUTE),
        (2 * DAY, 15 * MINUTE),
        (7 * DAY, HOUR),
        (62 * DAY, 8 * HOUR),
    ],
)
def test_the_width_of_buckets_follows_from_the_span(span: timedelta, width: timedelta) -> None:
    assert Window.of(T0, T0 + span).bucket == width


@given(STARTS, SPANS)
def test_buckets_cover_the_window_and_are_at_most_one_more_than_the_limit(start: timedelta, span: timedelta) -> None:
    window = Window.of(T0 + start, T0 + start + span)

    last = window.first_bucket + (window.buckets - 1) * window.bucket
    assert 1 <= window.buckets <= MAX_BUCKETS + 1
    assert window.first_bucket <= window.start < window.first_bucket + window.bucket
    assert last < window.end <= last + window.bucket
    assert window.bucket_of(window.first_bucket) == window.first_bucket
    assert (window.first_bucket - datetime(1970, 1, 1, tzinfo=UTC)) % window.bucket == timedelta(0)


@given(STARTS, SPANS, STARTS, st.sampled_from(["* * * * *", "17 */5 * * *", "0 9 * * 1-5", "every 7m"]))
def test_planned_times_are_the_same_listed_counted_and_in_buckets(
    start: timedelta, span: timedelta, after: timedelta, schedule: str
) -> None:
    window, moment = Window.of(T0 + start, T0 + start + min(span, 3 * DAY)), T0 + after
    definition = replace(EVERY_MINUTE, schedule=schedule, starts_at=T0 - HOUR, ends_at=T0 + 30 * HOUR)

    listed = planned_times(definition, moment, window)

    assert all(max(moment, window.start - SECOND) < at < window.end for at in listed)
    assert count_planned(definition, moment, window) == len(listed)
    by_bucket: dict[datetime, int] = {}
    for at in listed:
        by_bucket[window.bucket_of(at)] = by_bucket.get(window.bucket_of(at), 0) + 1
    assert count_planned_by_bucket(definition, moment, window) == by_bucket


def test_times_are_planned_from_the_cursor_or_the_end_of_a_pause_on() -> None:
    paused = replace(EVERY_MINUTE, enabled=False)

    assert planned_from(EVERY_MINUTE, T0, None, None) == T0
    assert planned_from(EVERY_MINUTE, T0, T0 + HOUR, None) == T0 + HOUR
    assert planned_from(EVERY_MINUTE, T0, T0 - HOUR, None) == T0
    assert planned_from(paused, T0, T0, T0 + HOUR) == T0 + HOUR
    assert planned_from(paused, T0, T0, None) is None


def test_an_instant_at_the_start_of_the_window_belongs_to_it_and_one_at_the_end_does_not() -> None:
    window = Window(T0, T0 + 3 * MINUTE, MINUTE)

    assert planned_times(EVERY_MINUTE, T0 - DAY, window) == [T0, T0 + MINUTE, T0 + 2 * MINUTE]
    assert planned_times(EVERY_MINUTE, T0, window) == [T0 + MINUTE, T0 + 2 * MINUTE]


def test_each_state_is_counted_in_a_bucket_and_empty_buckets_are_left_out() -> None:
    window = Window(T0, T0 + HOUR, MINUTE)
    runs = [
        RunCount(T0, state, is_late, count)
        for count, (state, is_late) in enumerate(
            [
                (RunState.SUCCEEDED, False),
                (RunState.SUCCEEDED, True),
                (RunState.FAILED, True),
                (RunState.CANCELLED, False),
                (RunState.PENDING, False),
                (RunState.RETRYING, False),
                (RunState.RUNNING, False),
            ],
            1,
        )
    ]
    skips = [SkippedRange(T0 + 5 * MINUTE, T0 + 5 * MINUTE, 1)]

    assert fill_buckets(window, runs, skips, {T0 + 9 * MINUTE: 4}) == [
        Bucket(T0, succeeded=1, late=2, failed=3, cancelled=4, unfinished=5 + 6 + 7),
        Bucket(T0 + 5 * MINUTE, skipped=1),
        Bucket(T0 + 9 * MINUTE, planned=4),
    ]


@given(
    st.integers(-100, 100), st.integers(0, 300), st.integers(1, 500), st.integers(1, 200), st.sampled_from([1, 5, 7])
)
def test_a_range_of_skips_is_spread_over_the_buckets_of_the_window(
    first: int, length: int, count: int, minutes: int, width: int
) -> None:
    window = Window(T0, T0 + minutes * MINUTE, width * MINUTE)
    count = 1 if length == 0 else max(2, count)
    skip = SkippedRange(T0 + first * MINUTE, T0 + (first + length) * MINUTE, count)

    found = fill_buckets(window, [], [skip], {})

    step = (skip.last_at - skip.first_at) / (count - 1) if count > 1 else timedelta(0)
    inside = sum(window.start <= skip.first_at + index * step < window.end for index in range(count))
    assert abs(sum(bucket.skipped for bucket in found) - inside) <= 1  # a step is whole microseconds
    assert all(window.first_bucket <= bucket.at < window.end for bucket in found)


@pytest.mark.parametrize(
    ("kind", "state", "late_after", "expected"),
    [
        (Kind.SCHEDULED, RunState.PENDING, MINUTE, True),
        (Kind.MANUAL, RunState.PENDING, MINUTE, True),
        (Kind.SCHEDULED, RunState.PENDING, HOUR, False),
        (Kind.SCHEDULED, RunState.PENDING, None, False),
        (Kind.SCHEDULED, RunState.CANCELLED, MINUTE, False),
        (Kind.BACKFILL, RunState.PENDING, MINUTE, False),
    ],
)
def test_a_run_that_waits_too_long_is_late(
    kind: Kind, state: RunState, late_after: timedelta | None, expected: bool
) -> None:
    assert waits_late(kind, state, T0, late_after, T0 + 2 * MINUTE) is expected


def test_the_median_is_the_middle_or_the_mean_of_the_middle_two() -> None:
    assert median_duration([]) is None
    assert median_duration([3 * SECOND, SECOND, 2 * SECOND]) == 2 * SECOND
    assert median_duration([4 * SECOND, SECOND]) == 2.5 * SECOND


def test_the_first_reason_decides() -> None:
    order = ["is_failing", "is_retrying", "is_losing", "is_late", "is_paused"]
    reasons = [Attention.FAILING, Attention.RETRYING, Attention.LOSING, Attention.LATE, Attention.PAUSED, None]

    for index, reason in enumerate(reasons):
        assert first_reason(**{name: place >= index for place, name in enumerate(order)}) is reason


def test_notes_say_why() -> None:
    assert failing_note(1, "HTTP 503") == "failed: HTTP 503"
    assert failing_note(1_000, None) == "failed 1,000 times in a row"
    at = f"{T0:%Y-%m-%dT%H:%M:%SZ}"
    assert retrying_note(1, T0, "HTTP 503\nUnavailable") == f"attempt 1 failed, attempt 2 at {at}: HTTP 503"
    assert retrying_note(2, None, None) == "attempt 2 failed, attempt 3 is running"
    assert losing_note({SkipReason.OVERLAP: 1}) == "skipped once in 24 h: overlap"
    losses = {SkipReason.MISSED: 2, SkipReason.OVERLAP: 3}
    assert losing_note(losses) == "skipped 5 times in 24 h: overlap 3, missed 2"
    assert late_note(T0, T0 + 90 * MINUTE) == f"a run has waited 1h 30m, since {T0:%Y-%m-%dT%H:%M:%SZ}"
    assert late_note(T0, T0 + 20 * SECOND).startswith("a run has waited 20 s, since ")
    assert paused_note(None, None, "") == "paused"
    assert paused_note("ops", T0, "migration") == f"paused by ops until {T0:%Y-%m-%dT%H:%M:%SZ}: migration"
