"""Errors of an invalid schedule: all of them, in order, each with its column and a hint."""

import pickle
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime

import pytest

from hourbell.core.schedule import ErrorDetail, Schedule, ScheduleError


def refused(expression: str, timezone: str = "UTC", dst: str = "once") -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        Schedule.parse(expression, timezone, dst)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("60 * * * *", "minute field, column 1: 60 is outside 0-59"),
        ("0 0 * * FRI-MON", "day-of-week field, column 9: range FRI-MON runs backwards; write FRI-SUN,MON"),
        ("5/15 * * * *", "minute field, column 1: a step needs '*' or a range; write 5-59/15"),
        ("0 9 * *", "expected 5, 6 or 7 fields, got 4"),
    ],
)
def test_the_messages_of_the_specification(expression: str, message: str) -> None:
    assert str(refused(expression)) == message


@pytest.mark.parametrize(
    ("expression", "field", "column", "text", "allowed", "hint"),
    [
        ("60 0 0 * * *", "second", 1, "60", "0-59", None),
        ("0 99 * * *", "hour", 3, "99", "0-23", None),
        ("0 24 * * *", "hour", 3, "24", "0-23", "write 0 for midnight"),
        ("0 0 0 * *", "day-of-month", 5, "0", "1-31", None),
        ("0 0 5-32 * *", "day-of-month", 7, "32", "1-31", None),
        ("0 0 1,2,99 * *", "day-of-month", 9, "99", "1-31", None),
        ("0 0 1 13 *", "month", 7, "13", "1-12 or JAN-DEC", None),
        ("0 0 1 JANUARY *", "month", 7, "JANUARY", "1-12 or JAN-DEC", "write JAN"),
        ("0 0 * * 8", "day-of-week", 9, "8", "0-7 or SUN-SAT", None),
        ("0 0 * * 1-8", "day-of-week", 11, "8", "0-7 or SUN-SAT", None),
        ("0 0 * * Monday", "day-of-week", 9, "Monday", "0-7 or SUN-SAT", "write MON"),
        ("0 0 * * JUL", "day-of-week", 9, "JUL", "0-7 or SUN-SAT", "allowed are 0-7 or SUN-SAT"),
        ("0 0 0 1 1 * 1969", "year", 13, "1969", "1970-2199", None),
        ("0 0 0 1 1 * 2200", "year", 13, "2200", "1970-2199", None),
        ("*/0 * * * *", "minute", 3, "0", "0-59", "write a number of 1 or more"),
        ("*/x * * * *", "minute", 3, "x", "0-59", "write a number of 1 or more"),
        ("1,,2 * * * *", "minute", 3, "", "0-59", "remove the extra comma"),
        ("L * * * *", "minute", 1, "L", "0-59", "L and W belong in the day-of-month field"),
        ("15W * * * *", "minute", 1, "15W", "0-59", "L and W belong in the day-of-month field"),
        ("0 0 * * L", "day-of-week", 9, "L", "0-7 or SUN-SAT", "for the last Friday write 5L"),
        ("0 0 * * 5l", "day-of-week", 9, "5l", "0-7 or SUN-SAT", "write 5L"),
        ("0 0 5#2 * *", "day-of-month", 5, "5#2", "1-31", "'#' belongs in the day-of-week field"),
        ("0 0 5L * *", "day-of-month", 5, "5L", "1-31", "for the last Friday write 5L in the day-of-week field"),
        ("0 0 * * 5#6", "day-of-week", 11, "6", "1-5", "or write L for the last"),
        ("0 0 L-31 * *", "day-of-month", 7, "31", "1-30", None),
        ("0 0 +1 * *", "day-of-month", 5, "+1", "1-31", "'+' belongs once, before the day-of-week field"),
        ("0 0 1 * +", "day-of-week", 10, "", "0-7 or SUN-SAT", "write a weekday after '+', as +MON"),
        ("0 0 * * +9", "day-of-week", 10, "9", "0-7 or SUN-SAT", None),
        ("h 0 * * *", "minute", 1, "h", "0-59", "write H"),
        ("0 0 0 * * * H", "year", 13, "H", "1970-2199", "write the years"),
        ("5- * * * *", "minute", 1, "5-", "0-59", "a range is written 1-5"),
        ("  0 \t 25 * * *", "hour", 7, "25", "0-23", None),
    ],
)
def test_an_error_in_a_field_has_position_cause_and_hint(
    expression: str, field: str, column: int, text: str, allowed: str, hint: str | None
) -> None:
    [detail] = refused(expression).errors

    assert (detail.field, detail.column, detail.text, detail.allowed, detail.hint) == (
        field,
        column,
        text,
        allowed,
        hint,
    )


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "the schedule is empty; write a cron expression such as 0 9 * * 1-5"),
        (" \t ", "the schedule is empty; write a cron expression such as 0 9 * * 1-5"),
        ("0 0 1 1 * * * *", "expected 5, 6 or 7 fields, got 8"),
        ("15m", "expected 5, 6 or 7 fields, got 1; for an interval write 'every 15m'"),
        ("weekdays", "expected 5, 6 or 7 fields, got 1"),
        ("@fortnightly", "column 1: @fortnightly is not a nickname; nicknames are @hourly @daily @midnight @weekly "
         "@monthly @yearly @annually"),
        ("@daily 5", "column 1: nothing may follow @daily; write @daily alone"),
        ("EVERY 5m", "column 1: EVERY is written in lower case; write every"),
        ("rrule:freq=daily", "column 1: rrule:freq=daily is written in upper case; write RRULE:FREQ=…"),
        ("every", "interval field, column 6: every needs a duration; write every 15m"),
        ("every 0s", "interval field, column 7: 0s is outside 1s to 36600d"),
        ("every 15 minutes", "interval field, column 7: 15 is not a duration; write every 15m"),
        ("every minute", "interval field, column 7: minute is not a duration; write every 1m"),
        ("every 15m until noon", "interval field, column 11: until noon is not understood; after the duration only "
         "'from 2026-01-01T00:00:00Z' may follow"),
        ("at noon", "instant field, column 4: noon is not a date and time; write 2026-12-24T18:00:00 for local time, "
         "or with an offset as in 2026-12-24T18:00:00+01:00"),
        ("at 2026-02-30T18:00:00", "instant field, column 4: 2026-02-30T18:00:00 does not exist; check the day, the "
         "hour and the offset"),
        ("at 2026-11-17T18:21:16.668586+00:00", "instant field, column 4: 2026-11-17T18:21:16.668586+00:00 is "
         "not a whole second; leave out the fraction of a second: 2026-11-17T18:21:16+00:00"),
        ("every 1h from 2026-01-01T00:00:00.5Z", "interval field, column 15: 2026-01-01T00:00:00.5Z is not a whole "
         "second; leave out the fraction of a second: 2026-01-01T00:00:00Z"),
        ("at 2026-12-24T18:00.5", "instant field, column 4: 2026-12-24T18:00.5 is not a date and time; write "
         "2026-12-24T18:00:00 for local time, or with an offset as in 2026-12-24T18:00:00+01:00"),
        ("at 2200-01-01T00:00:00", "instant field, column 4: year 2200 is outside 1970-2199"),
        ("yearly 02-30 09:00", "yearly field, column 8: 02-30 09:00 does not exist in any year; write yearly 02-29 "
         "09:00, month before day"),
        ("yearly 02-29 09:00 feb29=mar2", "yearly field, column 20: feb29=mar2 is not understood; write feb29=feb28, "
         "feb29=mar1 or feb29=skip"),
        ("yearly 03-01 09:00 feb29=mar1", "yearly field, column 20: feb29= is for 02-29 only; leave it out"),
        ("RRULE:FREQ=FORTNIGHTLY", "recurrence field, column 12: FREQ=FORTNIGHTLY is not a frequency; write "
         "FREQ=DAILY, WEEKLY, MONTHLY or YEARLY"),
        ("RRULE:FREQ=DAILY;BYHOUR=24", "recurrence field, column 25: BYHOUR: 24 is outside 0-23"),
        ("RRULE:FREQ=DAILY;BYDAY=1MO", "recurrence field, column 24: BYDAY: 1MO needs FREQ=MONTHLY or YEARLY without "
         "BYWEEKNO; write MO"),
        ("DTSTART:20260101T090000", "recurrence field, column 1: an RRULE line is missing; write RRULE:FREQ=…"),
    ],
)  # fmt: skip
def test_an_error_in_another_form_has_a_hint(expression: str, message: str) -> None:
    assert str(refused(expression)) == message


