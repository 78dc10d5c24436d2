"""Times belong to the local date that zoneinfo gives them, and a skip's times are spread over its dates."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.run.days import DAY, spans_of, spread_skip
from hourbell.core.schedule import Schedule

ZONES = ["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"]
zones = st.sampled_from(ZONES)
dates = st.dates(date(2010, 1, 1), date(2030, 12, 31))
lengths = st.integers(0, 370)
moments = st.datetimes(datetime(2009, 12, 1), datetime(2031, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001


@given(zones, dates, lengths, moments)
def test_a_time_is_in_a_span_if_its_local_date_is_among_the_dates(
    zone: str, first: date, length: int, at: datetime
) -> None:
    last = first + length * DAY
    spans = spans_of(zone, first, last)

    inside = [span for span in spans if span.start <= at < span.end]

    local = at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    assert len(inside) == (first <= local.date() <= last)
    assert all((at + span.offset).replace(tzinfo=None) == local for span in inside)


@given(zones, dates, lengths)
def test_spans_are_newest_first_and_do_not_overlap(zone: str, first: date, length: int) -> None:
    spans = spans_of(zone, first, first + length * DAY)

    assert all(newer.start >= older.end for newer, older in pairwise(spans))


@given(zones, st.sampled_from(["0 9 * * 1-5", "0 0 * * *", "30 2 * * *", "0 */6 * * *"]), dates, st.integers(2, 40))
def test_the_schedule_gives_the_dates_of_a_skip(zone: str, expression: str, first: date, length: int) -> None:
    schedule = Schedule.parse(expression, zone)
    start = datetime(first.year, first.month, first.day, tzinfo=UTC)
    times = list(schedule.between(start, start + length * DAY))
    spans = spans_of(zone, first - 2 * DAY, first + (length + 2) * DAY)

    found = spread_skip(times[0], times[-1], len(times), spans, schedule) if times else {}

    expected: dict[date, int] = {}
    for at in times:
        day = at.astimezone(ZoneInfo(zone)).date()
        expected[day] = expected.get(day, 0) + 1
    assert found == expected


@given(zones, dates, st.integers(1, 30), st.integers(2, 10_000))
def test_the_times_of_a_skip_are_spread_evenly_if_the_schedule_has_changed(
    zone: str, first: date, length: int, count: int
) -> None:
    start = datetime(first.year, first.month, first.day, 12, tzinfo=UTC)
    spans = spans_of(zone, first - 2 * DAY, first + (length + 2) * DAY)

    found = spread_skip(start, start + length * DAY, count, spans, None)

    assert sum(found.values()) == count
    assert max(found.values()) <= count * (timedelta(hours=25) / (length * DAY)) + 1
