"""Warnings about a schedule, seen from 1 January 2026, with the dates they concern, and schedules without warnings."""

from datetime import UTC, datetime

import pytest

from hourbell.core.schedule import Schedule, ScheduleWarning

NEW_YEAR = "2026-01-01 00:00"


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def warnings(expression: str, timezone: str = "UTC", dst: str = "once", after: str = NEW_YEAR) -> list[ScheduleWarning]:
    return Schedule.parse(expression, timezone, dst, name="job").warnings(instant(after))  # type: ignore[arg-type]


def shown(warning: ScheduleWarning) -> list[str]:
    return [f"{at:%Y-%m-%d %H:%M:%S}".removesuffix(":00") for at in warning.instants]


@pytest.mark.parametrize(
    ("expression", "timezone", "dst", "says", "at"),
    [
        ("30 2 * * *", "America/New_York", "once", "02:30 does not exist on 8 March 2026 in America/New_York; runs at "
         "03:00", "2026-03-08 07:00"),
        ("30 2 * * *", "America/New_York", "skip", "02:30 does not exist on 8 March 2026 in America/New_York; no run "
         "for it", "2026-03-08 07:00"),
        ("30 2 * * *", "America/New_York", "wall", "02:30 does not exist on 8 March 2026 in America/New_York; no run "
         "for it", "2026-03-08 07:00"),
        ("15,45 2 * * *", "America/New_York", "once", "02:15 to 02:45 do not exist on 8 March 2026 in "
         "America/New_York; runs at 03:00", "2026-03-08 07:00"),
        ("0 2,3 * * *", "America/New_York", "once", "02:00 does not exist on 8 March 2026 in America/New_York; runs at "
         "03:00", "2026-03-08 07:00"),
        ("30 1 * * *", "Europe/London", "once", "01:30 does not exist on 29 March 2026 in Europe/London; runs at 02:00",
         "2026-03-29 01:00"),
        ("15 2 * * *", "Australia/Lord_Howe", "once", "02:15 does not exist on 4 October 2026 in Australia/Lord_Howe; "
         "runs at 02:30", "2026-10-03 15:30"),
        ("30 2 * * *", "Africa/Casablanca", "once", "02:30 does not exist on 22 March 2026 in Africa/Casablanca; runs "
         "at 03:00", "2026-03-22 02:00"),
        ("@daily", "Asia/Beirut", "once", "00:00 does not exist on 29 March 2026 in Asia/Beirut; runs at 01:00",
         "2026-03-28 22:00"),
        ("30 1,2 * * *", "Antarctica/Troll", "once", "01:30 to 02:30 do not exist on 29 March 2026 in "
         "Antarctica/Troll; runs at 03:00", "2026-03-29 01:00"),
        ("at 2026-03-08T02:30:00", "America/New_York", "once", "02:30 does not exist on 8 March 2026 in "
         "America/New_York; runs at 03:00", "2026-03-08 07:00"),
        ("yearly 03-08 02:30", "America/New_York", "once", "02:30 does not exist on 8 March 2026 in America/New_York; "
         "runs at 03:00", "2026-03-08 07:00"),
        ("RRULE:FREQ=DAILY;BYHOUR=2", "America/New_York", "once", "02:00 does not exist on 8 March 2026 in "
         "America/New_York; no run for it", "2026-03-08 07:00"),
    ],
)  # fmt: skip
def test_a_fixed_time_in_a_gap(expression: str, timezone: str, dst: str, says: str, at: str) -> None:
    [warning] = warnings(expression, timezone, dst)

    assert (warning.code, warning.message, shown(warning)) == ("gap", says, [at])


def test_a_time_on_a_day_that_does_not_exist() -> None:
    [warning] = warnings("0 12 * * *", "Pacific/Apia", after="2011-12-01 00:00")

    assert warning.message == "12:00 does not exist on 30 December 2011 in Pacific/Apia; no run for it"


def test_gaps_are_searched_within_a_year() -> None:
    [warning] = warnings("30 2 * * *", "America/New_York", after="2026-04-01 00:00")

    assert warning.message == "02:30 does not exist on 14 March 2027 in America/New_York; runs at 03:00"
    assert not warnings("30 2 * * *", "America/New_York", after="2026-03-08 07:00:01")