@pytest.mark.parametrize("expression", ["every5m", "FREQ=DAILY", "hourly", "daily"])
def test_a_misspelled_schedule_gets_a_suggestion(expression: str) -> None:
    meant = {"every5m": "every 5m", "FREQ=DAILY": "RRULE:FREQ=DAILY", "hourly": "@hourly", "daily": "@daily"}

    assert meant[expression] in str(refused(expression))


def test_two_starts_of_a_recurrence_are_refused() -> None:
    refused("DTSTART:20260101T090000,20270101T090000\nRRULE:FREQ=DAILY;INTERVAL=2")


@pytest.mark.parametrize(
    "expression",
    [
        "0 5-99 * * *",
        "5- * * * *",
        "0 0 L-99 * *",
        "0 0 * * MON#9",
        "every 5x",
        "yearly 02-29 09:00 x",
        "RRULE:FREQ=DAILY;INTERVAL=2",
        "RRULE:FREQ=WEEKLY;BYMONTHDAY=1",
        "DTSTART;TZID=Europe/Paris:20260101T090000 RRULE:FREQ=DAILY",
        "DTSTART:20260101T090000 RRULE:FREQ=DAILY;COUNT=1;UNTIL=20270101",
    ],
)
def test_the_column_is_that_of_the_text(expression: str) -> None:
    for detail in refused(expression).errors:
        assert detail.text
        assert detail.column is not None
        assert expression[detail.column - 1 :].startswith(detail.text)


