"""Schedules in words. Each sentence was read as English, and as a claim that must be true."""

import pytest

from hourbell.core.schedule import Schedule

TIMES = {
    "* * * * *": "Every minute",
    "*/1 * * * *": "Every minute",
    "*/15 * * * *": "Every 15 minutes",
    "0 * * * *": "Every hour",
    "0 */1 * * *": "Every hour",
    "0 */2 * * *": "Every 2 hours",
    "30 * * * *": "At 30 minutes past the hour",
    "1 * * * *": "At 1 minute past the hour",
    "0,15,30,45 * * * *": "At 0, 15, 30 and 45 minutes past the hour",
    "*/7 * * * *": "Every 7 minutes from 0 through 56 past the hour",
    "0 0 * * *": "At 00:00",
    "0 9,12,18 * * *": "At 09:00, 12:00 and 18:00",
    "0 */7 * * *": "At 00:00, 07:00, 14:00 and 21:00",
    "10-20/5 8 * * *": "At 08:10, 08:15 and 08:20",
    "0 9-17 * * 1-5": "Every hour from 09:00 through 17:00, Monday through Friday",
    "*/5 2 * * *": "Every 5 minutes, from 02:00 through 02:59",
    "* 9-17 * * *": "Every minute, from 09:00 through 17:59",
    "* 9,17 * * *": "Every minute, from 09:00 through 09:59 and 17:00 through 17:59",
    "0,30 9-17 * * *": "At 0 and 30 minutes past the hour, from 09:00 through 17:59",
    "*/30 9-17 * * 1-5": "Every 30 minutes, from 09:00 through 17:59, Monday through Friday",
    "* * * * * *": "Every second",
    "*/10 * * * * *": "Every 10 seconds",
    "0 * * * * *": "Every minute",
    "30 * * * * *": "At 30 seconds past the minute",
    "30 0 9 * * 1-5": "At 09:00:30, Monday through Friday",
}
DAYS = {
    "0 9 * * 1-5": "At 09:00, Monday through Friday",
    "0 9 * * MON-FRI": "At 09:00, Monday through Friday",
    "0 0 * * 0": "At 00:00, on Sunday",
    "0 0 * * 7": "At 00:00, on Sunday",
    "0 0 * * 1,3,5": "At 00:00, on Monday, Wednesday and Friday",
    "0 0 * * */2": "At 00:00, on Sunday, Tuesday, Thursday and Saturday",
    "0 0 * * FRI-SUN": "At 00:00, Friday through Sunday",
    "0 0 * * 5#2": "At 00:00, on the second Friday of the month",
    "0 0 * * 5L": "At 00:00, on the last Friday of the month",
    "0 0 * * FRI#L": "At 00:00, on the last Friday of the month",
    "0 0 1 * *": "At 00:00, on day 1 of the month",
    "0 0 1,15 * *": "At 00:00, on days 1 and 15 of the month",
    "0 4 8-14 * *": "At 04:00, on days 8 through 14 of the month",
    "0 0 */2 * *": "At 00:00, every 2 days from day 1 of the month",
    "0 0 5-25/5 * *": "At 00:00, every 5 days from day 5 through day 25 of the month",
    "15 10 L * *": "At 10:15, on the last day of the month",
    "0 0 L-1 * *": "At 00:00, 1 day before the last day of the month",
    "0 0 L-3 * *": "At 00:00, 3 days before the last day of the month",
    "0 0 LW * *": "At 00:00, on the last Monday-to-Friday day of the month",
    "0 0 15W * *": "At 00:00, on the Monday-to-Friday day nearest day 15 of the month",
    "0 0 1,L * *": "At 00:00, on day 1 of the month and on the last day of the month",
    "0 0 13 * 5": "At 00:00, on day 13 of the month, or on Friday",
    "0 0 13 * +5": "At 00:00, on day 13 of the month, but only on Friday",
    "0 0 1-7 * +1": "At 00:00, on days 1 through 7 of the month, but only on Monday",
    "0 0 ? * ?": "At 00:00",
    "5 0 * 8 *": "At 00:05, only in August",
    "0 0 1 */3 *": "At 00:00, on day 1 of the month, only in January, April, July and October",
    "0 0 1 1-3,7 *": "At 00:00, on day 1 of the month, only in January through March and July",
    "0 0 9 * * 1-5 2027": "At 09:00, Monday through Friday, only in 2027",
    "0 0 9 * * ? 2027-2029": "At 09:00, only in 2027 through 2029",
}
OTHER_FORMS = {
    "@hourly": "Every hour",
    "@daily": "At 00:00",
    "@weekly": "At 00:00, on Sunday",
    "@monthly": "At 00:00, on day 1 of the month",
    "@yearly": "At 00:00, on day 1 of the month, only in January",
    "every 15m": "Every 15 minutes",
    "every 1h": "Every hour",
    "every 90s": "Every 1 minute and 30 seconds",
    "every 1h30m15s": "Every 1 hour, 30 minutes and 15 seconds",
    "every 2h from 2026-01-01T00:00:00": "Every 2 hours, counted from 00:00 on 1 January 2026",
    "every 2h from 2026-01-01T00:00:00+01:00": "Every 2 hours, counted from 23:00 on 31 December 2025 UTC",
    "every 2d": "Every 2 days (a day is 24 hours here, whatever the clock does)",
    "at 2026-12-24T18:00:00": "Once, at 18:00 on 24 December 2026",
    "at 2026-12-24T18:00:30+01:00": "Once, at 17:00:30 on 24 December 2026 UTC",
    "yearly 12-24 18:00": "At 18:00, on 24 December every year",
    "yearly 02-29 09:00": "At 09:00, on 29 February, on 28 February in other years",
    "yearly 02-29 09:00 feb29=mar1": "At 09:00, on 29 February, on 1 March in other years",
    "yearly 02-29 09:00 feb29=skip": "At 09:00, on 29 February, in leap years only",
    "RRULE:FREQ=MONTHLY;BYDAY=-1FR": "Every month, on the last Friday, at 00:00",
    "RRULE:FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=9": "Every week, on Monday and Wednesday, at 09:00",
    "RRULE:FREQ=MONTHLY;BYMONTHDAY=15": "Every month, on day 15 of the month, at 00:00",
    "RRULE:FREQ=MONTHLY;BYMONTHDAY=1,15": "Every month, on days 1 and 15 of the month, at 00:00",
    "RRULE:FREQ=MONTHLY;BYMONTHDAY=-1": "Every month, on the last day of the month, at 00:00",
    "RRULE:FREQ=YEARLY;BYDAY=20MO": "Every year, on the 20th Monday, at 00:00",
    "RRULE:FREQ=YEARLY;BYDAY=21MO": "Every year, on the 21st Monday, at 00:00",
    "RRULE:FREQ=DAILY;UNTIL=20261231": "Every day, at 00:00, until 31 December 2026",
    "DTSTART:20260101T090000 RRULE:FREQ=DAILY;INTERVAL=3": "Every 3 days, at 09:00, from 1 January 2026",
    "DTSTART:20260101T090000 RRULE:FREQ=DAILY;COUNT=5": "Every day, at 09:00, 5 times, from 1 January 2026",
    "EXDATE:20260105 RRULE:FREQ=DAILY": "Every day, at 00:00, except on 1 date",
}


