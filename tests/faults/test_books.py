"""The campaign's checks: each violation is found, and a correct history is accepted."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from hourbell.core.run.run import scheduled_run_id
from tests.faults.books import SETTLING, Books, check_books, percentile
from tests.faults.fleet import Cut, Life
from tests.faults.history import History, Step
from tests.faults.liveness import BEGIN_SECONDS
from tests.faults.receiver import Line
from tests.faults.verdict import Verdict

T0 = datetime(2026, 3, 2, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)
JOB = uuid4()
NODES = {"a": uuid4(), "b": uuid4()}


def good_books() -> Books:
    """Three instants of a job; the process of the second was killed in the middle, and another took over."""
    runs = [a_run(number, attempt=2 if number == 2 else 1) for number in (1, 2, 3)]
    lines = [
        *delivered(1, "a", at=1.0),
        *delivered(2, "a", at=2.0)[:1],
        *delivered(2, "b", at=6.0, attempt=2),
        *delivered(3, "b", at=3.0),
    ]
    outcomes = {
        (1, 1): ("a", "succeeded"),
        (2, 1): ("a", "lost"),
        (2, 2): ("b", "succeeded"),
        (3, 1): ("b", "succeeded"),
    }
    attempts = {
        (run_id(number), attempt): {"node": NODES[member], "outcome": outcome}
        for (number, attempt), (member, outcome) in outcomes.items()
    }
    job = {
        "id": JOB,
        "name": "job",
        "schedule": "* * * * * *",
        "timezone": "UTC",
        "created_at": T0,
        "cursor_at": T0 + 3 * SECOND,
        "overlap": "allow",
    }
    members = {node: name for name, node in NODES.items()}
    lives = [Life("a", -100.0, 7.0), Life("b", -100.0, 7.0)]
    return Books([job], runs, [], attempts, lines, [Cut("kill", "a", 2.05)], members, lives, -T0.timestamp())


def run_id(number: int) -> UUID:
    return scheduled_run_id(JOB, T0 + number * SECOND)


def a_run(number: int, *, attempt: int = 1) -> dict[str, object]:
    scheduled_at = T0 + number * SECOND
    return {
        "id": run_id(number),
        "job_id": JOB,
        "scheduled_at": scheduled_at,
        "ready_at": scheduled_at,
        "planned_at": scheduled_at,
        "state": "succeeded",
        "attempt": attempt,
        "crashes": attempt - 1,
    }


def delivered(number: int, member: str, *, at: float, attempt: int = 1) -> list[Line]:
    begun = Line("begun", run_id(number), JOB, T0 + number * SECOND, attempt, 1, member, at)
    return [begun, begun._replace(what="ended", at=at + 0.1)]


def broken(books: Books) -> list[str]:
    verdict = Verdict("", "sqlite")
    check_books(verdict, books)
    return [check.promise for check in verdict.checks if not check.holds]


def without_a_run(books: Books) -> Books:
    return replace(books, runs=books.runs[1:], lines=[line for line in books.lines if line.run_id != run_id(1)])


def with_a_failed_run(books: Books) -> Books:
    return replace(books, runs=[{**books.runs[0], "state": "failed"}, *books.runs[1:]])


def with_no_effect(books: Books) -> Books:
    return replace(books, lines=[line for line in books.lines if line.run_id != run_id(3)])


def with_another_id(books: Books) -> Books:
    other = uuid4()
    lines = [line._replace(run_id=other) if line.run_id == run_id(1) else line for line in books.lines]
    attempts = {(other if key[0] == run_id(1) else key[0], key[1]): row for key, row in books.attempts.items()}
    return replace(books, runs=[{**books.runs[0], "id": other}, *books.runs[1:]], lines=lines, attempts=attempts)


def with_an_effect_nobody_claimed(books: Books) -> Books:
    return replace(books, attempts={key: row for key, row in books.attempts.items() if key != (run_id(1), 1)})


def with_an_attempt_begun_twice(books: Books) -> Books:
    return replace(books, lines=[*books.lines, books.lines[0]])


def without_the_kill(books: Books) -> Books:
    return replace(books, cuts=[])


def with_the_kill_of_another(books: Books) -> Books:
    return replace(books, cuts=[Cut("kill", "b", 2.05)])


def with_the_kill_long_after(books: Books) -> Books:
    ended = delivered(2, "a", at=2.0)[1]
    return replace(books, lines=[*books.lines, ended], cuts=[Cut("kill", "a", 2.2 + SETTLING)])


def with_the_first_delivery_settled(books: Books) -> Books:
    settled = {**books.attempts[run_id(2), 1], "outcome": "succeeded"}
    return replace(books, attempts={**books.attempts, (run_id(2), 1): settled})


def with_a_late_beginning(books: Books) -> Books:
    """A delivery of the third run, long after it was due."""
    late = [line._replace(at=line.at + 2 * BEGIN_SECONDS) if line.run_id == run_id(3) else line for line in books.lines]
    return replace(books, lines=late, lives=[Life("b", -100.0, 100.0)])


@pytest.mark.parametrize(
    ("wrong", "promise"),
    [
        (with_a_late_beginning, "due runs that did not begin beside a healthy process"),
        (without_a_run, "instants without exactly one place"),
        (with_a_failed_run, "runs lost (failed, unfinished or without an effect)"),
        (with_no_effect, "runs lost (failed, unfinished or without an effect)"),
        (with_another_id, "runs planned twice"),
        (with_an_effect_nobody_claimed, "effects without a claimed attempt"),
        (with_an_attempt_begun_twice, "attempts begun twice"),
        (without_the_kill, "attempts lost by processes that no fault hit"),
        (without_the_kill, "repeated deliveries that no fault explains"),
        (with_the_kill_of_another, "repeated deliveries that no fault explains"),
        (with_the_kill_long_after, "repeated deliveries that no fault explains"),
        (with_the_first_delivery_settled, "repeated deliveries that no fault explains"),
    ],
)
def test_a_violated_promise_is_found(wrong: Callable[[Books], Books], promise: str) -> None:
    assert promise in broken(wrong(good_books()))


def test_a_correct_history_is_accepted() -> None:
    assert broken(good_books()) == []


@pytest.mark.parametrize(
    "cuts",
    [
        [Cut("freeze", "b", 2.0, 2.0 + 2 * BEGIN_SECONDS)],
        [Cut("outage", None, 2.0, 2.0 + 2 * BEGIN_SECONDS)],
        [Cut("freeze", "b", 3.5, 20.0), Cut("freeze", "b", 20.5, 40.0)],
    ],
)
def test_a_run_may_begin_late_while_no_process_is_healthy(cuts: list[Cut]) -> None:
    books = replace(with_a_late_beginning(good_books()), cuts=cuts)

    assert books.stuck() == []


def test_a_recovery_lasts_from_the_kill_to_the_next_delivery() -> None:
    assert good_books().recoveries() == [pytest.approx(6.0 - 2.05)]


def test_a_percentile_is_a_value_that_occurred() -> None:
    values = [float(number) for number in range(1, 101)]

    assert (percentile(values, 50), percentile(values, 99), percentile([], 99)) == (51.0, 100.0, 0.0)


MILLISECOND = timedelta(milliseconds=1)
EDITED = History(
    [
        Step(1, T0, T0, "* * * * * *"),
        Step(2, T0 + 2 * SECOND - MILLISECOND, T0 + 2 * SECOND + MILLISECOND, "*/2 * * * * *"),
        Step(3, T0 + 5 * SECOND, T0 + 5 * SECOND + MILLISECOND, "*/2 * * * * *", enabled=False),
        Step(4, T0 + 7 * SECOND, T0 + 7 * SECOND + MILLISECOND, "* * * * * *", reaches_back=True),
    ]
)


@pytest.mark.parametrize(
    ("second", "versions", "expected"),
    [
        (1, {1}, (1, 1)),
        (2, {1, 2}, (1, 1)),  # asked before it, answered after it
        (3, {2}, (0, 0)),
        (5, {2}, (0, 0)),  # due until the moment of the pause: still the old version's
        (6, {3, 4}, (1, 1)),  # in the pause, and caught up by what ended it
        (8, {4}, (1, 1)),
    ],
)
def test_an_instant_belongs_to_the_version_in_force(second: int, versions: set[int], expected: tuple[int, int]) -> None:
    instant = T0 + second * SECOND

    assert (EDITED.may_run_as(instant), EDITED.expected_counts(instant)) == (versions, expected)


def test_a_pause_lasts_from_its_answer_to_the_request_that_ends_it() -> None:
    assert EDITED.pauses() == [(T0 + 5 * SECOND + MILLISECOND, T0 + 7 * SECOND)]