def test_every_error_is_reported_at_once_in_order_of_position() -> None:
    assert str(refused("60 24 0,32 JAN-13 5-1", "Mars/Phobos", "sometimes")).splitlines() == [
        "minute field, column 1: 60 is outside 0-59",
        "hour field, column 4: 24 is outside 0-23; write 0 for midnight",
        "day-of-month field, column 7: 0 is outside 1-31",
        "day-of-month field, column 9: 32 is outside 1-31",
        "month field, column 16: 13 is outside 1-12",
        "day-of-week field, column 19: range 5-1 runs backwards; write 5-7,1",
        "timezone field: unknown time zone 'Mars/Phobos'; write an IANA name such as Europe/Paris",
        "dst field: dst sometimes is not known; write once, wall or skip",
    ]


@pytest.mark.parametrize(
    "expression",
    [
        "RRULE:freq=daily",
        "RRULE:FREQ=DAILY;COUNT=1;UNTIL=20270101",
        "RRULE:FREQ=WEEKLY;INTERVAL=0;BYMONTHDAY=1;COUNT=x",
    ],
)
def test_errors_of_a_recurrence_are_in_order_of_position(expression: str) -> None:
    columns = [detail.column for detail in refused(expression).errors]

    assert len(columns) > 1
    assert columns == sorted(columns, key=lambda column: column or 0)


@pytest.mark.parametrize(
    "expression",
    [
        "z" * 512,
        "z" * 513,
        "{z} * * * *",
        "0 0 {z}L * *",
        "0 0 l{z} * *",
        "0 0 * * {z}#1",
        "0 0 * * {z}l",
        "?/{z} * * * *",
        "0 0 ?/{z} * *",
        "*/{z} * * * *",
        "1-{z} * * * *",
        "h{z} * * * *",
        "@{z}",
        "TZ={z} 0 0 * * *",
        "every {z}",
        "every 5m {z}",
        "at {z}",
        "yearly {z}",
        "yearly 02-29 09:00 {z}",
        "RRULE:{z}",
        "RRULE:FREQ={z}",
        "RRULE:FREQ=DAILY;BYHOUR={z}",
        "RRULE:FREQ=DAILY;UNTIL={z}",
        "DTSTART;{z}:20260101 RRULE:FREQ=DAILY",
    ],
)
def test_an_error_never_echoes_more_than_40_characters(expression: str) -> None:
    for detail in refused(expression.replace("{z}", "z" * 90)).errors:
        assert str(detail).casefold().count("z") <= 40
        assert len(detail.text) <= 40


def test_a_long_zone_name_is_cut() -> None:
    assert str(refused("@daily", "q" * 400)).count("q") <= 40


