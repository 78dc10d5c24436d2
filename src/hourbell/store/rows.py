"""Rows to values and back, where both databases agree. A row is a mapping from column names."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from hourbell.core.body_reader import BodyError
from hourbell.core.definition_json import definition_to_json, retry_from_json
from hourbell.core.job import Definition, Job, Json
from hourbell.core.plan import Plan, Skip
from hourbell.core.policies import RETRY_PRESETS, CatchUp, Delivery, Overlap, Priority, RetryPolicy
from hourbell.core.run import NewRun, Run
from hourbell.core.schedule import Schedule
from hourbell.core.settle import Cancelled, Failed, Interrupted, Lost, Outcome, Succeeded, Unstarted
from hourbell.core.states import Kind, RunState
from hourbell.core.tags import readable_tags, tag_faults
from hourbell.core.target import lane_of
from hourbell.sealing import Sealed

Row = Mapping[str, Any]
UNREADABLE = (ValueError, RecursionError)  # what a row that makes no sense, or is nested too deep, raises

_NOT_READ: Json = MappingProxyType({})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

KINDS = {kind.value: kind for kind in Kind}
_RUNNING, _NOT_BEGUN = RunState.RUNNING, False
OUTCOMES: dict[type[Outcome], str] = {
    Succeeded: "succeeded",
    Failed: "failed",
    Lost: "lost",
    Interrupted: "interrupted",
    Unstarted: "unstarted",
    Cancelled: "cancelled",
}


def definition_of(row: Row) -> Definition:
    """The definition in a row of `jobs`; it raises what is UNREADABLE if somebody wrote one that makes no sense."""
    target = json.loads(row["target"])
    if row["payload"] is not None:
        json.loads(row["payload"])
    _check_tags(row)
    return _definition(row, target, lane_of(target), retry_from_json(json.loads(row["retry"])))


def error_in(row: Row) -> str:
    """Everything that keeps a row of `jobs` from being planned, on one line."""
    readers: tuple[Callable[[], object], ...] = (
        lambda: Schedule.parse(row["schedule"], row["timezone"], row["dst"], row["name"]),
        lambda: lane_of(json.loads(row["target"])),
        lambda: None if row["payload"] is None else json.loads(row["payload"]),
        lambda: retry_from_json(json.loads(row["retry"])),
        lambda: _check_tags(row),
    )
    found = []
    for read in readers:
        try:
            read()
        except Exception as error:  # whatever it is, it must spare the other jobs
            found.append(str(error) or type(error).__name__)
    return "; ".join(found)


def _check_tags(row: Row) -> None:
    if faults := list(tag_faults(row["tags"])):
        raise BodyError(faults)


def _readable(text: str, otherwise: Any) -> Any:
    try:
        return json.loads(text)
    except UNREADABLE:
        return otherwise


def _definition_as_far_as_it_goes(row: Row) -> Definition:
    """The definition; where the row makes no sense it has no lane, and instead of what cannot be read the default."""
    try:
        return definition_of(row)
    except UNREADABLE:
        return _definition(row, _readable(row["target"], {}), "", _retry_of(row["retry"]))


def _definition(row: Row, target: Json, lane: str, retry: RetryPolicy) -> Definition:
    return Definition(
        name=row["name"],
        schedule=row["schedule"],
        target=target,
        timezone=row["timezone"],
        dst=row["dst"],
        payload=None if row["payload"] is None else _readable(row["payload"], None),
        description=row["description"],
        catch_up=CatchUp(row["catch_up"]),
        catch_up_window=row["catch_up_window"],
        overlap=Overlap(row["overlap"]),
        retry=retry,
        delivery=Delivery(row["delivery"]),
        max_age=row["max_age"],
        late_after=row["late_after"],
        priority=Priority(row["priority"]),
        jitter=row["jitter"],
        starts_at=row["starts_at"],
        ends_at=row["ends_at"],
        enabled=bool(row["enabled"]),
        tags=readable_tags(row["tags"]),
        lane=lane,
        managed_by=row["managed_by"],
        source=row["source"],
    )


@dataclass(frozen=True, slots=True)
class Progress:
    """What the runs and skips of a job say about it."""

    waiting: int = 0
    unfinished: int = 0
    newest_at: datetime | None = None


_NO_PROGRESS = Progress()


def progress_by_job(unfinished: Iterable[Row], newest: Iterable[Row]) -> dict[UUID, Progress]:
    """The progress of each job that has made some, from its unfinished runs and its newest instant."""
    newest_of = {row["id"]: row["newest_at"] for row in newest}
    found = {row["id"]: Progress(row["waiting"], row["unfinished"], newest_of.get(row["id"])) for row in unfinished}
    return {job_id: Progress(newest_at=at) for job_id, at in newest_of.items()} | found


def without_cursor(rows: Iterable[Row]) -> list[UUID]:
    """The jobs to adopt. Only for them does it matter how far they got before."""
    return [row["id"] for row in rows if row["cursor_at"] is None]


def job_of(row: Row, progress: Progress | None = None) -> Job:
    """The job in a row, also if it cannot be planned: people must be able to see, mend and delete it."""
    return _job(row, _definition_as_far_as_it_goes(row), progress or Progress())


def shown_job_of(row: Row) -> Job:
    """The job in a row as lists show it: the lane is the one that was written down, and nothing is checked again."""
    target = _readable(row["target"], {})
    return _job(row, _definition(row, target, row["lane"], _retry_of(row["retry"])), Progress())


@lru_cache(256)
def _retry_of(text: str) -> RetryPolicy:
    try:
        return retry_from_json(json.loads(text))
    except UNREADABLE:
        return RETRY_PRESETS["default"]


@lru_cache(10_000)  # jobs that are due together are often alike, and each to itself the next time
def _rules_of(text: str) -> tuple[Any, ...]:
    """What planning needs of a definition whose version is written down, as the fields after the name."""
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


def _job(row: Row, definition: Definition, progress: Progress) -> Job:
    return Job(
        row["id"],
        row["version"],
        definition,
        row["cursor_at"],
        row["next_at"],
        row["plan_at"],
        row["error"],
        row["paused_until"],
        progress.waiting,
        progress.unfinished,
        progress.newest_at,
    )


def _due_job(row: Sequence[Any], progress: Progress) -> Job:
    """A due job whose version is written down, so that it has no error and no pause, with what planning needs of it."""
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


def run_of(row: Row) -> Run:
    return Run(
        id=row["id"],
        job_id=row["job_id"],
        job_version=row["job_version"],
        kind=Kind(row["kind"]),
        scheduled_at=row["scheduled_at"],
        ready_at=row["ready_at"],
        expires_at=row["expires_at"],
        state=RunState(row["state"]),
        lane=row["lane"],
        attempt=row["attempt"],
        failures=row["failures"],
        crashes=row["crashes"],
        started_at=row["started_at"],
        at_most_once=bool(row["at_most_once"]),
        begun=row["begun_attempt"] == row["attempt"],
        payload=None if row["payload"] is None else _readable(row["payload"], None),
        has_payload=row["payload"] is not None,
    )


def claimed_runs_of(rows: Iterable[Sequence[Any]], now: datetime) -> list[Run]:
    """Runs that were just claimed, by their columns in their order: each is running, and its effect has not begun.

    One that began with this claim names no start of its own. By their constructor they would take half as long again.
    """
    make = tuple.__new__
    # fmt: off
    return [
        make(Run, (run_id, job_id, version, KINDS[kind], scheduled_at, ready_at, expires_at, _RUNNING, lane, attempt,
                   failures, crashes, started_at or now, at_most_once, _NOT_BEGUN,
                   None if payload is None else payload_of(payload), payload is not None))
        for run_id, job_id, version, kind, scheduled_at, ready_at, expires_at, lane, attempt, failures, crashes,
            started_at, at_most_once, payload in rows
    ]
    # fmt: on


def payload_of(text: str | None) -> object:
    """A run's own payload, as far as it can be read."""
    return None if text is None else _readable(text, None)


