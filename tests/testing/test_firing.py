"""`fires` says when, in local time, with both ends included."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from hourbell import Scheduler

Fires = Callable[..., list[str]]


def test_both_ends_count(fires: Fires) -> None:
    assert fires("0 * * * *", between=("2026-01-01T09:00", "2026-01-01T10:00")) == [
        "2026-01-01T09:00+00:00",
        "2026-01-01T10:00+00:00",
    ]


def test_the_last_day_is_a_whole_day_where_it_is(fires: Fires) -> None:
    assert fires("30 23 * * *", between=("2026-07-01", "2026-07-01"), timezone="America/New_York") == [
        "2026-07-01T23:30-04:00"
    ]


def test_a_job_is_read_in_its_own_zone(fires: Fires) -> None:
    scheduler = Scheduler(source="tests")

    @scheduler.job("0 9 * * 1", timezone="Asia/Tokyo")
    async def weekly(run: object) -> None: ...

    assert fires(scheduler.jobs["weekly"], between=("2026-11-01", "2026-11-08")) == ["2026-11-02T09:00+09:00"]


def test_a_job_fires_from_its_start_through_its_end(fires: Fires) -> None:
    scheduler = Scheduler(source="tests")
    starts_at, ends_at = datetime(2026, 11, 2, 9, tzinfo=UTC), datetime(2026, 11, 4, 9, tzinfo=UTC)

    @scheduler.job("0 9 * * *", starts_at=starts_at, ends_at=ends_at)
    async def daily(run: object) -> None: ...

    job = scheduler.jobs["daily"]
    days = ["2026-11-02T09:00+00:00", "2026-11-03T09:00+00:00", "2026-11-04T09:00+00:00"]
    assert fires(job, between=("2026-11-01", "2026-11-30")) == days
    assert fires(job, between=("2026-11-03", "2026-11-03")) == days[1:2]
    assert fires(job, between=("2026-11-02T09:00", "2026-11-02T10:00")) == days[:1]
    assert fires(job, between=("2026-10-01", "2026-10-31")) == []
    assert fires(job, between=("2026-11-05", "2026-11-30")) == []


def test_seconds_are_shown_where_there_are_any(fires: Fires) -> None:
    assert fires("at 2026-11-02T09:00:05Z", between=("2026-11-01", "2026-11-08")) == ["2026-11-02T09:00:05+00:00"]


def test_an_endless_or_reversed_range_is_refused(fires: Fires) -> None:
    with pytest.raises(ValueError, match="a shorter time"):
        fires("* * * * *", between=("2026-01-01", "2026-12-31"))
    with pytest.raises(ValueError, match="before it begins"):
        fires("* * * * *", between=("2026-01-02", "2026-01-01T00:00"))
    with pytest.raises(ValueError, match="is not a time"):
        fires("* * * * *", between=("today", "tomorrow"))
