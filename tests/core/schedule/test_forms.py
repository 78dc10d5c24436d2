"""The seven forms of a schedule: which instants each names, what it needs, and where it ends."""

from datetime import UTC, datetime
from itertools import islice

import pytest

from hourbell.core.schedule import Schedule, ScheduleError

NEW_YEAR = "2026-01-01 00:00"  # a Thursday


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def firings(schedule: Schedule, after: str, number: int) -> list[str]:
    found = schedule.between(instant(after), instant("2200-01-02 00:00"))
    return [f"{at:%Y-%m-%d %H:%M:%S}".removesuffix(":00") for at in islice(found, number)]


def whole_dates(expected: str, after: str) -> list[str]:
    """A date without its year, or a time without its date, goes on from the one before."""
    dates: list[str] = []
    for entry in expected.split(", "):
        before = dates[-1] if dates else after
        date, _, time = entry.rpartition(" ") if ":" in entry else (entry, "", "00:00")
        dates.append(f"{before[: 10 - len(date)]}{date} {time}")
    return dates


def assert_fires(schedule: Schedule, expected: str, after: str = NEW_YEAR) -> None:
    """An expected list that ends in `never` is all there is."""
    wanted = whole_dates(expected.removesuffix(", never"), after)
    if expected.endswith("never"):
        assert firings(schedule, after, len(wanted) + 1) == wanted
    else:
        assert firings(schedule, after, len(wanted)) == wanted


def errors(expression: str) -> list[str]:
    with pytest.raises(ScheduleError) as caught:
        Schedule.parse(expression)
    return [str(detail) for detail in caught.value.errors]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 9 * * 1-5", "01-01 09:00, 01-02 09:00, 01-05 09:00"),
        ("30 0 9 * * 1-5", "01-01 09:00:30, 01-02 09:00:30, 01-05 09:00:30"),
        ("0 0 9 * * 1-5", "01-01 09:00, 01-02 09:00, 01-05 09:00"),
        ("*/25 0 9 * * *", "01-01 09:00, 09:00:25, 09:00:50, 01-02 09:00"),
        ("0 0 9 * * 1-5 2027", "2027-01-01 09:00, 2027-01-04 09:00"),
        ("0 0 0 1 1 * 2027", "2027-01-01, never"),
        ("0 0 0 29 2 * 2027-2034", "2028-02-29, 2032-02-29, never"),
        ("0 0 0 1 1 * 2026-2040/7", "2033-01-01, 2040-01-01, never"),
        ("59 59 23 31 12 * 2199", "2199-12-31 23:59:59, never"),
    ],
)
def test_five_six_or_seven_fields(expression: str, expected: str) -> None:
    assert_fires(Schedule.parse(expression), expected)


def test_years_reach_back_to_1970() -> None:
    assert Schedule.parse("0 0 0 1 1 * 1970").previous(instant(NEW_YEAR)) == instant("1970-01-01 00:00")


@pytest.mark.parametrize(
    ("nickname", "expected"),
    [
        ("@hourly", "01-01 01:00, 02:00, 03:00"),
        ("@daily", "01-02, 01-03"),
        ("@midnight", "01-02, 01-03"),
        ("@weekly", "01-04, 01-11"),
        ("@monthly", "02-01, 03-01"),
        ("@yearly", "2027-01-01, 2028-01-01"),
        ("@annually", "2027-01-01, 2028-01-01"),
    ],
)
def test_nicknames(nickname: str, expected: str) -> None:
    assert_fires(Schedule.parse(nickname), expected)
    assert errors(nickname.upper()) == [
        f"column 1: {nickname.upper()} is written in lower case; write {nickname}",
    ]


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("every 15m", "2026-01-01 00:07", "01-01 00:15, 00:30, 00:45"),
        ("@every 15m", "2026-01-01 00:07", "01-01 00:15, 00:30, 00:45"),
        ("every 15m", "2026-01-01 00:15", "01-01 00:30"),
        ("every 1s", NEW_YEAR, "01-01 00:00:01, 00:00:02"),
        ("every 90s", NEW_YEAR, "01-01 00:01:30, 00:03, 00:04:30"),
        ("every 2h30m", "1970-01-01 00:00", "01-01 02:30, 05:00, 07:30"),
        ("every 1d12h", "1970-01-01 00:00", "01-02 12:00, 01-04 00:00"),
        ("every 7d", "1970-01-01 00:00", "01-08, 01-15"),
        ("every 1w", "1970-01-01 00:00", "01-08, 01-15"),
        ("every 90s from 2026-01-01T00:00:00Z", NEW_YEAR, "01-01 00:01:30, 00:03"),
        ("every 90s from 2026-01-01T00:00:10Z", NEW_YEAR, "01-01 00:00:10, 00:01:40"),
        ("every 7h from 2026-01-05T10:00:00Z", NEW_YEAR, "01-05 10:00, 17:00, 01-06 00:00, 07:00"),
        ("every 1h from 2026-01-01T00:30:00+02:00", NEW_YEAR, "01-01 00:30, 01:30"),
        ("every 1d from 2026-01-01T08:00:00-03:30", NEW_YEAR, "01-01 11:30, 01-02 11:30"),
    ],
)
def test_an_interval_is_a_grid_from_its_anchor(expression: str, after: str, expected: str) -> None:
    assert_fires(Schedule.parse(expression), expected, after)


