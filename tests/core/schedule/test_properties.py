"""Properties of every schedule, zone and instant, checked on generated ones."""

import pickle
import sys
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hourbell.core.schedule import Schedule, ScheduleError
from tests.core.schedule.strategies import (
    crons,
    examples,
    fixed_crons,
    instants,
    modes,
    recurrences,
    schedules,
    zoned_instants,
    zones,
)
from tests.core.schedule.wall_clock import MINUTE, SECOND, Walk, read_cron, walk_utc

MICROSECOND = timedelta(microseconds=1)
NEW_YORK_FOLD = datetime(2026, 11, 1, 6, 30, tzinfo=UTC)  # 01:30 for the second time


def first_few(schedule: Schedule, after: datetime, limit: int = 6) -> list[datetime]:
    """The next instants, asked for one at a time."""
    found: list[datetime] = []
    while len(found) < limit and (at := schedule.next(found[-1] if found else after)) is not None:
        found.append(at)
    return found


@examples(150)
@given(schedules, modes, zoned_instants())
@example("30 1 * * *", "once", ("America/New_York", NEW_YORK_FOLD))
@example("30 1 * * *", "wall", ("America/New_York", NEW_YORK_FOLD - MICROSECOND))
@example("*/10 * * * *", "once", ("America/New_York", NEW_YORK_FOLD + MICROSECOND))
def test_results_strictly_increase_from_any_instant(text: str, dst: str, zoned: tuple[str, datetime]) -> None:
    zone, after = zoned
    found = [after, *first_few(Schedule.parse(text, zone, dst), after)]

    assert all(earlier < later for earlier, later in pairwise(found))


@examples(150)
@given(schedules, modes, zoned_instants())
def test_results_strictly_decrease_going_back(text: str, dst: str, zoned: tuple[str, datetime]) -> None:
    zone, before = zoned
    schedule = Schedule.parse(text, zone, dst)
    found = [before]
    while len(found) < 7 and (at := schedule.previous(found[-1])) is not None:
        found.append(at)

    assert all(later > earlier for later, earlier in pairwise(found))


@examples(150)
@given(schedules, modes, zoned_instants())
def test_next_and_previous_undo_each_other(text: str, dst: str, zoned: tuple[str, datetime]) -> None:
    zone, after = zoned
    schedule = Schedule.parse(text, zone, dst)
    following = schedule.next(after)
    assume(following is not None)
    newest = schedule.previous(following)

    assert newest is None or newest <= after  # nothing lies between
    assert newest is None or schedule.next(newest) == following
    assert schedule.previous(following + MICROSECOND) == following
    assert schedule.next(following - MICROSECOND) == following


@examples(150)
@given(schedules, modes, zoned_instants())
def test_a_schedule_matches_where_it_fires_and_only_there(text: str, dst: str, zoned: tuple[str, datetime]) -> None:
    zone, after = zoned
    schedule = Schedule.parse(text, zone, dst)
    found = first_few(schedule, after, 3)

    assert all(schedule.matches(at) for at in found)
    assert not any(schedule.matches(at + MICROSECOND) for at in found)
    assert schedule.matches(after) == (schedule.next(after - MICROSECOND) == after)


@examples(150)
@given(schedules, modes, zoned_instants(), st.integers(0, 40))
def test_between_is_repeated_next_and_count_its_length(
    text: str, dst: str, zoned: tuple[str, datetime], hours: int
) -> None:
    zone, start = zoned
    schedule = Schedule.parse(text, zone, dst)
    few = first_few(schedule, start, 20)
    end = few[-1] if few else start + timedelta(hours=hours)

    assert list(schedule.between(start, end)) == few
    assert schedule.count(start, end) == len(few)


@examples(150)
@given(st.one_of(crons((5,)), fixed_crons(), recurrences), modes, zoned_instants(), st.integers(1, 2_000))
def test_count_over_years_is_the_length_of_between(text: str, dst: str, zoned: tuple[str, datetime], days: int) -> None:
    zone, start = zoned
    schedule = Schedule.parse(text, zone, dst)
    limit = 2_000
    found = list(islice(schedule.between(start, start + timedelta(days=days)), limit))
    end = found[-1] if len(found) == limit else start + timedelta(days=days)

    assert schedule.count(start, end) == len(found)


@pytest.mark.parametrize("interval", [5, 9, 10, 40])
def test_count_is_the_length_of_between_however_rare_the_recurrence(interval: int) -> None:
    schedule = Schedule.parse(f"DTSTART:20200101T090000 RRULE:FREQ=YEARLY;INTERVAL={interval}")
    start, end = datetime(2021, 1, 1, tzinfo=UTC), datetime(2150, 1, 1, tzinfo=UTC)

    assert schedule.count(start, end) == len(list(schedule.between(start, end)))


