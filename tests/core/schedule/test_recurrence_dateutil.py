"""Recurrence rules against python-dateutil, on naive local times.

dateutil looks for a rule's next instance until the year 9999, whatever UNTIL says, so every generated rule is one
that keeps matching: its parts are lists which hold the values of one date, and with an INTERVAL that date is DTSTART.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice, takewhile

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.schedule import Schedule
from tests.core.schedule.strategies import examples

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
YEARS = timedelta(days=365 * 7)  # `next` looks eight years ahead
MAX_SAMPLES = 60


def by_hourbell(text: str, start: datetime, end: datetime) -> list[datetime]:
    schedule = Schedule.parse(text)
    runs = schedule.between(start.replace(tzinfo=UTC) - timedelta(seconds=1), end.replace(tzinfo=UTC))
    return [at.replace(tzinfo=None) for at in islice(runs, MAX_SAMPLES)]


def by_dateutil(text: str, start: datetime, end: datetime) -> list[datetime]:
    runs = rrulestr(text, forceset=True).xafter(start, inc=True)
    return list(islice(takewhile(lambda at: at <= end, runs), MAX_SAMPLES))


@st.composite
def _listed(draw: st.DrawFn, value: int, low: int, high: int, *, negative: int | None = None) -> str:
    """A list that holds the value, or its like counted from the end, and perhaps others."""
    others = st.integers(low, high)
    if negative is not None:
        others = st.one_of(others, others.map(lambda other: -other))
    held = value if negative is None else draw(st.sampled_from([value, negative]))
    return ",".join(map(str, sorted({held, *draw(st.lists(others, max_size=2))})))


@dataclass(frozen=True)
class Target:
    """The date which the parts of a rule are made to match."""

    on: date

    @property
    def length(self) -> int:
        return ((self.on.replace(day=1) + timedelta(days=32)).replace(day=1) - timedelta(days=1)).day

    @property
    def year_day(self) -> int:
        return self.on.timetuple().tm_yday

    @property
    def year_length(self) -> int:
        return date(self.on.year, 12, 31).timetuple().tm_yday

    @property
    def weekday(self) -> str:
        return WEEKDAYS[self.on.weekday()]


@st.composite
def _nth_weekdays(draw: st.DrawFn, target: Target, number: int, length: int) -> str:
    """Weekdays with a number, which dateutil does not mix with those without."""
    nth = draw(st.sampled_from([(number - 1) // 7 + 1, -((length - number) // 7 + 1)]))
    others = st.builds("{}{}".format, st.sampled_from([1, 2, -1, -2, 4]), st.sampled_from(WEEKDAYS))
    return ",".join(sorted({f"{nth}{target.weekday}", *draw(st.lists(others, max_size=2))}))


@st.composite
def _date_parts(draw: st.DrawFn, frequency: str, target: Target) -> dict[str, str]:
    parts = {}
    allowed = {
        "DAILY": ["BYMONTH", "BYMONTHDAY", "BYDAY"],
        "WEEKLY": ["BYMONTH", "BYDAY"],
        "MONTHLY": ["BYMONTH", "BYMONTHDAY", "BYDAY", "nth"],
        "YEARLY": ["BYMONTH", "BYMONTHDAY", "BYDAY", "nth", "BYYEARDAY"],
    }[frequency]
    chosen = draw(st.sets(st.sampled_from(allowed), max_size=3))
    if "BYMONTH" in chosen:
        parts["BYMONTH"] = draw(_listed(target.on.month, 1, 12))
    if "BYMONTHDAY" in chosen:
        parts["BYMONTHDAY"] = draw(_listed(target.on.day, 1, 31, negative=target.on.day - target.length - 1))
    if "BYYEARDAY" in chosen:
        from_end = target.year_day - target.year_length - 1
        parts["BYYEARDAY"] = draw(_listed(target.year_day, 1, 366, negative=from_end))
    if "nth" in chosen:
        in_month = frequency == "MONTHLY" or "BYMONTH" in parts
        number, length = (target.on.day, target.length) if in_month else (target.year_day, target.year_length)
        parts["BYDAY"] = draw(_nth_weekdays(target, number, length))
    elif "BYDAY" in chosen:
        parts["BYDAY"] = ",".join(sorted({target.weekday, *draw(st.lists(st.sampled_from(WEEKDAYS), max_size=3))}))
    return parts


@st.composite
def _week_parts(draw: st.DrawFn) -> dict[str, str]:
    """Week numbers, alone or with weekdays; not 52 and 53, of which dateutil loses days, as the table shows."""
    weeks = draw(st.lists(st.sampled_from([1, 2, 20, 51, -1, -2, -20]), min_size=1, max_size=3, unique=True))
    parts = {"BYWEEKNO": ",".join(map(str, weeks))}
    if draw(st.booleans()):
        days = draw(st.lists(st.sampled_from(WEEKDAYS), min_size=1, max_size=3, unique=True))
        parts["BYDAY"] = ",".join(days)
    return parts


@st.composite
def rules(draw: st.DrawFn) -> tuple[str, datetime]:
    """The text of a recurrence, and the instant from which to compare it."""
    frequency = draw(st.sampled_from(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]))
    start = draw(st.datetimes(datetime(1999, 1, 1), datetime(2035, 12, 31)))  # noqa: DTZ001
    start = start.replace(microsecond=0)
    interval = draw(st.sampled_from([1, 1, 2, 3]))
    target_day = start.date() if interval > 1 else start.date() + timedelta(days=draw(st.integers(0, 400)))
    if frequency == "YEARLY" and draw(st.booleans()):
        parts = draw(_week_parts())
    else:
        parts = draw(_date_parts(frequency, Target(target_day)))
    for name, high in (("BYHOUR", 23), ("BYMINUTE", 59), ("BYSECOND", 59)):
        if draw(st.integers(0, 3)) == 0:
            parts[name] = draw(_listed(draw(st.integers(0, high)), 0, high))
    asked = start
    if parts and draw(st.integers(0, 2)) == 0:
        positions = {draw(st.sampled_from([1, -1])), *draw(st.lists(st.sampled_from([1, 2, 3, -1, -2]), max_size=2))}
        parts["BYSETPOS"] = ",".join(map(str, sorted(positions)))
        if frequency == "WEEKLY":
            asked += timedelta(days=7)  # dateutil begins the first week at DTSTART, as the table shows
    if interval > 1:
        parts["INTERVAL"] = str(interval)
    if draw(st.booleans()):
        parts["WKST"] = draw(st.sampled_from(WEEKDAYS))
    ending = draw(st.sampled_from(["", "COUNT", "UNTIL"]))
    if ending == "COUNT" and asked == start:
        parts["COUNT"] = str(draw(st.integers(1, 40)))
    elif ending == "UNTIL":
        until = start + timedelta(days=draw(st.integers(0, 2_000)), seconds=draw(st.integers(0, 86_399)))
        parts["UNTIL"] = f"{until:%Y%m%dT%H%M%S}"
    rule = ";".join([f"FREQ={frequency}", *(f"{name}={value}" for name, value in parts.items())])
    return f"DTSTART:{start:%Y%m%dT%H%M%S}\nRRULE:{rule}", asked


def _stamps(moments: list[datetime]) -> str:
    return ",".join(f"{moment:%Y%m%dT%H%M%S}" for moment in moments)


@pytest.mark.parametrize("week", [1, 2, 52, 53, -1, -52, -53])
def test_week_numbers_are_those_of_iso_8601(week: int) -> None:
    text = f"DTSTART:19990101T000000\nRRULE:FREQ=YEARLY;BYWEEKNO={week}"
    runs = Schedule.parse(text).between(datetime(1999, 1, 1, tzinfo=UTC), datetime(2059, 12, 31, tzinfo=UTC))
    days = [date.fromordinal(day) for day in range(date(1999, 1, 2).toordinal(), date(2060, 1, 1).toordinal())]

    def number(on: date) -> int:
        year, from_start, _ = on.isocalendar()
        return from_start if week > 0 else from_start - date(year, 12, 28).isocalendar().week - 1

    assert [at.date() for at in runs] == [on for on in days if number(on) == week]


@examples(300)
@given(rules())
def test_a_rule_gives_what_dateutil_gives(rule: tuple[str, datetime]) -> None:
    text, asked = rule

    assert by_hourbell(text, asked, asked + YEARS) == by_dateutil(text, asked, asked + YEARS)


@examples(150)
@given(rules(), st.integers(0, 3_000))
def test_a_rule_asked_later_gives_what_dateutil_gives(rule: tuple[str, datetime], days: int) -> None:
    text, asked = rule
    asked += timedelta(days=days)

    assert by_hourbell(text, asked, asked + YEARS) == by_dateutil(text, asked, asked + YEARS)


@examples(150)
@given(rules(), st.data())
def test_dates_added_and_taken_away_give_what_dateutil_gives(rule: tuple[str, datetime], data: st.DataObject) -> None:
    text, asked = rule
    runs = by_hourbell(text, asked, asked + YEARS)
    near = st.datetimes(asked, asked + YEARS).map(lambda moment: moment.replace(microsecond=0))
    any_run = st.sampled_from(runs) if runs else near
    removed = data.draw(st.lists(st.one_of(any_run, near), min_size=1, max_size=4))
    added = data.draw(st.lists(st.one_of(any_run, near), min_size=1, max_size=4))
    text = f"{text}\nEXDATE:{_stamps(removed)}\nRDATE:{_stamps(added)}"

    assert by_hourbell(text, asked, asked + YEARS) == by_dateutil(text, asked, asked + YEARS)


@examples(100)
@given(rules())
def test_going_back_gives_the_same_runs(rule: tuple[str, datetime]) -> None:
    text, asked = rule
    schedule = Schedule.parse(text)
    runs = by_dateutil(text, asked, asked + YEARS)
    back = []
    at = (runs[-1] if runs else asked).replace(tzinfo=UTC) + timedelta(seconds=1)
    while (at := schedule.previous(at)) is not None and at.replace(tzinfo=None) >= asked:
        back.append(at.replace(tzinfo=None))

    assert back[::-1] == runs
    assert schedule.count(asked.replace(tzinfo=UTC) - timedelta(seconds=1), (asked + YEARS).replace(tzinfo=UTC)) >= len(
        runs
    )


@dataclass(frozen=True)
class Disagreement:
    name: str
    reason: str
    rule: str
    ours: str
    theirs: str


DISAGREEMENTS = [
    Disagreement(
        "last week of the old year",
        "1 January 2011 is in week 52 of 2010; dateutil takes the number of weeks from the wrong year",
        "DTSTART:20101231T090000\nRRULE:FREQ=YEARLY;BYWEEKNO=52;BYDAY=SA",
        "0101T09 1231T09",
        "1231T09 1229T09",
    ),
    Disagreement(
        "BYSETPOS in the first week",
        "the set is that of the week, which begins at WKST; dateutil begins the first at DTSTART",
        "RRULE:FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=1",
        "0112T09 0119T09",
        "0107T09 0112T09",
    ),
    Disagreement(
        "weekdays with and without a number",
        "either may match; dateutil wants both, and so finds nothing",
        "RRULE:FREQ=MONTHLY;BYDAY=MO,1TU;UNTIL=20260210T000000",
        "0112T09 0119T09 0126T09 0202T09 0203T09 0209T09",
        "",
    ),
    Disagreement(
        "UNTIL without a time",
        "a day lasts until its end; dateutil stops at its midnight",
        "RRULE:FREQ=DAILY;UNTIL=20260109",
        "0107T09 0108T09 0109T09",
        "0107T09 0108T09",
    ),
    Disagreement(
        "EXDATE without a time",
        "it takes the whole day away; dateutil only midnight",
        "RRULE:FREQ=DAILY;COUNT=3\nEXDATE;VALUE=DATE:20260108",
        "0107T09 0109T09",
        "0107T09 0108T09 0109T09",
    ),
    Disagreement(
        "first week counted from the end",
        "a week that begins in the old year is the new year's first; dateutil sees that for week 1, not for week -52",
        "DTSTART:20291201T090000\nRRULE:FREQ=YEARLY;BYWEEKNO=-52;BYDAY=MO;COUNT=2",
        "1231T09 1230T09",
        "0105T09 0103T09",
    ),
]


@pytest.mark.parametrize("row", DISAGREEMENTS, ids=lambda row: row.name)
def test_known_disagreements_are_really_so(row: Disagreement) -> None:
    text = row.rule if row.rule.startswith("DTSTART") else f"DTSTART:20260107T090000\n{row.rule}"
    start, end = datetime(2010, 1, 1), datetime(2034, 1, 1)  # noqa: DTZ001
    ours, theirs = by_hourbell(text, start, end), by_dateutil(text, start, end)

    assert row.ours != row.theirs
    assert [f"{at:%m%dT%H}" for at in ours][: len(row.ours.split())] == row.ours.split()
    assert [f"{at:%m%dT%H}" for at in theirs][: len(row.theirs.split()) or None] == row.theirs.split()
