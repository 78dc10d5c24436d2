"""Schedules across the clock changes of 2026, and across the day that Apia left out.

The changes are those of the `tzdata` package. Each row is read forwards, backwards and by counting. Times are local
with their offset, so that the two passes of a repeated hour differ; `once` is the mode unless a row says otherwise.
"""

from datetime import UTC, datetime, timedelta

import pytest

from hourbell.core.schedule import Schedule

SECOND = timedelta(seconds=1)

# Each clock change: zone, from, to (the window that is searched).
CHANGES = {
    "New York spring": ("America/New_York", "2026-03-07 23:30-05:00", "2026-03-08 04:00-04:00"),
    "New York autumn": ("America/New_York", "2026-11-01 00:30-04:00", "2026-11-01 02:00-05:00"),
    "London spring": ("Europe/London", "2026-03-29 00:00+00:00", "2026-03-29 02:30+01:00"),
    "London autumn": ("Europe/London", "2026-10-25 00:30+01:00", "2026-10-25 02:00+00:00"),
    "Dublin spring": ("Europe/Dublin", "2026-03-29 00:00+00:00", "2026-03-29 02:30+01:00"),
    "Dublin autumn": ("Europe/Dublin", "2026-10-25 00:30+01:00", "2026-10-25 02:00+00:00"),
    "Lord Howe spring": ("Australia/Lord_Howe", "2026-10-04 00:30+10:30", "2026-10-04 03:00+11:00"),
    "Lord Howe autumn": ("Australia/Lord_Howe", "2026-04-05 01:15+11:00", "2026-04-05 02:00+10:30"),
    "Casablanca February": ("Africa/Casablanca", "2026-02-15 01:30+01:00", "2026-02-15 03:00+00:00"),
    "Casablanca March": ("Africa/Casablanca", "2026-03-22 01:30+00:00", "2026-03-22 04:00+01:00"),
    "Casablanca September": ("Africa/Casablanca", "2026-09-20 00:30+01:00", "2026-09-20 02:00+00:00"),
    "Beirut spring": ("Asia/Beirut", "2026-03-28 22:30+02:00", "2026-03-29 02:00+03:00"),
    "Beirut autumn": ("Asia/Beirut", "2026-10-24 22:30+03:00", "2026-10-25 00:30+02:00"),
    "Havana spring": ("America/Havana", "2026-03-07 22:30-05:00", "2026-03-08 02:00-04:00"),
    "Troll spring": ("Antarctica/Troll", "2026-03-29 00:15+00:00", "2026-03-29 03:30+02:00"),
    "Troll autumn": ("Antarctica/Troll", "2026-10-25 00:30+02:00", "2026-10-25 03:00+00:00"),
    "Apia's lost day": ("Pacific/Apia", "2011-12-29 11:00-10:00", "2011-12-31 13:00+14:00"),
}

