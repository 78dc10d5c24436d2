"""The cost of a recurrence: no text of 4,096 characters may make one answer take long, or take much memory."""

import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from hourbell.core.schedule import Schedule

EVERY_HOUR = ",".join(map(str, range(24)))
EVERY_MINUTE = f"BYHOUR={EVERY_HOUR};BYMINUTE={','.join(map(str, range(60)))}"
EVERY_DAY = ",".join(map(str, range(1, 367)))
WEEK = "SU,MO,TU,WE,TH,FR,SA"
NEW_YEAR, NEW_YEARS_EVE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 12, 31, tzinfo=UTC)
MAX_RATIO = 20


def seconds_of(call: Callable[[], object]) -> float:
    """The processor time of a call, the least of several."""
    found = []
    for _ in range(3):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return max(min(found), 1e-4)


@pytest.mark.parametrize(
    "rule", [f"FREQ=YEARLY;BYYEARDAY={EVERY_DAY}", f"FREQ=MONTHLY;BYDAY={WEEK}", f"FREQ=WEEKLY;BYDAY={WEEK}"]
)
def test_the_end_of_a_period_costs_no_more_than_its_beginning(rule: str) -> None:
    many, one = (Schedule.parse(f"RRULE:{rule};{times}") for times in (EVERY_MINUTE, "BYHOUR=0"))
    early = NEW_YEAR - timedelta(seconds=1)

    assert many.next(NEW_YEARS_EVE) == NEW_YEARS_EVE + timedelta(minutes=1)
    assert seconds_of(lambda: many.next(NEW_YEARS_EVE)) < MAX_RATIO * seconds_of(lambda: one.next(NEW_YEARS_EVE))
    assert many.previous(NEW_YEAR + timedelta(minutes=1)) == NEW_YEAR
    assert seconds_of(lambda: many.previous(NEW_YEARS_EVE)) < MAX_RATIO * seconds_of(lambda: one.previous(early))


def test_days_that_are_taken_out_are_not_walked_time_by_time() -> None:
    days = ",".join(f"{NEW_YEAR + timedelta(days=number):%Y%m%d}" for number in range(380))
    many, one = (Schedule.parse(f"RRULE:FREQ=DAILY;{times} EXDATE:{days}") for times in (EVERY_MINUTE, "BYHOUR=0"))

    assert many.next(NEW_YEAR) == one.next(NEW_YEAR) == NEW_YEAR + timedelta(days=380)
    assert seconds_of(lambda: many.next(NEW_YEAR)) < MAX_RATIO * seconds_of(lambda: one.next(NEW_YEAR))


def test_a_rule_that_counts_keeps_no_list_of_what_it_counted() -> None:
    def bytes_kept(count: int) -> int:
        schedule = Schedule.parse(f"DTSTART:20260101T000000 RRULE:FREQ=DAILY;COUNT={count}")
        tracemalloc.start()
        try:
            assert schedule.next(NEW_YEAR) == NEW_YEAR + timedelta(days=1)
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    few, many = bytes_kept(10), bytes_kept(10_000)
    assert many < 2 * few + 10_000


def test_a_rule_that_counts_ends_with_its_last_instant_however_far_apart_they_are() -> None:
    decades = Schedule.parse("DTSTART:20260101T000000 RRULE:FREQ=YEARLY;INTERVAL=20;COUNT=3")
    last = datetime(2066, 1, 1, tzinfo=UTC)

    assert decades.previous(datetime(2199, 1, 1, tzinfo=UTC)) == last
    assert decades.count(datetime(2020, 1, 1, tzinfo=UTC), datetime(2199, 1, 1, tzinfo=UTC)) == 3