def test_an_interval_does_not_drift_over_decades() -> None:
    seconds_of_11_minutes = 11 * 60
    found = Schedule.parse("every 11m").next(instant("2026-07-28 12:34"))

    assert found is not None
    assert found.timestamp() % seconds_of_11_minutes == 0
    assert 0 < found.timestamp() - instant("2026-07-28 12:34").timestamp() <= seconds_of_11_minutes


def test_a_local_anchor_is_read_in_the_zone_and_the_grid_stays_on_the_utc_line() -> None:
    schedule = Schedule.parse("every 1d from 2026-03-06T20:00:00", "America/New_York")

    assert_fires(schedule, "03-07 01:00, 03-08 01:00, 03-09 01:00", "2026-03-01 00:00")
    assert schedule.previous(instant("2026-03-07 01:00")) is None


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("at 2026-12-24T18:00:00", "12-24 17:00, never"),
        ("at 2026-07-01T18:00", "07-01 16:00, never"),
        ("at 2026-12-24T18:00:00Z", "12-24 18:00, never"),
        ("at 2026-12-24T18:00:00.000000+00:00", "12-24 18:00, never"),
        ("at 2026-12-24T18:00:00.0", "12-24 17:00, never"),
        ("at 2026-12-24T18:00:00-05:00", "12-24 23:00, never"),
        ("at 2026-12-24T18:00:30+05:45", "12-24 12:15:30, never"),
    ],
)
def test_an_instant_is_local_or_has_an_offset_and_fires_once(expression: str, expected: str) -> None:
    assert_fires(Schedule.parse(expression, "Europe/Paris"), expected)


def test_an_instant_that_is_past_fires_no_more() -> None:
    schedule = Schedule.parse("at 2025-12-24T18:00:00")

    assert schedule.next(instant(NEW_YEAR)) is None
    assert schedule.previous(instant(NEW_YEAR)) == instant("2025-12-24 18:00")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("yearly 12-24 18:00", "12-24 18:00, 2027-12-24 18:00"),
        ("yearly 07-01 09:00:30", "07-01 09:00:30, 2027-07-01 09:00:30"),
        ("yearly 02-29 09:00", "02-28 09:00, 2027-02-28 09:00, 2028-02-29 09:00, 2029-02-28 09:00"),
        ("yearly 02-29 09:00 feb29=feb28", "02-28 09:00, 2027-02-28 09:00, 2028-02-29 09:00, 2029-02-28 09:00"),
        ("yearly 02-29 09:00 feb29=mar1", "03-01 09:00, 2027-03-01 09:00, 2028-02-29 09:00, 2029-03-01 09:00"),
        ("yearly 02-29 09:00 feb29=skip", "2028-02-29 09:00, 2032-02-29 09:00"),
    ],
)
def test_a_birthday_comes_every_year(expression: str, expected: str) -> None:
    assert_fires(Schedule.parse(expression), expected)