# A time is followed by its offset, and preceded by its day of the month where that differs from the window's start.
ROWS = """
New York spring      | 30 2 * * *                           | once | 8 03:00-04
New York spring      | 30 2 * * *                           | wall |
New York spring      | 30 2 * * *                           | skip |
New York spring      | 0 30 2 * * *                         | once | 8 03:00-04
New York spring      | 0 30 2 8 3 0 2026                    | once | 8 03:00-04
New York spring      | 15,45 2 * * *                        | once | 8 03:00-04
New York spring      | 0 2,3 * * *                          | once | 8 03:00-04
New York spring      | 0 2,3 * * *                          | wall | 8 03:00-04
New York spring      | 0 2,3 * * *                          | skip | 8 03:00-04
New York spring      | 30 1,2,3 * * *                       | once | 8 01:30-05, 8 03:00-04, 8 03:30-04
New York spring      | 30 1,2,3 * * *                       | skip | 8 01:30-05, 8 03:30-04
New York spring      | 0 3 * * *                            | once | 8 03:00-04
New York spring      | 59 1 * * *                           | once | 8 01:59-05
New York spring      | */30 * * * *                         | once | 8 00:00-05, 8 00:30-05, 8 01:00-05, 8 01:30-05, 8 03:00-04, 8 03:30-04, 8 04:00-04
New York spring      | 0 */2 * * *                          | once | 8 00:00-05, 8 04:00-04
New York spring      | */5 2 * * *                          | once |
New York spring      | at 2026-03-08T02:30:00               | once | 8 03:00-04
New York spring      | at 2026-03-08T02:30:00               | skip |
New York spring      | at 2026-03-08T02:30:00               | wall |
New York spring      | yearly 03-08 02:30                   | once | 8 03:00-04
New York spring      | RRULE:FREQ=DAILY;BYHOUR=2,3          | once | 8 03:00-04
New York spring      | RRULE:FREQ=DAILY;BYHOUR=2            | once |
New York spring      | every 1h                             | once | 8 00:00-05, 8 01:00-05, 8 03:00-04, 8 04:00-04
New York autumn      | 30 1 * * *                           | once | 01:30-04
New York autumn      | 30 1 * * *                           | skip | 01:30-04
New York autumn      | 30 1 * * *                           | wall | 01:30-04, 01:30-05
New York autumn      | 0 1,2 * * *                          | once | 01:00-04, 02:00-05
New York autumn      | */30 * * * *                         | once | 01:00-04, 01:30-04, 01:00-05, 01:30-05, 02:00-05
New York autumn      | */30 * * * *                         | skip | 01:00-04, 01:30-04, 01:00-05, 01:30-05, 02:00-05
New York autumn      | 30 * * * *                           | once | 01:30-04, 01:30-05
New York autumn      | at 2026-11-01T01:30:00               | once | 01:30-04
New York autumn      | at 2026-11-01T01:30:00               | wall | 01:30-04
New York autumn      | at 2026-11-01T01:30:00-05:00         | once | 01:30-05
New York autumn      | yearly 11-01 01:30                   | once | 01:30-04
New York autumn      | RRULE:FREQ=DAILY;BYHOUR=1            | once | 01:00-04
New York autumn      | every 30m                            | once | 01:00-04, 01:30-04, 01:00-05, 01:30-05, 02:00-05
London spring        | 30 1 * * *                           | once | 02:00+01
London spring        | 30 1 * * *                           | skip |
London spring        | 0,30 1,2 * * *                       | once | 02:00+01, 02:30+01
London spring        | */30 * * * *                         | once | 00:30+00, 02:00+01, 02:30+01
London autumn        | 30 1 * * *                           | once | 01:30+01
London autumn        | 30 1 * * *                           | wall | 01:30+01, 01:30+00
London autumn        | */30 * * * *                         | once | 01:00+01, 01:30+01, 01:00+00, 01:30+00, 02:00+00
Dublin spring        | 30 1 * * *                           | once | 02:00+01
Dublin spring        | */30 * * * *                         | once | 00:30+00, 02:00+01, 02:30+01
Dublin autumn        | 30 1 * * *                           | once | 01:30+01
Dublin autumn        | 30 1 * * *                           | wall | 01:30+01, 01:30+00
Dublin autumn        | */30 * * * *                         | once | 01:00+01, 01:30+01, 01:00+00, 01:30+00, 02:00+00
Lord Howe spring     | 15 2 * * *                           | once | 02:30+11
Lord Howe spring     | 15 2 * * *                           | skip |
Lord Howe spring     | 30 2 * * *                           | once | 02:30+11
Lord Howe spring     | 0,15,30,45 2 * * *                   | once | 02:30+11, 02:45+11
Lord Howe spring     | */30 * * * *                         | once | 01:00+10:30, 01:30+10:30, 02:30+11, 03:00+11
Lord Howe spring     | 0 * * * *                            | once | 01:00+10:30, 03:00+11
Lord Howe autumn     | 45 1 * * *                           | once | 01:45+11
Lord Howe autumn     | 45 1 * * *                           | wall | 01:45+11, 01:45+10:30
Lord Howe autumn     | 0 2 * * *                            | once | 02:00+10:30
Lord Howe autumn     | */15 * * * *                         | once | 01:30+11, 01:45+11, 01:30+10:30, 01:45+10:30, 02:00+10:30
Casablanca February  | 30 2 * * *                           | once | 02:30+01
Casablanca February  | 30 2 * * *                           | wall | 02:30+01, 02:30+00
Casablanca February  | 0 */1 * * *                          | once | 02:00+01, 02:00+00, 03:00+00
Casablanca March     | 30 2 * * *                           | once | 03:00+01
Casablanca March     | 30 2 * * *                           | wall |
Casablanca March     | 0 * * * *                            | once | 03:00+01, 04:00+01
Casablanca September | 30 1 * * *                           | once | 01:30+01
Casablanca September | 0 * * * *                            | once | 01:00+01, 01:00+00, 02:00+00
Beirut spring        | @daily                               | once | 29 01:00+03
Beirut spring        | @midnight                            | wall |
Beirut spring        | 30 0 * * 0                           | once | 29 01:00+03
Beirut spring        | 0 0,1 * * *                          | once | 29 01:00+03
Beirut spring        | @hourly                              | once | 23:00+02, 29 01:00+03, 29 02:00+03
Beirut autumn        | 30 23 * * *                          | once | 23:30+03
Beirut autumn        | 30 23 * * *                          | wall | 23:30+03, 23:30+02
Beirut autumn        | @daily                               | once | 25 00:00+02
Beirut autumn        | @daily                               | wall | 25 00:00+02
Beirut autumn        | @hourly                              | once | 23:00+03, 23:00+02, 25 00:00+02
Havana spring        | @daily                               | once | 8 01:00-04
Havana spring        | @weekly                              | once | 8 01:00-04
Havana spring        | 15,30 0 8 3 *                        | once | 8 01:00-04
Havana spring        | @daily                               | skip |
Havana spring        | @hourly                              | once | 23:00-05, 8 01:00-04, 8 02:00-04
Troll spring         | 30 1 * * *                           | once | 03:00+02
Troll spring         | 30 1,2 * * *                         | once | 03:00+02
Troll spring         | 30 1,2,3 * * *                       | skip | 03:30+02
Troll spring         | */30 * * * *                         | once | 00:30+00, 03:00+02, 03:30+02
Troll autumn         | 30 1,2 * * *                         | once | 01:30+02, 02:30+02
Troll autumn         | 30 1,2 * * *                         | wall | 01:30+02, 02:30+02, 01:30+00, 02:30+00
Troll autumn         | 0 3 * * *                            | once | 03:00+00
Troll autumn         | 0 * * * *                            | once | 01:00+02, 02:00+02, 01:00+00, 02:00+00, 03:00+00
Apia's lost day      | 0 12 * * *                           | once | 12:00-10, 31 12:00+14
Apia's lost day      | 0 0 30 12 *                          | once |
Apia's lost day      | 0 12 * * 5                           | once |
Apia's lost day      | 0 0 31 12 *                          | once | 31 00:00+14
Apia's lost day      | 0 0 30,31 12 *                       | once | 31 00:00+14
Apia's lost day      | at 2011-12-30T12:00:00               | once |
Apia's lost day      | yearly 12-30 12:00                   | once |
Apia's lost day      | RRULE:FREQ=DAILY                     | once | 31 00:00+14
Apia's lost day      | 0 */6 * * *                          | once | 12:00-10, 18:00-10, 31 00:00+14, 31 06:00+14, 31 12:00+14
"""  # noqa: E501  a row is one line