@examples(100)
@given(schedules, modes, zoned_instants())
def test_nothing_lies_between_an_instant_and_itself(text: str, dst: str, zoned: tuple[str, datetime]) -> None:
    zone, at = zoned
    schedule = Schedule.parse(text, zone, dst)

    assert list(schedule.between(at, at)) == []
    assert schedule.count(at, at) == 0
    assert schedule.count(at, at - timedelta(days=9)) == 0


@examples(200)
@given(crons(), instants())
def test_in_utc_cron_equals_brute_force(text: str, after: datetime) -> None:
    schedule = Schedule.parse(text)
    expected = list(islice(walk_utc(read_cron(text), after), 5))

    assert first_few(schedule, after, 5) == expected
    assert schedule.never_fires == (next(walk_utc(read_cron(text), datetime(1969, 12, 31, tzinfo=UTC)), None) is None)


@examples(60)
@given(st.one_of(crons((5, 5, 7)), fixed_crons()), modes, zoned_instants())
def test_near_transitions_cron_equals_a_walk_along_the_clock(text: str, dst: str, zoned: tuple[str, datetime]) -> None:
    zone, near = zoned
    assume(near.year > 1973)  # Monrovia's offset held seconds until 1972
    cron = read_cron(text)
    assume(cron.seconds == {0})
    start = near.replace(second=0, microsecond=0) - timedelta(hours=30)
    end = near.replace(second=0, microsecond=0) + timedelta(hours=30)
    walk = Walk.through(zone, start - timedelta(hours=26), end + timedelta(hours=26), MINUTE)
    firings = [at for at in walk.firings(cron, dst) if start < at <= end]
    schedule = Schedule.parse(text, zone, dst)

    assert list(schedule.between(start, end)) == firings
    assert schedule.count(start, end) == len(firings)


@pytest.mark.parametrize("dst", ["once", "wall", "skip"])
@pytest.mark.parametrize("text", ["30 14 0 * * *", "0-59/10 0,30,44,45 0-2 7 * *", "*/9 */5 0 * 1 *"])
def test_offsets_with_seconds_follow_the_same_rule(text: str, dst: str) -> None:
    leap = datetime(1972, 1, 7, 0, 44, 30, tzinfo=UTC)  # Monrovia gave up -00:44:30
    start, end = leap - timedelta(hours=2), leap + timedelta(hours=2)
    walk = Walk.through("Africa/Monrovia", start - timedelta(hours=1), end + timedelta(hours=1), SECOND)
    firings = [at for at in walk.firings(read_cron(text), dst) if start < at <= end]

    assert list(Schedule.parse(text, "Africa/Monrovia", dst).between(start, end)) == firings


@examples(150)
@given(schedules, modes, zoned_instants())
def test_an_occurrence_has_its_nominal_local_time(text: str, dst: str, zoned: tuple[str, datetime]) -> None:
    zone, after = zoned
    schedule = Schedule.parse(text, zone, dst)
    occurrence = schedule.next_occurrence(after)
    assume(occurrence is not None)
    walk = Walk.through(zone, occurrence.at - timedelta(hours=25), occurrence.at, timedelta(hours=25))
    reading = walk.readings[-1]

    assert occurrence.at == schedule.next(after)
    assert occurrence.local < reading if occurrence.shifted else occurrence.local == reading


@examples(150)
@given(schedules, zones, modes)
def test_schedules_pickle_and_compare_equal(text: str, zone: str, dst: str) -> None:
    try:
        schedule = Schedule.parse(text, zone, dst)
    except ScheduleError:
        assume(False)  # `every … from` a local date that the zone lost
    copy = pickle.loads(pickle.dumps(schedule))

    assert copy == schedule
    assert hash(copy) == hash(schedule)
    assert copy != Schedule.parse("59 23 31 12 7 ", zone, dst)
    after = datetime(2026, 3, 1, tzinfo=UTC)
    assert copy.next(after) == schedule.next(after)


def test_an_error_pickles_with_its_details() -> None:
    with pytest.raises(ScheduleError) as caught:
        Schedule.parse("60 24 0 13 8")

    assert pickle.loads(pickle.dumps(caught.value)).errors == caught.value.errors
    assert len(caught.value.errors) == 5


class Calls:
    """Counts the calls, of Python and C functions, that are made inside a `with` block."""

    def __enter__(self) -> "Calls":
        self.made = 0
        self._outer = sys.getprofile()
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._outer)

    def _count(self, _frame: object, event: str, _argument: object) -> None:
        self.made += event in ("call", "c_call")


def calls_to_parse(text: str) -> int:
    """Count the calls it takes to parse a text or to refuse it with errors."""
    with Calls() as calls:
        try:
            schedule = Schedule.parse(text, name="job")
        except ScheduleError as error:
            schedule, errors = None, error.errors
    if schedule is None:
        assert errors
        assert all(len(detail.text) <= 40 for detail in errors)
    return calls.made


