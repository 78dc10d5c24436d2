"""A year and two months of birthdays under virtual time, with two downtimes and a crash in the middle of a delivery.

It begins in a leap year and goes over the February of another. Nodes start shortly before each birthday and stop after
it, so that nothing rests on a process that lives long.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from examples.birthdays.load import Person

from tests.engine.nodes import HOUR, MINUTE, SECOND
from tests.engine.virtual import START
from tests.examples.greetings import Delivered, Greetings, birthdays, people, with_greetings

PEOPLE = 200
END = datetime(2041, 3, 2, tzinfo=UTC)
DOWNTIMES = (
    (datetime(2040, 7, 14, 6, tzinfo=UTC), datetime(2040, 7, 15, 6, tzinfo=UTC)),
    (datetime(2041, 2, 27, 22, tzinfo=UTC), datetime(2041, 3, 1, 12, tzinfo=UTC)),
)

Birthday = tuple[str, int]  # whose, and in which year


def born(number: int) -> date:
    """A tenth on 29 February, two tenths in each of the downtimes, the others any day."""
    match number % 10:
        case 0:
            return date(1992, 2, 29)
        case 1 | 2:
            return date(1980, 7, 14)
        case 3:
            return date(1985, 2, 28)
        case 4:
            return date(1985, 3, 1)
    return date(1990, 1, 1) + timedelta(days=number * 37 % 365)


def when_up(instant: datetime) -> datetime:
    """The instant itself, or the end of the downtime it fell into."""
    return next((end for begin, end in DOWNTIMES if begin < instant <= end), instant)


@dataclass
class Year:
    """The expected greetings, and the actual ones."""

    everybody: dict[str, Person]
    due: dict[Birthday, datetime]
    greeted: dict[Birthday, Delivered]
    delivered: list[Delivered]
    crashed_at: datetime
    states: Counter[str]
    warnings: list[logging.LogRecord]


@pytest.fixture(scope="module")
def year() -> Year:
    lived: list[Year] = []

    @with_greetings
    async def live(greetings: Greetings) -> None:
        everybody = people(PEOPLE, born)
        await greetings.load(everybody)
        due = {key: at for person in everybody for key, at in birthdays(person, START, END).items()}
        [(busiest, _)] = Counter(at for at in due.values() if when_up(at) == at).most_common(1)
        with warnings_of("hourbell.engine") as warnings:
            for moment in sorted({when_up(at) for at in due.values()}):
                if moment == busiest:
                    greetings.crash_after = next(person for (person, _), at in due.items() if at == moment)
                await greetings.serve_at(moment)
                if moment == busiest:
                    await greetings.serve_at(moment + 2 * MINUTE, until=MINUTE)
        lived.append(
            Year(
                {person.id: person for person in everybody},
                due,
                greetings.greeted,
                greetings.delivered,
                busiest,
                Counter(await greetings.cluster.states()),
                warnings,
            )
        )

    live()
    return lived[0]


@contextmanager
def warnings_of(name: str) -> Iterator[list[logging.LogRecord]]:
    records: list[logging.LogRecord] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = records.append  # type: ignore[method-assign, assignment]
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)


def test_everybody_is_greeted_once_for_each_birthday(year: Year) -> None:
    assert len(year.due) > PEOPLE
    assert year.greeted.keys() == year.due.keys()
    assert {key: each.scheduled_at for key, each in year.greeted.items()} == year.due
    assert year.states == {"succeeded": len(year.due)}
    assert len({each.run_id for each in year.delivered}) == len(year.due)


def test_a_greeting_comes_at_nine_where_the_person_lives(year: Year) -> None:
    on_time = {key: at for key, at in year.due.items() if when_up(at) == at and at != year.crashed_at}

    assert {key[1] for key in on_time} == {2040, 2041}
    for key in on_time:
        greeted_at = year.greeted[key].at.astimezone(ZoneInfo(year.everybody[key[0]].timezone))
        assert (greeted_at.hour, greeted_at.minute, greeted_at.second) == (9, 0, 0), key


def test_greetings_missed_during_a_downtime_are_sent_when_it_ends(year: Year) -> None:
    missed = {key: when_up(at) for key, at in year.due.items() if when_up(at) != at}

    assert Counter(missed.values()).keys() == {end for _, end in DOWNTIMES}
    assert all(abs(year.greeted[key].at - end) < 10 * SECOND for key, end in missed.items())


def test_a_person_born_on_29_february_is_greeted_on_the_last_of_february(year: Year) -> None:
    leaplings = [
        person for person in year.everybody.values() if (person.birthday.month, person.birthday.day) == (2, 29)
    ]

    assert len(leaplings) == PEOPLE // 10
    for person in leaplings:
        zone = ZoneInfo(person.timezone)
        days = [year.greeted[person.id, each].scheduled_at.astimezone(zone).date() for each in (2040, 2041)]
        assert days == [date(2040, 2, 29), date(2041, 2, 28)]


def test_a_delivery_cut_off_by_a_crash_comes_again_and_greets_nobody_twice(year: Year) -> None:
    again = [each for each in year.delivered if each.message is None]

    assert len(again) >= 1
    for each in again:
        first = year.greeted[each.person, each.year]
        assert first.run_id == each.run_id
        assert first.scheduled_at == year.crashed_at <= first.at < each.at


def test_the_message_is_made_of_the_fields_of_the_person(year: Year) -> None:
    assert year.greeted["p042", 2040].message == "Hey, Person 042 it's your birthday"


def test_a_greeting_over_an_hour_late_is_a_warning_with_who_when_and_how_late(year: Year) -> None:
    facts = [vars(record) for record in year.warnings if record.getMessage() == "run_very_late"]
    reported = {(each["run"], each["job"], each["scheduled_at"]): each for each in facts}
    late = {key: each for key, each in year.greeted.items() if each.at - each.scheduled_at > HOUR}

    assert len(reported) == len(facts) == len(late)
    for (person, _), each in late.items():
        fact = reported[each.run_id, f"birthday-{person}", each.scheduled_at.isoformat()]
        lateness = each.at - each.scheduled_at
        assert abs(datetime.fromisoformat(fact["started_at"]) - each.at) < SECOND
        assert fact["late_minutes"] == lateness // MINUTE
        assert abs(fact["late_hours"] - lateness / HOUR) <= 0.05
        assert fact["reason"] == "recovery from downtime"
