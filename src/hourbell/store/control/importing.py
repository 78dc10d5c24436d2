"""Decide what an import does with each job.

Of several entries with one name, the first counts. A job of another owner is refused, a pause stays, and a job that
does not differ is left alone.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from hourbell.core.alerts.channel import SYSTEM
from hourbell.core.job.change import created
from hourbell.core.job.definition import Definition
from hourbell.core.job.same import same_definition
from hourbell.core.job.secret_headers import OriginChange, header_name
from hourbell.core.job.target import TargetError
from hourbell.core.schedule import ScheduleError
from hourbell.store.control.bundles import APP, Imported, ImportResult, JobEntry, owner_text
from hourbell.store.control.changes import ChangedJob, NewJob, edited_job, with_lane
from hourbell.store.control.secrets import HeadersByJob
from hourbell.store.errors import Conflict, SystemJob
from hourbell.store.rows import Progress, Row, job_of


@dataclass(frozen=True, slots=True)
class Wanted:
    """A definition to write: for a new job, or for the job in the row."""

    definition: Definition
    job_id: UUID
    row: Row | None
    secret_fields: frozenset[str] = frozenset()


Step = ImportResult | NewJob | ChangedJob


def compared(
    entries: Sequence[JobEntry],
    rows: Iterable[Row],
    allowed: Callable[[Definition], Definition],
    may_change: Callable[[Definition], bool],
    *,
    take_over: bool = False,
    abandoned: Container[UUID] = (),
    keep: bool = False,
) -> list[ImportResult | Wanted]:
    """Compare each entry with the job of its name: refused and unchanged ones are settled, the others are to be
    written.

    `allowed` raises a TargetError for a target that this database cannot run. With `take_over`, jobs of other owners
    are treated like the owner's own, and so are those in `abandoned`. With `keep`, the owner's own are left alone.
    """
    found = {row["name"]: row for row in rows}
    seen: set[str] = set()
    results: list[ImportResult | Wanted] = []
    for entry in entries:
        name = entry.definition.name
        if name in seen:
            results.append(_refused(name, "duplicate_name", "the import has another job of this name before this one"))
            continue
        seen.add(name)
        row = found.get(name)
        found_job = _compared(entry, row, allowed, may_change, take_over=take_over, abandoned=abandoned, keep=keep)
        results.append(found_job)
    return results


def _compared(
    entry: JobEntry,
    row: Row | None,
    allowed: Callable[[Definition], Definition],
    may_change: Callable[[Definition], bool],
    *,
    take_over: bool,
    abandoned: Container[UUID],
    keep: bool,
) -> ImportResult | Wanted:
    name = entry.definition.name
    owner = owner_text(entry.definition.managed_by, entry.definition.source)
    theirs = owner if row is None else owner_text(row["managed_by"], row["source"])
    if row is not None and row["managed_by"] == SYSTEM:
        conflict = SystemJob()
        return _refused(name, conflict.code, str(conflict))
    is_abandoned = row is not None and row["id"] in abandoned
    if theirs != owner and not take_over and not is_abandoned:
        message = f"the job belongs to {theirs}; delete it there, or use another name"
        return ImportResult(name, Imported.REFUSED, code="owned_by_another", message=message, owner=theirs)
    if row is not None and keep and theirs == owner:
        return ImportResult(name, Imported.UNCHANGED, row["id"], row["version"])
    try:
        definition = allowed(with_lane(entry.definition))
    except TargetError as error:
        return _refused(name, "target_refused", str(error))
    if row is None:
        return Wanted(definition, entry.job_id, None, entry.secret_fields)
    job = job_of(row)
    if entry.definition.managed_by == APP:
        own_pauses: tuple[str, ...] = ()  # the program called `pause`, and it calls `resume`
    else:
        own_pauses = (owner, theirs) if is_abandoned else (owner,)
    if definition.enabled and not job.definition.enabled and row["paused_by"] not in own_pauses:
        definition = replace(definition, enabled=False)  # a pause by somebody else stays
    if job.error is None and same_definition(definition, job.definition):
        return ImportResult(name, Imported.UNCHANGED, job.id, job.version)
    if not may_change(job.definition):
        return _refused(name, "not_allowed", "your role is not enough to change this job")
    return Wanted(definition, job.id, row, entry.secret_fields)


def rows_to_change(entries: Iterable[ImportResult | Wanted]) -> list[Row]:
    """Return the jobs that get another definition: their progress and secret headers must be read."""
    return [each.row for each in entries if isinstance(each, Wanted) and each.row]


def decided(
    compared_entries: Iterable[ImportResult | Wanted],
    progress: Mapping[UUID, Progress],
    headers: HeadersByJob,
    moving: OriginChange,
    now: datetime,
) -> list[Step]:
    """Decide on the definitions to write: new jobs and edits, or refusals."""
    return [
        each if isinstance(each, ImportResult) else _decided(each, progress, headers, moving, now)
        for each in compared_entries
    ]


def _decided(
    wanted: Wanted, progress: Mapping[UUID, Progress], headers: HeadersByJob, moving: OriginChange, now: datetime
) -> Step:
    name = wanted.definition.name
    try:
        if wanted.row is None:
            return NewJob(wanted.job_id, created(wanted.definition, now))
        job = job_of(wanted.row, progress.get(wanted.job_id))
        given = frozenset(filter(None, map(header_name, wanted.secret_fields)))
        of_job = headers.get(wanted.job_id, ())
        return edited_job(wanted.row, job, wanted.definition, now, of_job, replace(moving, given=given))
    except Conflict as conflict:
        return _refused(name, conflict.code, str(conflict))
    except ScheduleError as error:
        return _refused(name, "schedule_refused", str(error))


def result_of(step: Step, made: frozenset[UUID]) -> ImportResult:
    """Return the result of a step; `made` holds the jobs that are new."""
    if isinstance(step, ImportResult):
        return step
    if isinstance(step, ChangedJob):
        return ImportResult(step.change.definition.name, Imported.CHANGED, step.job.id, step.job.version + 1)
    name = step.change.definition.name
    if step.job_id not in made:
        return _refused(name, "id_taken", "another job has, or had, the id that this one was to get")
    return ImportResult(name, Imported.CREATED, step.job_id, 1)


def refuse_to_prune(rows: Iterable[Row], may_change: Callable[[Definition], bool]) -> None:
    """Raise a Conflict if one of the jobs in the rows may not be changed."""
    for row in rows:
        if not may_change(job_of(row).definition):
            raise Conflict("not_allowed", f"your role is not enough to delete the job {row['name']}")


def count_results(results: Iterable[ImportResult]) -> dict[str, int]:
    """Count the jobs of each result, for the audit."""
    return Counter(result.result.value for result in results)


def _refused(name: str, code: str, message: str) -> ImportResult:
    return ImportResult(name, Imported.REFUSED, code=code, message=message)
