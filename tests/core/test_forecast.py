"""Planned fires per bucket: the same as walking, whatever the schedule, the zone and the width of a bucket."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.job.definition import Definition
from hourbell.core.run.forecast import forecast
from tests.core.schedule.strategies import SAMPLE_ZONES, examples
from tests.core.values import BROKEN, DAY, HOUR, HOURLY, MICROSECOND, MINUTE, MINUTELY, T0, a_definition

SCHEDULES = (
    HOURLY, MINUTELY, "*/7 * * * *", "30 2 * * *", "@weekly", "every 90s", "every 11h", "at 2026-03-08T07:00:00Z",
    "yearly 03-08 02:30", "0 0 30 2 *", "*/20 * * * * *", "RRULE:FREQ=WEEKLY;BYDAY=SU;BYHOUR=2;BYMINUTE=30", BROKEN,
)  # fmt: skip
moments = st.one_of(
    st.timedeltas(-2 * DAY, 9 * DAY).map(lambda since: T0 + since),
    st.integers(-48, 216).map(lambda hours: T0 + hours * HOUR),
)
definitions = st.builds(
    a_definition,
    st.sampled_from(SCHEDULES),
    timezone=st.sampled_from(SAMPLE_ZONES),
    starts_at=st.one_of(st.none(), moments),
    ends_at=st.one_of(st.none(), moments),
)
groups = st.lists(st.tuples(definitions, st.integers(1, 1_000)), max_size=4)
widths = st.sampled_from([timedelta(seconds=7), MINUTE, HOUR, DAY, timedelta(seconds=1.5)])


def walked(definition: Definition, start: datetime, end: datetime) -> list[datetime]:
    if definition.schedule == BROKEN:
        return []
    return [
        at
        for at in definition.parsed().between(start - MICROSECOND, end)
        if at < end
        and (definition.starts_at is None or at >= definition.starts_at)
        and (definition.ends_at is None or at <= definition.ends_at)
    ]


@examples(300)
@given(groups, moments, widths, st.integers(1, 40), moments)
def test_a_forecast_equals_walking_the_schedule(
    groups: list[tuple[Definition, int]], start: datetime, width: timedelta, number: int, now: datetime
) -> None:
    number = min(number, 3) if width == DAY else number
    expected = [0] * number
    for definition, jobs in groups:
        for at in walked(definition, start, start + number * width):
            expected[(at - start) // width] += jobs if at >= now else 0

    assert forecast(groups, start, width, number, now=now) == expected


def test_a_bucket_holds_its_beginning_and_not_its_end() -> None:
    assert forecast([(a_definition(HOURLY), 5)], T0, HOUR, 3, now=T0) == [5, 5, 5]
    assert forecast([(a_definition(HOURLY), 5)], T0 + MICROSECOND, HOUR - MICROSECOND, 1, now=T0) == [0]


def test_a_job_fires_from_its_start_to_its_end_with_both() -> None:
    definition = a_definition(HOURLY, starts_at=T0 + HOUR, ends_at=T0 + 3 * HOUR)

    assert forecast([(definition, 1)], T0, HOUR, 6, now=T0) == [0, 1, 1, 1, 0, 0]


def test_a_schedule_that_cannot_be_read_has_no_fires() -> None:
    assert forecast([(a_definition(BROKEN), 9), (a_definition(HOURLY), 1)], T0, HOUR, 2, now=T0) == [1, 1]


def test_a_week_of_hourly_buckets_includes_the_clock_change() -> None:
    daily, start = a_definition("30 2 * * *", timezone="America/New_York"), datetime(2026, 3, 7, tzinfo=UTC)
    fires = forecast([(daily, 1)], start, HOUR, 72, now=start)

    assert [hour for hour, count in enumerate(fires) if count] == [7, 24 + 7, 48 + 6]


def test_an_empty_forecast_is_empty() -> None:
    assert forecast([], T0, HOUR, 2, now=T0) == [0, 0]
    assert forecast([(a_definition(), 1)], T0, HOUR, 0, now=T0) == []


def test_past_times_are_not_in_the_forecast() -> None:
    assert forecast([(a_definition(HOURLY), 5)], T0, HOUR, 4, now=T0 + HOUR + MINUTE) == [0, 0, 5, 5]
    assert forecast([(a_definition(HOURLY), 1)], T0, DAY, 1, now=T0 + 22 * HOUR) == [2]
    assert forecast([(a_definition(HOURLY), 1)], T0, HOUR, 2, now=T0 + DAY) == [0, 0]
