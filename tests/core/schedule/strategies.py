"""Hypothesis strategies for the whole schedule language, for zones, and for instants where clocks change."""

import os
from datetime import UTC, datetime, timedelta
from functools import cache

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.core.schedule.wall_clock import Transition, all_zone_names, find_transitions

settings.register_profile(
    "schedule",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)


def examples(number: int) -> settings:
    """The deterministic profile with this many examples in `make test-all`, and a third of them in `make test`."""
    share = 1 if os.environ.get("TEST_TIER") == "all" else 3
    return settings(settings.get_profile("schedule"), max_examples=max(number // share, min(number, 25)))


DST_MODES = ("once", "wall", "skip")
# One zone for each way in which a clock has misbehaved: half hours, two hours, midnight, lost days, negative
# daylight saving, Ramadan, changes of standard time, and seconds in the offset.
SAMPLE_ZONES = (
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Europe/Dublin",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Antarctica/Casey",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Africa/Monrovia",
    "America/Caracas",
    "America/Havana",
    "America/Sao_Paulo",
    "America/St_Johns",
    "America/Scoresbysund",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Europe/Volgograd",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Kwajalein",
)


@cache
def sample_transitions(zone: str) -> list[Transition]:
    return find_transitions(zone, 1970, 2040, timedelta(days=5))


zones = st.one_of(st.sampled_from(SAMPLE_ZONES), st.sampled_from(all_zone_names()))
modes = st.sampled_from(DST_MODES)
microseconds = st.sampled_from([0, 0, 1, 500_000, 999_999])


def instants(first_year: int = 1995, last_year: int = 2045) -> st.SearchStrategy[datetime]:
    """Any instant of these years, often a whole minute, sometimes with microseconds."""
    first = datetime(first_year, 1, 1, tzinfo=UTC)
    minutes = int((datetime(last_year + 1, 1, 1, tzinfo=UTC) - first) / timedelta(minutes=1)) - 1
    return st.builds(
        lambda minute, second, micro: first + timedelta(minutes=minute, seconds=second, microseconds=micro),
        st.integers(0, minutes),
        st.sampled_from([0, 0, 1, 30, 59]),
        microseconds,
    )


@st.composite
def zoned_instants(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone, and an instant within two days of one of its transitions if it has any."""
    zone = draw(st.sampled_from(SAMPLE_ZONES))
    transitions = sample_transitions(zone)
    if not transitions:
        return zone, draw(instants())
    transition = draw(st.sampled_from(transitions))
    minutes = draw(st.one_of(st.integers(-130, 130), st.integers(-2_880, 2_880)))
    seconds = draw(st.sampled_from([0, 0, -1, 1, 30]))
    return zone, transition.at + timedelta(minutes=minutes, seconds=seconds, microseconds=draw(microseconds))


_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@st.composite
def _names(draw: st.DrawFn, names: tuple[str, ...]) -> str:
    name = draw(st.sampled_from(names))
    return draw(st.sampled_from([name, name.lower(), name.title()]))


@st.composite
def _name_range(draw: st.DrawFn, names: tuple[str, ...]) -> str:
    first = draw(st.integers(0, len(names) - 2))
    return f"{names[first]}-{names[draw(st.integers(first, len(names) - 1))]}"


@st.composite
def _range(draw: st.DrawFn, low: int, high: int) -> str:
    first = draw(st.integers(low, high))
    return f"{first}-{draw(st.integers(first, high))}"


def _items(low: int, high: int, *others: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """An item of a list: a number, a range, a step, or anything else the field allows."""
    ranges = _range(low, high)
    steps = st.one_of(st.integers(1, 12), st.integers(1, high + 5))
    return st.one_of(
        st.integers(low, high).map(str),
        ranges,
        st.builds("{}/{}".format, ranges, steps),
        st.builds("*/{}".format, steps),
        *others,
    )


def _field(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), items, st.lists(items, min_size=2, max_size=4).map(",".join))


seconds_fields = _field(_items(0, 59))
minutes_fields = _field(_items(0, 59))
hours_fields = _field(_items(0, 23))
_special_days = st.one_of(
    st.sampled_from(["L", "LW"]), st.integers(1, 30).map("L-{}".format), st.integers(1, 31).map("{}W".format)
)
_fifth = st.sampled_from(["1", "2", "3", "4", "5", "L"])
_any_weekday = st.one_of(st.integers(0, 7).map(str), _names(_WEEKDAYS))
_nth_weekdays = st.one_of(st.builds("{}#{}".format, _any_weekday, _fifth), st.builds("{}L".format, _any_weekday))
days_fields = st.one_of(st.just("?"), _field(_items(1, 31, _special_days)))
months_fields = _field(_items(1, 12, _names(_MONTHS), _name_range(_MONTHS)))
weekdays_fields = st.one_of(
    st.just("?"),
    _field(_items(0, 7, _names(_WEEKDAYS), _name_range(_WEEKDAYS), st.just("FRI-SUN"), _nth_weekdays)),
)
years_fields = st.one_of(
    st.just("*"),
    _range(2000, 2045),
    st.integers(2010, 2040).map(str),
    st.builds("*/{}".format, st.integers(1, 9)),
    st.sampled_from(["1970", "2199", "1970-2199/7", "2024,2028,2100,2104", "2096-2104"]),
)
_separators = st.sampled_from([" ", " ", " ", "  ", "\t"])


@st.composite
def crons(draw: st.DrawFn, field_counts: tuple[int, ...] = (5, 5, 6, 7)) -> str:
    """A valid cron expression of any of the three lengths."""
    count = draw(st.sampled_from(field_counts))
    fields = [draw(minutes_fields), draw(hours_fields), draw(days_fields), draw(months_fields)]
    fields.append(draw(st.sampled_from(["", "", "+"])) + draw(weekdays_fields))
    if count >= 6:
        fields.insert(0, draw(st.one_of(st.just("0"), seconds_fields)))
    if count == 7:
        fields.append(draw(years_fields))
    return draw(_separators).join(fields)


@st.composite
def fixed_crons(draw: st.DrawFn) -> str:
    """A valid expression that names fixed times, often in the hours when clocks change."""
    minute = draw(st.sampled_from(["0", "30", "15,45", "0-59/20", "59", "1"]))
    hour = draw(st.sampled_from(["0", "1", "2", "3", "2,3", "0-4", "23", "0,23", "1-3/2"]))
    return f"{minute} {hour} {draw(days_fields)} * {draw(weekdays_fields)}"


intervals = st.builds(
    "every {}{}{}".format,
    st.integers(1, 400),
    st.sampled_from(["s", "m", "h", "d", "w", "h30m", "d12h1s"]),
    st.sampled_from(["", " from 2026-01-01T00:00:00Z", " from 2001-02-03T04:05:06+05:30", " from 2011-06-30T12:00:00"]),
)
_clock_times = st.builds(
    "{:02}:{:02}:{:02}".format, st.integers(0, 23), st.integers(0, 59), st.sampled_from([0, 0, 30, 59])
)
_dates = st.dates(datetime(1996, 1, 1).date(), datetime(2044, 12, 31).date())  # noqa: DTZ001
moments = st.builds("at {}T{}{}".format, _dates, _clock_times, st.sampled_from(["", "", "Z", "+05:45", "-11:00"]))
yearlies = st.one_of(
    st.builds("yearly {:%m-%d} {}".format, _dates, _clock_times),
    st.builds("yearly 02-29 {}{}".format, _clock_times, st.sampled_from(["", " feb29=mar1", " feb29=skip"])),
)
nicknames = st.sampled_from(["@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"])
recurrences = st.builds(
    "DTSTART:{:%Y%m%d}T{:02}{}00 RRULE:{}".format,
    st.dates(datetime(1999, 1, 1).date(), datetime(2030, 12, 31).date()),  # noqa: DTZ001
    st.integers(0, 23),
    st.sampled_from(["00", "30", "59"]),
    st.sampled_from(
        [
            "FREQ=DAILY",
            "FREQ=DAILY;INTERVAL=3;BYHOUR=1,2,3",
            "FREQ=DAILY;COUNT=40",
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU;WKST=SU",
            "FREQ=WEEKLY;UNTIL=20281231T235959",
            "FREQ=MONTHLY;BYDAY=-1FR",
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
            "FREQ=MONTHLY;BYMONTHDAY=29,-1;BYHOUR=2;BYMINUTE=0,30",
            "FREQ=YEARLY;BYDAY=20MO",
            "FREQ=YEARLY;BYWEEKNO=1,53;BYDAY=SU",
            "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
        ]
    ),
)
schedules = st.one_of(crons(), crons(), fixed_crons(), intervals, moments, yearlies, nicknames, recurrences)