@pytest.mark.parametrize(
    ("expression", "timezone", "says", "at"),
    [
        ("*/5 2 * * *", "America/New_York", "02:00 to 02:55 do not exist on 8 March 2026 in America/New_York; 12 runs "
         "left out", "2026-03-08 07:00"),
        ("0 */2 * * *", "America/New_York", "02:00 does not exist on 8 March 2026 in America/New_York; 1 run left out",
         "2026-03-08 07:00"),
        ("*/30 0-5 * * *", "America/New_York", "02:00 to 02:30 do not exist on 8 March 2026 in America/New_York; 2 "
         "runs left out", "2026-03-08 07:00"),
        ("*/20 1,2 * * *", "Antarctica/Troll", "01:00 to 02:40 do not exist on 29 March 2026 in Antarctica/Troll; 6 "
         "runs left out", "2026-03-29 01:00"),
        ("0 * * * *", "Australia/Lord_Howe", "02:00 does not exist on 4 October 2026 in Australia/Lord_Howe; 1 run "
         "left out", "2026-10-03 15:30"),
    ],
)  # fmt: skip
def test_a_periodic_schedule_that_loses_runs_in_a_gap(expression: str, timezone: str, says: str, at: str) -> None:
    [warning] = warnings(expression, timezone)

    assert (warning.code, warning.message, shown(warning)) == ("periodic_gap", says, [at])


@pytest.mark.parametrize(
    ("expression", "timezone"),
    [
        ("0 0 29 2 *", "UTC"),
        ("0 0 29 2 *", "Asia/Tokyo"),
        ("0 22 29 2 *", "America/New_York"),
        ("0 0 29 FEB ?", "UTC"),
        ("yearly 02-29 09:00 feb29=skip", "UTC"),
        ("RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "UTC"),
    ],
)
def test_29_february_is_shown_with_its_local_dates(expression: str, timezone: str) -> None:
    [warning] = warnings(expression, timezone)

    assert warning.code == "leap_day"
    assert warning.message == "fires only on 29 February: 2028-02-29, 2032-02-29 and 2036-02-29"


@pytest.mark.parametrize(
    ("expression", "timezone", "either", "both", "instead"),
    [
        ("0 0 */2 * 1", "UTC", "2026-01-03, 2026-01-05 and 2026-01-07", "2026-01-05, 2026-01-19 and 2026-02-09", "+1"),
        ("0 0 */2 * 1", "Asia/Tokyo", "2026-01-03, 2026-01-05 and 2026-01-07", "2026-01-05, 2026-01-19 and 2026-02-09",
         "+1"),
        ("0 0 13 * */2", "UTC", "2026-01-03, 2026-01-04 and 2026-01-06", "2026-01-13, 2026-06-13 and 2026-08-13",
         "+*/2"),
        ("0 12 */10 * MON-FRI", "UTC", "2026-01-01, 2026-01-02 and 2026-01-05",
         "2026-01-01, 2026-01-21 and 2026-02-11", "+MON-FRI"),
    ],
)  # fmt: skip
def test_a_step_beside_a_restricted_day_field_spells_out_both_readings(
    expression: str, timezone: str, either: str, both: str, instead: str
) -> None:
    [warning] = warnings(expression, timezone)

    assert warning.code == "either_day"
    assert f": {either}; Debian's cron fires only where both match: {both}; for that write {instead}" in warning.message


@pytest.mark.parametrize(
    ("expression", "timezone", "never", "dates"),
    [
        ("0 0 31 2 1", "UTC", "day 31 never comes in month 2", "2026-02-02, 2026-02-09 and 2026-02-16"),
        ("0 0 31 2 1", "Asia/Tokyo", "day 31 never comes in month 2", "2026-02-02, 2026-02-09 and 2026-02-16"),
        ("0 0 31 4,6 5", "UTC", "day 31 never comes in month 4,6", "2026-04-03, 2026-04-10 and 2026-04-17"),
        ("0 0 30W 2 5L", "UTC", "day 30W never comes in month 2", "2026-02-27, 2027-02-26 and 2028-02-25"),
    ],
)
def test_a_dead_alternative(expression: str, timezone: str, never: str, dates: str) -> None:
    [warning] = warnings(expression, timezone)

    assert (warning.code, warning.message) == ("dead_date", f"{never}; only the weekday fires: {dates}")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * * *", ["00:00:01", "00:00:02", "00:00:03"]),
        ("*/10 * * * * *", ["00:00:10", "00:00:20", "00:00:30"]),
        ("0,30 * * * * *", ["00:00:30", "00:01:00", "00:01:30"]),
        ("every 59s from 2026-01-01T00:00:00Z", ["00:00:59", "00:01:58", "00:02:57"]),
        ("@every 1s", ["00:00:01", "00:00:02", "00:00:03"]),
    ],
)
def test_firing_more_often_than_every_minute(expression: str, expected: list[str]) -> None:
    [warning] = warnings(expression)

    assert warning.code == "often"
    assert warning.message.startswith("fires more often than every minute")
    assert [f"{at:%H:%M:%S}" for at in warning.instants] == expected


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("*/60 * * * *", "minute step 60 is larger than 0-59: only 0 matches"),
        ("50-55/6 * * * *", "minute step 6 is larger than 50-55: only 50 matches"),
        ("0 8-10/5 * * *", "hour step 5 is larger than 8-10: only 8 matches"),
        ("0 0 */31 * *", "day-of-month step 31 is larger than 1-31: only 1 matches"),
        ("0 0 1 */12 *", "month step 12 is larger than 1-12: only 1 matches"),
        ("0 0 * * */7", "day-of-week step 7 is larger than 0-6: only 0 matches"),
        ("*/90 0 0 * * *", "second step 90 is larger than 0-59: only 0 matches"),
        ("0 0 0 1 1 * 2026-2028/3", "year step 3 is larger than 2026-2028: only 2026 matches"),
    ],
)
def test_a_step_larger_than_its_range(expression: str, says: str) -> None:
    [warning] = warnings(expression)

    assert (warning.code, warning.message) == ("large_step", says)


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 31 2 +1", "0 0 30W 2 ?"])
def test_a_schedule_that_never_fires(expression: str) -> None:
    [warning] = warnings(expression)

    assert (warning.code, warning.message) == ("never_fires", "never fires: no date matches")