@pytest.mark.parametrize(("feb29", "day"), [("feb28", "2100-02-28"), ("mar1", "2100-03-01"), ("skip", "2104-02-29")])
def test_2100_is_not_a_leap_year(feb29: str, day: str) -> None:
    schedule = Schedule.parse(f"yearly 02-29 09:00 feb29={feb29}")

    assert schedule.next(instant("2100-01-01 00:00")) == instant(f"{day} 09:00")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("RRULE:FREQ=DAILY;BYHOUR=9,17", "01-01 09:00, 17:00, 01-02 09:00"),
        ("RRULE:FREQ=DAILY;INTERVAL=1", "01-02, 01-03"),
        ("RRULE:FREQ=DAILY;BYMONTH=2;BYDAY=MO", "02-02, 02-09, 02-16, 02-23, 2027-02-01"),
        ("RRULE:FREQ=WEEKLY;BYDAY=TU,TH;BYHOUR=9;BYMINUTE=30", "01-01 09:30, 01-06 09:30, 01-08 09:30"),
        ("RRULE:FREQ=MONTHLY;BYDAY=-1FR", "01-30, 02-27, 03-27"),
        ("RRULE:FREQ=MONTHLY;BYDAY=2MO,+4MO", "01-12, 01-26, 02-09, 02-23"),
        ("RRULE:FREQ=MONTHLY;BYMONTHDAY=-1", "01-31, 02-28, 03-31"),
        ("RRULE:FREQ=MONTHLY;BYMONTHDAY=31", "01-31, 03-31, 05-31"),
        ("RRULE:FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "02-13, 03-13, 11-13"),
        ("RRULE:FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=24;BYHOUR=18", "12-24 18:00, 2027-12-24 18:00"),
        ("RRULE:FREQ=YEARLY;BYYEARDAY=100,-1", "04-10, 12-31, 2027-04-10"),
        ("RRULE:FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "05-11, 2027-05-17"),
        ("RRULE:FREQ=YEARLY;BYDAY=20MO", "05-18, 2027-05-17"),
        ("RRULE:FREQ=DAILY;UNTIL=20260103", "01-02, 01-03, never"),
        ("DTSTART:20260105T090000\nRRULE:FREQ=DAILY", "01-05 09:00, 01-06 09:00"),
        ("DTSTART:20260102T090000\nRRULE:FREQ=DAILY;COUNT=3", "01-02 09:00, 01-03 09:00, 01-04 09:00, never"),
        ("DTSTART:20260102T090000 RRULE:FREQ=DAILY;UNTIL=20260103T090000", "01-02 09:00, 01-03 09:00, never"),
        ("DTSTART:20260102T090000\r\nRRULE:FREQ=DAILY;UNTIL=20260103T085959Z", "01-02 09:00, never"),
        ("DTSTART:20260102T090000\nRRULE:FREQ=DAILY;INTERVAL=10", "01-02 09:00, 01-12 09:00, 01-22 09:00"),
        ("DTSTART:20260105T090000\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR", "01-05 09:00, 01-09 09:00, 01-19 09:00"),
        ("DTSTART:20260131T080000\nRRULE:FREQ=MONTHLY", "01-31 08:00, 03-31 08:00, 05-31 08:00"),
        ("DTSTART:20260102T090000\nRRULE:FREQ=DAILY\nEXDATE:20260103T090000", "01-02 09:00, 01-04 09:00"),
        ("DTSTART:20260102T090000\nRRULE:FREQ=DAILY\nEXDATE;VALUE=DATE:20260103,20260104", "01-02 09:00, 01-05 09:00"),
        ("DTSTART:20260102T090000\nRRULE:FREQ=DAILY\nRDATE:20260102T120000", "01-02 09:00, 12:00, 01-03 09:00"),
        (
            "DTSTART:20260102T090000\nRRULE:FREQ=DAILY;COUNT=2\nEXDATE:20260102T090000\nRDATE:20260110T120000",
            "01-03 09:00, 01-10 12:00, never",
        ),
        (
            "DTSTART:20260101T090000\nRRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
            "01-30 09:00, 02-27 09:00, 03-31 09:00, 04-30 09:00, 05-29 09:00",
        ),
        (
            "DTSTART:20260101T090000\nRRULE:FREQ=MONTHLY;BYDAY=TU,WE,TH;BYSETPOS=3;COUNT=3",
            "01-07 09:00, 02-05 09:00, 03-05 09:00, never",
        ),
        (
            "DTSTART:19961105T090000\nRRULE:FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
            "2028-11-07 09:00, 2032-11-02 09:00",
        ),
    ],
)
def test_a_recurrence_follows_rfc_5545(expression: str, expected: str) -> None:
    assert_fires(Schedule.parse(expression), expected)


@pytest.mark.parametrize(("week_start", "days"), [("MO", "05, 10, 19, 24"), ("SU", "05, 17, 19, 31")])
def test_the_week_start_example_of_rfc_5545(week_start: str, days: str) -> None:
    rule = f"RRULE:FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST={week_start}"
    expected = [f"1997-08-{day} 09:00" for day in days.split(", ")]

    assert firings(Schedule.parse(f"DTSTART:19970805T090000\n{rule}"), "1997-08-01 00:00", 5) == expected