def rows() -> list[object]:
    table = [[cell.strip() for cell in line.split("|")] for line in ROWS.strip().splitlines()]
    return [pytest.param(*row, id=f"{row[0]}: {row[1]} {row[2]}") for row in table]


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def expected_instants(cells: str, window_start: str) -> list[datetime]:
    found = []
    for cell in filter(None, cells.split(", ")):
        day, _, time = cell.rpartition(" ")
        found.append(instant(f"{window_start[:8]}{int(day or window_start[8:10]):02} {time}"))
    return found


@pytest.mark.parametrize(("change", "expression", "dst", "cells"), rows())
def test_a_schedule_meets_the_clock_change(change: str, expression: str, dst: str, cells: str) -> None:
    timezone, start, end = CHANGES[change]
    expected = expected_instants(cells, start)
    schedule = Schedule.parse(expression, timezone, dst)  # type: ignore[arg-type]

    forwards = list(schedule.between(instant(start), instant(end)))
    backwards = []
    before = instant(end) + SECOND
    while (at := schedule.previous(before)) is not None and at > instant(start):
        backwards.append(at)
        before = at

    assert forwards == expected
    assert backwards == expected[::-1]
    assert schedule.count(instant(start), instant(end)) == len(expected)
    assert all(schedule.matches(at) for at in expected)


@pytest.mark.parametrize("seconds", [0, 1, 1799, 1800, 3599, 3600, 5400, 7199])
@pytest.mark.parametrize("expression", ["30 1 * * *", "*/30 * * * *"])
@pytest.mark.parametrize("dst", ["once", "wall", "skip"])
def test_next_and_previous_stay_on_their_side_inside_a_repeated_hour(expression: str, dst: str, seconds: int) -> None:
    schedule = Schedule.parse(expression, "America/New_York", dst)  # type: ignore[arg-type]
    asked = instant("2026-11-01 01:00-04:00") + timedelta(seconds=seconds)
    following, latest = schedule.next(asked), schedule.previous(asked)

    assert following is not None
    assert latest is not None
    assert latest < asked < following
    assert schedule.count(latest, following) == 1 + schedule.matches(asked)


