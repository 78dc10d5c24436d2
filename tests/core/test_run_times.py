"""A run's trigger, whether it was planned late, and since when a node could have taken it."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest

from hourbell.core.run.run import Run, takeable_since, trigger_of, was_planned_late
from hourbell.core.run.states import Kind, RunState
from tests.core.values import DAY, HOUR, JOB, MICROSECOND, MINUTE, T0, a_definition

LATE_AFTER = 5 * MINUTE


def a_run(*, planned_at: datetime = T0, ready_at: datetime = T0, kind: Kind = Kind.SCHEDULED) -> Run:
    """A run for T0 of a job whose runs expire a day after they were planned."""
    expires_at = planned_at + DAY
    return Run(UUID(int=1), JOB, 1, kind, T0, ready_at, expires_at, RunState.PENDING, "task:a", 1, 0, 0)


@pytest.mark.parametrize(
    ("late", "is_late"), [(timedelta(0), False), (LATE_AFTER, False), (LATE_AFTER + MICROSECOND, True), (HOUR, True)]
)
def test_a_run_was_planned_late_if_it_took_longer_than_late_after(late: timedelta, is_late: bool) -> None:
    definition = a_definition(max_age=DAY, late_after=LATE_AFTER)
    run = a_run(planned_at=T0 + late)

    assert was_planned_late(run, definition) is is_late
    assert trigger_of(run, definition) == ("catch_up:0 * * * *" if is_late else "schedule:0 * * * *")


def test_a_run_that_no_schedule_made_is_triggered_by_its_kind() -> None:
    run = a_run(planned_at=T0 + HOUR, kind=Kind.MANUAL)

    assert trigger_of(run, a_definition(max_age=DAY)) == Kind.MANUAL.value


@pytest.mark.parametrize(
    ("planned_at", "ready_at", "takeable_at"),
    [(T0, T0 + MINUTE, T0 + MINUTE), (T0 + HOUR, T0 + MINUTE, T0 + HOUR), (T0, T0, T0)],
    ids=["waits for its jitter", "planned late", "on time"],
)
def test_a_node_could_take_a_run_when_it_was_both_ready_and_planned(
    planned_at: datetime, ready_at: datetime, takeable_at: datetime
) -> None:
    run = a_run(planned_at=planned_at, ready_at=ready_at)

    assert takeable_since(run, a_definition(max_age=DAY)) == takeable_at


def test_a_run_has_begun_nothing_and_has_no_payload_unless_it_says_so() -> None:
    run = a_run()

    assert (run.at_most_once, run.begun, run.has_payload) == (False, False, False)