def test_a_recurrence_counts_back_from_its_last_instance() -> None:
    schedule = Schedule.parse("DTSTART:20260102T090000\nRRULE:FREQ=DAILY;COUNT=3")

    assert schedule.previous(instant("2027-01-01 00:00")) == instant("2026-01-04 09:00")
    assert schedule.previous(instant("2026-01-02 09:00")) is None


@pytest.mark.parametrize("part", ["INTERVAL=2", "COUNT=5", "BYDAY=MO;BYSETPOS=1"])
def test_a_part_that_counts_needs_dtstart(part: str) -> None:
    name = part.rpartition(";")[2].partition("=")[0]
    rule = f"RRULE:FREQ=MONTHLY;{part}"

    [detail] = errors(rule)

    assert detail.endswith(f"{name} needs DTSTART; add DTSTART:20260101T090000")
    assert Schedule.parse(f"DTSTART:20260101T090000\n{rule}").next(instant(NEW_YEAR))


@pytest.mark.parametrize("frequency", ["HOURLY", "MINUTELY", "SECONDLY"])
def test_a_recurrence_faster_than_daily_is_refused(frequency: str) -> None:
    assert errors(f"RRULE:FREQ={frequency}") == [
        f"recurrence field, column 12: FREQ={frequency} is not supported; for less than a day write cron or every"
    ]


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "2096-03-01 00:00", "2104-02-29 00:00"),
        ("RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=TU", "2028-03-01 00:00", None),
        ("RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=TU", "2050-01-01 00:00", "2056-02-29 00:00"),
        ("DTSTART:20260101T000000\nRRULE:FREQ=YEARLY;INTERVAL=8", "2026-01-02 00:00", "2034-01-01 00:00"),
        ("DTSTART:20260101T000000\nRRULE:FREQ=YEARLY;INTERVAL=9", "2026-01-02 00:00", None),
        ("DTSTART:20500101T000000\nRRULE:FREQ=DAILY", "2026-01-02 00:00", "2050-01-01 00:00"),
    ],
)
def test_a_recurrence_is_searched_eight_years_ahead(expression: str, after: str, expected: str | None) -> None:
    found = Schedule.parse(expression).next(instant(after))

    assert found == (None if expected is None else instant(expected))


def test_a_recurrence_that_fires_again_gets_no_warning() -> None:
    schedule = Schedule.parse("RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=FR")

    assert schedule.next(instant("2030-01-01 00:00")) == instant("2036-02-29 00:00")
    assert not schedule.never_fires


def test_reboot_is_refused_with_a_hint() -> None:
    [detail] = errors("@reboot")

    assert detail == "column 1: @reboot is not a time; to run something at start-up, trigger the job from there"


@pytest.mark.parametrize("prefix", ["CRON_TZ=Europe/Paris", "TZ=Europe/Paris", "TZ=UTC"])
@pytest.mark.parametrize("rest", ["0 9 * * *", "@daily", "0 0 9 * * *", ""])
def test_a_zone_before_the_schedule_is_refused_with_a_hint_to_the_timezone_field(prefix: str, rest: str) -> None:
    assert errors(f"{prefix} {rest}") == [
        f"column 1: {prefix} does not belong in the schedule; leave it out and set the timezone of the schedule"
    ]


@pytest.mark.parametrize(
    "expression",
    [
        "* * * * * *",
        "0 0 1 1 *",
        "@hourly",
        "every 1s",
        "yearly 12-31 23:59",
        "RRULE:FREQ=DAILY",
        "at 2199-12-31T23:59",
    ],
)
@pytest.mark.parametrize("after", ["2199-12-31 23:59:59", "2200-01-01 00:00", "9999-12-31 23:59:59"])
def test_nothing_fires_after_2199(expression: str, after: str) -> None:
    schedule = Schedule.parse(expression)

    assert schedule.next(instant(after)) is None
    assert schedule.next(instant("2199-01-01 00:00")) is not None or expression == "0 0 1 1 *"


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30W 2 *", "0 0 31 2 +1"])
def test_a_date_that_never_comes_is_read_and_never_fires(expression: str) -> None:
    schedule = Schedule.parse(expression)

    assert schedule.next(instant(NEW_YEAR)) is None
    assert schedule.previous(instant(NEW_YEAR)) is None
    assert schedule.never_fires
