"""The due jobs of a planning pass as read from the database, with the fields that planning needs, and errors."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from uuid import UUID

from hourbell.core.job.definition import Definition, Job, Json
from hourbell.core.run.plan import Plan
from hourbell.core.run.policies import CatchUp, Delivery, Overlap, Priority
from hourbell.store.rows import UNREADABLE, Progress, Row, definition_of, error_in, job_with, superseded_job_of

_NOT_READ: Json = MappingProxyType({})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_PROGRESS = Progress()


@dataclass(frozen=True, slots=True)
class Broken:
    """A job that cannot be planned, or a superseded version of it, identified by its change."""

    id: UUID
    name: str
    error: str
    change_id: int | None = None

    @classmethod
    def of(cls, job: Job, error: Exception) -> "Broken":
        return cls(job.id, job.definition.name, _text_of(error), job.change_id)


def _text_of(error: Exception) -> str:
    return str(error) or type(error).__name__


def job_errors(broken: Iterable[Broken]) -> list[tuple[UUID, str]]:
    """The jobs that get an error."""
    return [(each.id, each.error) for each in broken if each.change_id is None]


def change_errors(broken: Iterable[Broken]) -> list[tuple[int, UUID, str]]:
    """The changes whose superseded version cannot be planned. The next pass skips the due times of that version."""
    return [(each.change_id, each.id, each.error) for each in broken if each.change_id is not None]


@dataclass(frozen=True, slots=True)
class Due:
    """The due jobs of one pass: the readable ones, and the errors of the others."""

    jobs: tuple[Job, ...]
    broken: tuple[Broken, ...]
    unsaved: Mapping[UUID, datetime]  # not stored yet, with the start of their validity
    has_changes: bool  # some are superseded versions

    @classmethod
    def of(
        cls,
        rows: Iterable[Sequence[Any]],
        whole: Mapping[UUID, Row],
        changes: Mapping[UUID, Row],
        progress: Mapping[UUID, Progress],
    ) -> "Due":
        """Read jobs from the rows of `due_jobs`, by column position, and from whole rows where those are needed.

        A whole row is needed if the version has to be stored, or may have to be when a pause ends. The target of a
        stored version was validated when it was stored. A job that was changed by plain SQL is read as it was before
        its oldest remaining change.
        """
        jobs, broken, unsaved = [], [], {}
        for row in rows:
            job_id, name, version = row[0], row[1], row[2]
            standing = progress.get(job_id, _NO_PROGRESS)
            try:
                if job_id not in whole:
                    jobs.append(_due_job(row, standing))
                    continue
                if job_id in changes:
                    change = changes[job_id]
                    jobs.append(superseded_job_of(whole[job_id], change, standing))
                    if change["saved_version"] != change["version"]:
                        unsaved[job_id] = change["updated_at"]
                    continue
                if whole[job_id]["saved_version"] != version:
                    unsaved[job_id] = whole[job_id]["updated_at"]
                jobs.append(job_with(whole[job_id], definition_of(whole[job_id]), standing))
            except UNREADABLE as error:
                message = error_in(whole[job_id]) if job_id in whole else ""
                broken.append(Broken(job_id, name, message or _text_of(error)))
        return cls(tuple(jobs), tuple(broken), unsaved, bool(changes))

    def __len__(self) -> int:
        return len(self.jobs) + len(self.broken)

    def decided(self, now: datetime, decide: Callable[[Job, datetime], Plan]) -> tuple[list[Plan], list[Broken]]:
        """Plan each job. An exception from one job is recorded as its error and does not affect the others."""
        plans, broken = [], list(self.broken)
        for job in self.jobs:
            try:
                plans.append(decide(job, now))
            except Exception as error:
                broken.append(Broken.of(job, error))
        return plans, broken


def _due_job(row: Sequence[Any], progress: Progress) -> Job:
    """Build a due job whose version is stored, so it has no error and no pause."""
    job_id, name, version, cursor_at, next_at, plan_at, _, rules, *_ = row
    return Job(
        job_id,
        version,
        Definition(name, *_rules_of(rules)),
        cursor_at,
        next_at,
        plan_at,
        None,
        None,
        progress.waiting,
        progress.unfinished,
        progress.newest_at,
    )


@lru_cache(10_000)  # Jobs that are due together are often alike, and so is one job from pass to pass.
def _rules_of(text: str) -> tuple[Any, ...]:
    """Return the fields that planning needs of a definition whose version is stored, in order after the name."""
    schedule, timezone, dst, catch_up, window, overlap, delivery, max_age, late_after, *rest = json.loads(text)
    priority, jitter, starts_at, ends_at, lane = rest
    rules = Definition(
        name="",
        schedule=schedule,
        target=_NOT_READ,
        timezone=timezone,
        dst=dst,
        catch_up=CatchUp(catch_up),
        catch_up_window=_duration_of(window),
        overlap=Overlap(overlap),
        delivery=Delivery(delivery),
        max_age=timedelta(microseconds=max_age),
        late_after=timedelta(microseconds=late_after),
        priority=Priority(priority),
        jitter=timedelta(microseconds=jitter),
        starts_at=_instant_of(starts_at),
        ends_at=_instant_of(ends_at),
        lane=lane,
    )
    return tuple(getattr(rules, each.name) for each in fields(rules))[1:]


def _duration_of(microseconds: int | None) -> timedelta | None:
    return None if microseconds is None else timedelta(microseconds=microseconds)


def _instant_of(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else _EPOCH + timedelta(microseconds=microseconds)