_numbers = ("0", "1", "59", "60", "1-5", "9999999999", "02-29", "20260101T000000")
_signs = ("*", "*/", "/", ",", "-", "#", "?", "+", "(", ")", ";", ":", "=", "@", "\n", "\0", "é", "\ud800")
_words = ("L", "LW", "W", "H", "MON", "FRI-SUN", "jan", "every", "at", "yearly", "from", "CRON_TZ=")
_lines = ("RRULE:", "DTSTART:", "FREQ=", "BYDAY=")
_pieces = st.sampled_from((*_numbers, *_signs, *_words, *_lines))
_rubbish = st.one_of(
    st.text(max_size=80),
    st.lists(st.one_of(_pieces, st.just(" "), st.just("\t")), max_size=60).map("".join),
    st.lists(_pieces, max_size=12).map(" ".join),
    st.builds(lambda piece, times: (piece * times)[:100_000], st.text(min_size=1, max_size=9), st.integers(1, 100_000)),
    st.builds(lambda piece, times: (piece * times)[:100_000], _pieces, st.integers(1, 100_000)),
    st.builds(
        lambda start, piece, times: start + (piece * times)[: 100_000 - len(start)],
        st.sampled_from(["RRULE:FREQ=DAILY;BYHOUR=", "RRULE:", "EXDATE:", "every ", "at ", "yearly ", "0 0 * * "]),
        _pieces,
        st.integers(1, 5_000),
    ),
)


@examples(250)
@given(_rubbish)
@example("1," * 50_000)
@example("RRULE:FREQ=DAILY;BYHOUR=" + "1," * 2_000)
@example("RRULE:" + ";" * 4_000)
@example("every " + "1s" * 250)
@example("every " + "1" * 500)
@example("0 0 " + "1W," * 160 + "1 * *")
@example("* * * * " + "MON#1," * 80)
@example("\n" * 100_000)
@example(" " * 100_000)
def test_any_text_is_read_or_refused_with_bounded_work(text: str) -> None:
    assert calls_to_parse(text) <= 3_000 + 60 * min(len(text), 4_096)


@examples(100)
@given(st.text(max_size=60), st.one_of(st.text(max_size=60), st.sampled_from(["\ud800", "europe/berlin", "../UTC"])))
@example("0 0 * * *", "x" * 100_000)
def test_any_timezone_is_known_or_refused(text: str, zone: str) -> None:
    with pytest.raises(ScheduleError):
        Schedule.parse(text, zone)


@examples(50)
@given(st.text(st.characters(), max_size=20))
@example("\ud800")
@example("")
def test_any_name_spreads_a_hashed_field_or_is_refused(name: str) -> None:
    try:
        schedule = Schedule.parse("H H(1-3) H * H/2", name=name)
    except ScheduleError:
        return

    assert read_cron(schedule.resolved).hours <= {1, 2, 3}


@examples(200)
@given(crons(), modes, zoned_instants())
@example("0 0 30 2 *", "once", ("Europe/Berlin", NEW_YORK_FOLD))
@example("* * * 30 2 *", "once", ("Europe/Berlin", NEW_YORK_FOLD))
@example("0 0 0 1 1 ? 1970", "wall", ("Europe/Berlin", NEW_YORK_FOLD))
def test_the_next_instant_is_found_without_searching(text: str, dst: str, zoned: tuple[str, datetime]) -> None:
    zone, at = zoned
    schedule = Schedule.parse(text, zone, dst)
    with Calls() as calls:
        schedule.next(at)
        schedule.previous(at)

    assert calls.made <= 4_000


def test_a_recurrence_with_many_times_a_day_is_walked_and_not_listed() -> None:
    hours, minutes = ",".join(map(str, range(24))), ",".join(map(str, range(60)))
    times = f"BYHOUR={hours};BYMINUTE={minutes};BYSETPOS=1"
    schedule = Schedule.parse(f"DTSTART:20260101T000000 RRULE:FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;{times}")
    with Calls() as calls:
        found = schedule.next(NEW_YORK_FOLD)

    assert found == datetime(2027, 1, 1, tzinfo=UTC)
    assert calls.made <= 60_000  # some calls for each day of a few years, none for each minute


@pytest.mark.parametrize("text", ["* * * * *", "* * * * * *", "0 0 1 1 *", "every 1s", "RRULE:FREQ=DAILY"])
def test_the_calendar_ends_without_falling_off(text: str) -> None:
    schedule = Schedule.parse(text, "Asia/Tokyo")

    assert schedule.next(datetime.min.replace(tzinfo=UTC)) is not None
    assert schedule.previous(datetime.max.replace(tzinfo=UTC)) is not None
    assert schedule.next(datetime(2200, 1, 3, tzinfo=UTC)) is None
    assert schedule.previous(datetime(1969, 12, 30, tzinfo=UTC)) is None