@pytest.mark.parametrize(
    ("timezone", "meant"),
    [
        ("utc", "UTC"),
        ("europe/paris", "Europe/Paris"),
        ("Europe/Pariss", "Europe/Paris"),
        ("America/New York", "America/New_York"),
        ("New York", "America/New_York"),
        ("Tokyo", "Asia/Tokyo"),
        ("OSLO", "Europe/Oslo"),
        ("Europe/Paris ", "Europe/Paris"),
    ],
)
def test_an_unknown_zone_is_answered_with_the_likely_one(timezone: str, meant: str) -> None:
    [detail] = refused("@daily", timezone).errors

    assert (detail.field, detail.text, detail.hint) == ("timezone", timezone, f"did you mean {meant}?")


@pytest.mark.parametrize("timezone", ["", "Mars/Phobos", "../../etc/passwd", "+01:00", "CEST", "PST", "BST", "AEST"])
def test_a_zone_like_no_other_is_answered_with_an_example(timezone: str) -> None:
    [detail] = refused("@daily", timezone).errors

    assert detail.hint == "write an IANA name such as Europe/Paris"


@pytest.mark.parametrize(("timezone", "wrong"), [("GMT+1", "Etc/GMT+1"), ("UTC+1", "UTC")])
def test_an_offset_is_not_answered_with_a_zone_of_another_offset(timezone: str, wrong: str) -> None:
    assert refused("@daily", timezone).hint != f"did you mean {wrong}?"


@pytest.mark.parametrize("dst", ["Once", "", "twice", None, 1, []])
def test_an_unknown_daylight_saving_mode_is_refused(dst: object) -> None:
    [detail] = refused("@daily", dst=dst).errors  # type: ignore[arg-type]

    assert (detail.field, detail.allowed, detail.hint) == ("dst", "once, wall, skip", "write once, wall or skip")


@pytest.mark.parametrize("given", [None, 5, b"@daily", ["@daily"]])
def test_a_schedule_or_zone_that_is_not_text_is_refused(given: object) -> None:
    kind = type(given).__name__

    assert str(refused(given)) == f"the schedule is text, not {kind}; write it in quotes"  # type: ignore[arg-type]
    assert str(refused("@daily", given)) == f"the timezone is text, not {kind}; write it in quotes"  # type: ignore[arg-type]


def test_a_name_that_utf_8_cannot_hold_is_hashed_or_refused() -> None:
    with suppress(ScheduleError):
        assert Schedule.parse("H 3 * * *", name="\udcff").next(datetime(2026, 1, 1, tzinfo=UTC))


ASKING: list[Callable[[Schedule, object], object]] = [
    lambda schedule, at: schedule.next(at),  # type: ignore[arg-type]
    lambda schedule, at: schedule.previous(at),  # type: ignore[arg-type]
    lambda schedule, at: schedule.next_occurrence(at),  # type: ignore[arg-type]
    lambda schedule, at: schedule.between(at, datetime(2027, 1, 1, tzinfo=UTC)),  # type: ignore[arg-type]
    lambda schedule, at: schedule.count(datetime(2025, 1, 1, tzinfo=UTC), at),  # type: ignore[arg-type]
    lambda schedule, at: schedule.matches(at),  # type: ignore[arg-type]
    lambda schedule, at: schedule.warnings(at),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("ask", ASKING)
def test_a_naive_datetime_is_refused(ask: Callable[[Schedule, object], object]) -> None:
    with pytest.raises(ValueError, match="2026-01-01T00:00:00 has no time zone; give an aware datetime"):
        ask(Schedule.parse("@daily"), datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("ask", ASKING[:-1])
@pytest.mark.parametrize("given", [None, 1767225600, "2026-01-01T00:00:00Z", date(2026, 1, 1)])
def test_a_value_that_is_no_datetime_is_refused(ask: Callable[[Schedule, object], object], given: object) -> None:
    with pytest.raises(TypeError, match=f"expected an aware datetime, got {type(given).__name__}"):
        ask(Schedule.parse("@daily"), given)


def test_an_error_is_a_value_error_and_survives_pickling() -> None:
    error = refused("60 * * * *")
    copy = pickle.loads(pickle.dumps(error))

    assert isinstance(error, ValueError)
    assert copy.errors == error.errors == (ErrorDetail("60 is outside 0-59", "minute", 1, "60", "0-59"),)
    assert (copy.field, copy.column, copy.text, copy.allowed, copy.hint) == ("minute", 1, "60", "0-59", None)