def test_asked_in_the_second_pass_a_fixed_time_comes_the_next_day() -> None:
    schedule = Schedule.parse("30 1 * * *", "America/New_York")

    assert schedule.next(instant("2026-11-01 01:15-05:00")) == instant("2026-11-02 01:30-05:00")
    assert schedule.previous(instant("2026-11-01 01:45-05:00")) == instant("2026-11-01 01:30-04:00")


def test_a_date_that_does_not_exist_is_waited_for_until_the_next_year() -> None:
    schedule = Schedule.parse("0 0 30 12 *", "Pacific/Apia")

    assert schedule.next(instant("2011-12-01 00:00-10:00")) == instant("2012-12-30 00:00+14:00")
    assert schedule.previous(instant("2012-12-01 00:00+14:00")) == instant("2010-12-30 00:00-10:00")


def test_havana_does_not_repeat_an_hour_in_autumn_2026() -> None:
    schedule = Schedule.parse("30 0 * * *", "America/Havana", "wall")

    found = list(schedule.between(instant("2026-10-31 12:00-04:00"), instant("2026-11-01 12:00-04:00")))

    assert found == [instant("2026-11-01 00:30-04:00")]


@pytest.mark.parametrize(
    ("timezone", "expression", "dst", "after", "at", "local", "shifted", "fold"),
    [
        ("New_York", "30 2 * * *", "once", "2026-03-07 12:00-05", "2026-03-08 03:00-04", "02:30", True, 0),
        ("New_York", "15,45 2 * * *", "once", "2026-03-07 12:00-05", "2026-03-08 03:00-04", "02:15", True, 0),
        ("New_York", "0 2,3 * * *", "once", "2026-03-07 12:00-05", "2026-03-08 03:00-04", "02:00", True, 0),
        ("New_York", "0 2,3 * * *", "skip", "2026-03-07 12:00-05", "2026-03-08 03:00-04", "03:00", False, 0),
        ("New_York", "0 2,3 * * *", "wall", "2026-03-07 12:00-05", "2026-03-08 03:00-04", "03:00", False, 0),
        ("New_York", "0 3 * * *", "once", "2026-03-07 12:00-05", "2026-03-08 03:00-04", "03:00", False, 0),
        ("New_York", "0 * * * *", "once", "2026-03-08 01:30-05", "2026-03-08 03:00-04", "03:00", False, 0),
        ("New_York", "yearly 03-08 02:30", "once", "2026-01-01 00:00-05", "2026-03-08 03:00-04", "02:30", True, 0),
        ("New_York", "every 1h", "once", "2026-03-08 01:30-05", "2026-03-08 03:00-04", "03:00", False, 0),
        ("New_York", "30 1 * * *", "once", "2026-10-31 12:00-04", "2026-11-01 01:30-04", "01:30", False, 0),
        ("New_York", "30 1 * * *", "wall", "2026-11-01 01:30-04", "2026-11-01 01:30-05", "01:30", False, 1),
        ("New_York", "*/15 * * * *", "once", "2026-11-01 01:45-04", "2026-11-01 01:00-05", "01:00", False, 1),
        ("New_York", "*/15 * * * *", "once", "2026-11-01 01:45-05", "2026-11-01 02:00-05", "02:00", False, 0),
        ("New_York", "every 1h", "once", "2026-11-01 01:00-04", "2026-11-01 01:00-05", "01:00", False, 1),
        ("Havana", "@daily", "once", "2026-03-07 12:00-05", "2026-03-08 01:00-04", "00:00", True, 0),
    ],
)
def test_an_occurrence_knows_its_nominal_time(
    timezone: str, expression: str, dst: str, after: str, at: str, local: str, shifted: bool, fold: int
) -> None:
    schedule = Schedule.parse(expression, f"America/{timezone}", dst)  # type: ignore[arg-type]
    found = schedule.next_occurrence(instant(after))

    assert found is not None
    assert found.at == instant(at) == schedule.next(instant(after))
    assert found.local == datetime.fromisoformat(f"{at[:10]} {local}")
    assert (found.shifted, found.fold) == (shifted, fold)