def test_a_schedule_of_24_hour_days_warns_where_the_clock_changes() -> None:
    [warning] = warnings("every 1d", "America/New_York")

    assert warning.code == "day_is_24_hours"
    assert "24 hours" in warning.message


def test_several_warnings_are_all_reported() -> None:
    found = warnings("*/30 30 2 */7 * 1", "America/New_York")

    assert {warning.code for warning in found} == {"periodic_gap", "either_day", "often"}


@pytest.mark.parametrize(
    ("expression", "timezone"),
    [
        ("0 9 * * 1-5", "America/New_York"),
        ("30 2 * * *", "UTC"),
        ("30 2 * * *", "Asia/Tokyo"),
        ("30 2 * 6-8 *", "America/New_York"),
        ("30 1 * * *", "America/New_York"),
        ("0 3 * * *", "America/New_York"),
        ("30 2 * * 1-5", "America/New_York"),
        ("*/15 * * * *", "America/New_York"),
        ("0 * * * *", "America/New_York"),
        ("0 * * * *", "Antarctica/Troll"),
        ("* * * * *", "Australia/Lord_Howe"),
        ("every 15m", "America/New_York"),
        ("every 60s", "UTC"),
        ("every 1d", "UTC"),
        ("every 1d", "Asia/Tokyo"),
        ("at 2026-03-08T02:30:00-05:00", "America/New_York"),
        ("yearly 02-29 09:00", "UTC"),
        ("yearly 02-29 09:00 feb29=mar1", "UTC"),
        ("0 0 L 2 *", "UTC"),
        ("0 0 28,29 2 *", "UTC"),
        ("0 0 13 * 5", "UTC"),
        ("0 0 */2 * *", "UTC"),
        ("0 0 */2 * ?", "UTC"),
        ("0 0 */2 * +1", "UTC"),
        ("0 0 31 * 1", "UTC"),
        ("*/59 * * * *", "UTC"),
        ("0 0 * * 5-7/2", "UTC"),
        ("5-5/1 * * * *", "UTC"),
        ("30 0 9 * * *", "UTC"),
        ("RRULE:FREQ=MONTHLY;BYDAY=-1FR", "America/New_York"),
        ("H H * * *", "UTC"),
    ],
)
def test_a_schedule_without_surprises_is_silent(expression: str, timezone: str) -> None:
    assert warnings(expression, timezone) == []
