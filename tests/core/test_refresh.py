"""Replanning of a job with newer time-zone data."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from hourbell.core.job.definition import Definition, Job
from hourbell.core.run.refresh import refresh
from hourbell.core.run.states import SkipReason

NINE = datetime(2026, 6, 1, 9, tzinfo=UTC)
DAY = timedelta(days=1)


def a_job(*, cursor_at: datetime, next_at: datetime | None, **more: object) -> Job:
    definition = Definition("daily", "0 9 * * *", {"type": "task", "name": "a"}, **more)  # type: ignore[arg-type]
    return Job(UUID(int=1), 1, definition, cursor_at, next_at, next_at)


def test_a_job_whose_next_instant_stays_is_left_alone() -> None:
    assert refresh(a_job(cursor_at=NINE, next_at=NINE + DAY), served=NINE.replace(tzinfo=None)) is None


def test_a_job_whose_next_instant_moved_is_replanned() -> None:
    job = a_job(cursor_at=NINE, next_at=NINE + DAY + timedelta(hours=1))

    moved = refresh(job, served=NINE.replace(tzinfo=None))

    assert moved is not None
    assert (moved.next_at, moved.plan_at, moved.cursor_at, moved.skips) == (NINE + DAY, NINE + DAY, NINE, ())


def test_a_local_time_that_was_served_does_not_fire_again() -> None:
    an_hour_early = a_job(cursor_at=NINE - timedelta(hours=1), next_at=NINE + DAY - timedelta(hours=1))

    moved = refresh(an_hour_early, served=NINE.replace(tzinfo=None))

    assert moved is not None
    assert [(skip.first_at, skip.count, skip.reason) for skip in moved.skips] == [(NINE, 1, SkipReason.TZDATA)]
    assert (moved.cursor_at, moved.next_at) == (NINE, NINE + DAY)


@pytest.mark.parametrize(
    "change",
    [{"enabled": False}, {"cursor_at": None}, {"error": "it cannot be planned"}],
    ids=["paused", "not adopted yet", "in error"],
)
def test_a_job_that_is_not_planned_is_left_alone(change: dict[str, Any]) -> None:
    moved = a_job(cursor_at=NINE, next_at=NINE + DAY + timedelta(hours=1))
    assert refresh(moved, None) is not None

    still = replace(moved, definition=replace(moved.definition, enabled=change.pop("enabled", True)), **change)

    assert refresh(still, None) is None


def test_a_job_whose_schedule_cannot_be_read_any_more_says_so() -> None:
    broken = a_job(cursor_at=NINE, next_at=NINE + DAY, timezone="Europe/Nowhere")

    found = refresh(broken, None)

    assert found is not None
    assert (found.cursor_at, found.next_at, found.plan_at) == (NINE, None, None)
    assert "unknown time zone 'Europe/Nowhere'" in str(found.error)
