"""Decisions on applying a bundle: all of it is written, or nothing if one job is refused."""

import hashlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.secret_headers import OriginChange
from hourbell.store.control.bundles import Applied, AppliedJob, Bundle, ImportResult, NewSecret
from hourbell.store.control.changes import ChangedJob, NewJob
from hourbell.store.control.importing import Step, Wanted, compared, decided, refuse_to_prune, result_of
from hourbell.store.control.secrets import HeadersByJob
from hourbell.store.rows import Progress, Row, job_of


@dataclass(frozen=True, slots=True)
class Comparison:
    """A bundle compared with the existing jobs, before their progress is read."""

    bundle: Bundle
    entries: Sequence[ImportResult | Wanted]
    found: Mapping[str, Row]
    undefined: Sequence[Row]
    state: str


class AuditEntry(NamedTuple):
    """One change for the audit."""

    action: str
    job_id: UUID
    before: Definition | None
    after: Definition | Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Decision:
    """The rows to write, and the answer once they are written."""

    new: Sequence[NewJob]
    changed: Sequence[ChangedJob]
    deleted: Sequence[UUID]
    applied: Applied

    @property
    def is_empty(self) -> bool:
        return not (self.new or self.changed or self.deleted)

    @property
    def paused_new(self) -> list[UUID]:
        """New jobs that are paused, by their owner."""
        return [job.job_id for job in self.new if not job.change.definition.enabled]

    def audit_entries(self, secrets: Sequence[NewSecret]) -> list[AuditEntry]:
        """Return one entry per changed job and secret, as if each had been changed by itself."""
        created = [AuditEntry("job.create", job.job_id, None, job.change.definition) for job in self.new]
        changed = [
            AuditEntry(_edit_action(each), each.job.id, each.job.definition, each.change.definition)
            for each in self.changed
        ]
        undefined = [
            AuditEntry("job.delete", job.id, job.definition, None) for job in self.applied.undefined if self.deleted
        ]
        put = [AuditEntry("secret.put", each.sealed.job_id, None, {"field": each.sealed.field}) for each in secrets]
        return [*created, *changed, *undefined, *put]


def of_other_programs(bundle: Bundle, rows: Iterable[Row]) -> list[UUID]:
    """Return the jobs that the bundle may take over if no live node defines them any more."""
    if bundle.heard_since is None:
        return []
    return [row["id"] for row in rows if row["managed_by"] == bundle.managed_by and row["source"] != bundle.source]


def compare(
    bundle: Bundle,
    rows: Sequence[Row],
    state: str,
    allowed: Callable[[Definition], Definition],
    may_change: Callable[[Definition], bool],
    abandoned: Container[UUID] = (),
) -> Comparison:
    """Compare a bundle with `rows`: the jobs with its names and, if it prunes, all jobs of its owner."""
    names = set(bundle.names)
    undefined = [row for row in rows if row["name"] not in names]
    refuse_to_prune(undefined, may_change)
    entries = compared(
        bundle.entries, rows, allowed, may_change, take_over=bundle.take_over, abandoned=abandoned, keep=bundle.keep
    )
    return Comparison(bundle, entries, {row["name"]: row for row in rows}, undefined, state)


def decide(
    comparison: Comparison,
    progress: Mapping[UUID, Progress],
    headers: HeadersByJob,
    moving: OriginChange,
    now: datetime,
) -> Decision:
    """Decide what to write; nothing if any job is refused."""
    bundle = comparison.bundle
    found = decided(comparison.entries, progress, headers, moving, now)
    steps = [_by_owner(step, bundle.owner) for step in found]
    new = sorted((step for step in steps if isinstance(step, NewJob)), key=lambda job: job.change.definition.name)
    changed = [step for step in steps if isinstance(step, ChangedJob)]
    undefined = tuple(job_of(row) for row in comparison.undefined)
    made = frozenset(job.job_id for job in new)
    applied = Applied(
        tuple(_applied(step, made, comparison.found) for step in steps),
        undefined,
        comparison.state,
    )
    return (
        Decision((), (), (), applied)
        if applied.refused
        else Decision(new, changed, [job.id for job in undefined], applied)
    )


def _by_owner(step: Step, owner: str) -> Step:
    """Return the step; if the new definition pauses the job, the owner is recorded as having paused it."""
    if isinstance(step, ChangedJob) and step.job.definition.enabled and not step.change.definition.enabled:
        return replace(step, paused_by=owner)
    return step


def _applied(step: Step, made: frozenset[UUID], found: Mapping[str, Row]) -> AppliedJob:
    result = result_of(step, made)
    match step:
        case NewJob():
            return AppliedJob(result, None, step.after)
        case ChangedJob():
            return AppliedJob(result, step.job, step.after)
    before: Job | None = job_of(found[result.name]) if result.job_id is not None else None
    return AppliedJob(result, before, before)


def _edit_action(step: ChangedJob) -> str:
    old, new = step.job.definition, step.change.definition
    return "job.edit" if (old.managed_by, old.source) == (new.managed_by, new.source) else "job.take_over"


def state_of(rows: Iterable[Row], secrets: Iterable[UUID], alerts: Iterable[str] = ()) -> str:
    """Return a hash of job versions, secrets and the states of channels and policies, which changes if any does."""
    jobs = sorted(f"{row['id']}:{row['version']}" for row in rows)
    return hashlib.sha256("\n".join([*jobs, "", *sorted(map(str, secrets)), *alerts]).encode()).hexdigest()[:32]