def secrets_of(rows: Iterable[Row]) -> dict[UUID, tuple[Sealed, ...]]:
    """Secrets by job, in the order of the rows."""
    found: dict[UUID, list[Sealed]] = {}
    for row in rows:
        found.setdefault(row["job_id"], []).append(sealed_of(row))
    return {job_id: tuple(secrets) for job_id, secrets in found.items()}


def sealed_of(row: Row) -> Sealed:
    return Sealed(row["id"], row["job_id"], row["field"], row["key_id"], bytes(row["sealed"]))


def result_of(outcome: Outcome) -> str | None:
    """What a run keeps of its outcome, as JSON text."""
    result = outcome.result if isinstance(outcome, (Succeeded, Failed)) else None
    return None if result is None else json.dumps(result)


def definition_text(definition: Definition) -> str:
    return json.dumps(definition_to_json(definition))


class RunRow(NamedTuple):
    """A run to insert, with what it takes from its job."""

    job_id: UUID
    job_version: int
    run: NewRun
    lane: str
    exclusive: bool
    at_most_once: bool
    payload: str | None = None

    @classmethod
    def of(cls, job: Job, run: NewRun, payload: object = None) -> "RunRow":
        definition = job.definition
        return cls(
            job.id,
            job.version,
            run,
            definition.lane,
            definition.overlap is not Overlap.ALLOW,
            definition.delivery is Delivery.AT_MOST_ONCE,
            None if payload is None else json.dumps(payload),
        )


