"""The final accounting of a database: the instants that were due, and their runs and skips."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from hourbell.core.run.run import scheduled_run_id
from hourbell.core.run.states import ENDS
from hourbell.core.schedule import Schedule

Row = Mapping[str, Any]


def faults_of(job: Row, runs: Iterable[Row], skips: Iterable[Row]) -> list[str]:
    """Return errors in the account of a job that was never edited: each scheduled time must appear once."""
    schedule = Schedule.parse(job["schedule"], timezone=job["timezone"], name=job["name"])
    adopted_at, cursor_at = job["created_at"], job["cursor_at"]
    due = Counter(schedule.between(adopted_at, cursor_at))
    counts = Counter(run["scheduled_at"] for run in runs)
    faults = []
    for skip in skips:
        instants = _instants(schedule, skip)
        if len(instants) != skip["count"]:
            faults.append(f"a skip of {skip['count']} instants covers {len(instants)}")
        counts.update(instants)
    if due.total() != schedule.count(adopted_at, cursor_at):
        faults.append("the schedule counts differently than it walks")
    faults += [f"{at} has {number} places" for at, number in counts.items() if number > 1]
    faults += [f"{at} fell due and has no place" for at in due - counts]
    faults += [f"{at} has a place and never fell due" for at in counts - due]
    return [f"{job['name']}: {fault}" for fault in faults]


def wrong_ids(runs: Iterable[Row]) -> list[UUID]:
    """Scheduled runs whose id is not the one that follows from job and instant."""
    return [run["id"] for run in runs if run["id"] != scheduled_run_id(run["job_id"], run["scheduled_at"])]


def unfinished(runs: Iterable[Row]) -> list[Row]:
    return [run for run in runs if run["state"] not in ENDS]


def _instants(schedule: Schedule, skip: Row) -> list[datetime]:
    before_first = schedule.previous(skip["first_at"])
    assert before_first is not None
    return list(schedule.between(before_first, skip["last_at"]))