@pytest.mark.parametrize(
    ("expression", "sentence"), [pytest.param(*row, id=row[0]) for row in (TIMES | DAYS | OTHER_FORMS).items()]
)
def test_a_schedule_is_described_in_english(expression: str, sentence: str) -> None:
    assert Schedule.parse(expression).describe() == sentence


def test_h_is_described_by_its_resolved_value() -> None:
    assert Schedule.parse("0 H(9-9) * * H(1-1)", name="report").describe() == "At 09:00, on Monday"


@pytest.mark.parametrize(
    ("expression", "phrase"),
    [
        pytest.param("*/10 */2 * * *", "every 2 hours", id="every 10 minutes of every second hour"),
        pytest.param("* */3 * * *", "every 3 hours", id="every minute of every third hour"),
        pytest.param("0 0 * * 0-7", "Sunday through Sunday", id="the whole week"),
        pytest.param("0 0 1,1 * *", "1 and 1", id="the same day twice"),
        pytest.param("0 0 1-5,3 * *", "5 and 3", id="a day inside a range"),
        pytest.param("0 0 */10,2 * *", "2, 1,", id="days out of order"),
        pytest.param("0 0 5,1 * *", "5 and 1", id="two days out of order"),
        pytest.param("*,* 9 * * *", "0, 1, 2, 3", id="every minute, spelled out"),
        pytest.param("0 0 0 1 1 ? */2", "*/2", id="cron among the words"),
        pytest.param("every 1d12h", "12 hours (of 24 hours each", id="hours of 24 hours"),
        pytest.param("every 1d from 2026-01-01T00:00:00Z", "UTC (of 24 hours each", id="a date of 24 hours"),
        pytest.param("RRULE:FREQ=MONTHLY;BYMONTHDAY=1,-1", "last and 1", id="last before first"),
        pytest.param("RRULE:FREQ=YEARLY;BYWEEKNO=-1", "week last", id="week last"),
        pytest.param(
            "DTSTART:20260101T090000 RRULE:FREQ=MONTHLY;BYDAY=MO,FR;BYSETPOS=-1", "number last", id="number last"
        ),
    ],
)
def test_descriptions_are_neither_untrue_nor_clumsy(expression: str, phrase: str) -> None:
    assert phrase not in Schedule.parse(expression).describe()