@dataclass(frozen=True, slots=True)
class Broken:
    """A job that cannot be planned."""

    id: UUID
    name: str
    error: str

    @classmethod
    def of(cls, job_id: UUID, name: str, error: Exception) -> "Broken":
        return cls(job_id, name, str(error) or type(error).__name__)


@dataclass(frozen=True, slots=True)
class Due:
    """The due jobs of one pass: those that can be read, and what is wrong with the others."""

    jobs: tuple[Job, ...]
    broken: tuple[Broken, ...]
    unsaved: frozenset[UUID]  # whose version nobody wrote down yet

    @classmethod
    def of(cls, rows: Iterable[Sequence[Any]], whole: Mapping[UUID, Row], progress: Mapping[UUID, Progress]) -> "Due":
        """The jobs in rows of `due_jobs`, by their columns in their order, and the whole rows of those that are needed
        whole: the version is to be written down, or may be if a pause ends. What one that is written down says of the
        target was checked then."""
        jobs, broken, unsaved = [], [], set()
        for row in rows:
            job_id, name, version = row[0], row[1], row[2]
            standing = progress.get(job_id, _NO_PROGRESS)
            try:
                if job_id not in whole:
                    jobs.append(_due_job(row, standing))
                    continue
                if whole[job_id]["saved_version"] != version:
                    unsaved.add(job_id)
                jobs.append(_job(whole[job_id], definition_of(whole[job_id]), standing))
            except UNREADABLE as error:
                told = error_in(whole[job_id]) if job_id in whole else ""
                broken.append(Broken(job_id, name, told) if told else Broken.of(job_id, name, error))
        return cls(tuple(jobs), tuple(broken), frozenset(unsaved))

    def __len__(self) -> int:
        return len(self.jobs) + len(self.broken)

    def decided(self, now: datetime, decide: Callable[[Job, datetime], Plan]) -> tuple[list[Plan], list[Broken]]:
        """The plan of each job, and what is broken: a rule that fails for one job must spare the others."""
        plans, broken = [], list(self.broken)
        for job in self.jobs:
            try:
                plans.append(decide(job, now))
            except Exception as error:
                broken.append(Broken.of(job.id, job.definition.name, error))
        return plans, broken


@dataclass(frozen=True, slots=True)
class Batch:
    """The plans of one pass, sorted by what is to be written."""

    plans: tuple[Plan, ...]

    @property
    def runs(self) -> list[RunRow]:
        return [RunRow.of(plan.job, run) for plan in self.plans for run in plan.runs]

    @property
    def skips(self) -> list[tuple[UUID, Skip]]:
        return [(plan.job.id, skip) for plan in self.plans for skip in plan.skips]

    def versions(self, unsaved: Collection[UUID]) -> list[tuple[UUID, int, str]]:
        """Id, version and definition of each job whose version is to be written down."""
        return [
            (plan.job.id, plan.job.version + plan.resumes, definition_text(_as_planned(plan)))
            for plan in self.plans
            if plan.resumes or plan.job.id in unsaved
        ]

    def unasked(self, unsaved: Collection[UUID]) -> list[tuple[UUID, int, str, str, str]]:
        """The changes that came by no call, for the audit: by plain SQL, or by a pause that is over. Of each the id,
        version and definition, who made it, and the id as text."""
        by_sql = [
            (plan.job.id, plan.job.version, definition_text(plan.job.definition), "sql", str(plan.job.id))
            for plan in self.plans
            if plan.job.id in unsaved
        ]
        return by_sql + [
            (plan.job.id, plan.job.version + 1, definition_text(_as_planned(plan)), "engine", str(plan.job.id))
            for plan in self.plans
            if plan.resumes
        ]

    @property
    def superseding(self) -> list[Plan]:
        return [plan for plan in self.plans if plan.cancels_others]

    @property
    def skipped(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for _, skip in self.skips:
            counts[skip.reason] = counts.get(skip.reason, 0) + skip.count
        return counts

    @property
    def errors(self) -> tuple[tuple[str, str], ...]:
        return tuple((plan.job.definition.name, plan.error) for plan in self.plans if plan.error)


def _as_planned(plan: Plan) -> Definition:
    return replace(plan.job.definition, enabled=True) if plan.resumes else plan.job.definition


def columns(rows: Iterable[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Rows turned into arrays, one for each column, also if there are none."""
    turned = [list(column) for column in zip(*rows, strict=True)]
    return turned or [[] for _ in range(width)]
