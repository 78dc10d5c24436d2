"""Checks of single runs: their ids, and states that the engine never produces."""

from collections.abc import Iterable, Iterator

from hourbell.core.doctor import catalog
from hourbell.core.doctor.facts import HeldRun, RunFacts
from hourbell.core.doctor.findings import Defect
from hourbell.core.doctor.repairs import Dialect
from hourbell.core.run.run import is_scheduled_run_id
from hourbell.core.run.states import ENDS, UNFINISHED, WAITING, Kind, Reason, RunState

PLANNED = (Kind.SCHEDULED, Kind.BACKFILL)


def check_run(run: RunFacts, dialect: Dialect) -> Iterator[Defect]:
    """Report all defects of one run."""
    if run.kind in PLANNED and not is_scheduled_run_id(run.id, run.job_id, run.scheduled_at):
        yield Defect(catalog.RUN_ID_WRONG, f"{_row(run)}, {run.scheduled_at.isoformat()}", (dialect.cancel(run.id),))
    if run.newest_attempt > _highest(run):
        sql = dialect.set_attempt(run.id, run.newest_attempt + (run.state == RunState.RUNNING))
        numbers = f"attempt {run.newest_attempt} on record, the run is at {run.attempt}"
        yield Defect(catalog.ATTEMPT_AHEAD, f"{_row(run)}: {numbers}", (sql,) if run.state in UNFINISHED else ())
    if run.state in UNFINISHED:
        yield from _check_unfinished(run, dialect)
    elif run.state in ENDS:
        yield from _check_ended(run, dialect)


def _row(run: RunFacts) -> str:
    return f"run {run.id} of job {run.job_name or run.job_id}, {run.state}"


def _highest(run: RunFacts) -> int:
    """Return the highest number that a stored attempt may have: an attempt in progress is stored when it ends."""
    return run.attempt - 1 if run.state == RunState.RUNNING and run.attempt > 0 else run.attempt


def _check_unfinished(run: RunFacts, dialect: Dialect) -> Iterator[Defect]:
    if run.state in WAITING and (run.has_owner or run.has_lease or run.has_finished):
        yield Defect(catalog.WAITING_WITH_TRACES, _row(run), (dialect.clear_traces(run.id),))
    if run.state == RunState.RUNNING:
        if not (run.has_owner and run.has_lease):
            yield Defect(catalog.RUN_WITHOUT_LEASE, _row(run), (dialect.end_lease(run.id),))
        elif run.attempt < 1:
            yield Defect(catalog.RUN_UNCLAIMED, _row(run), (dialect.end_lease(run.id),))
    if run.job_name is None:
        yield Defect(catalog.RUN_WITHOUT_JOB, _row(run), (dialect.cancel(run.id),))
    elif not run.has_version:
        yield Defect(catalog.RUN_WITHOUT_VERSION, _row(run), (dialect.cancel(run.id),))


def _check_ended(run: RunFacts, dialect: Dialect) -> Iterator[Defect]:
    if not run.has_finished:
        yield Defect(catalog.ENDED_WITHOUT_TIME, _row(run), (dialect.delete_run(run.id),))
    if run.has_owner or run.has_lease:
        yield Defect(catalog.ENDED_WITH_LEASE, _row(run))
    if run.job_name is None:
        yield Defect(catalog.JOB_REPLACED, f"{_row(run)}, {run.scheduled_at.isoformat()}: the row of its job is gone")
    if (run.reason is not None) != (run.state == RunState.FAILED):
        yield Defect(catalog.REASON_WRONG, f"{_row(run)}, reason {run.reason}")
    # A waiting run that is cancelled or expires ends without an attempt; every other run ends by an attempt.
    by_attempt = run.state == RunState.SUCCEEDED or (run.state == RunState.FAILED and run.reason != Reason.EXPIRED)
    if by_attempt and run.newest_attempt < max(run.attempt, 1):
        yield Defect(catalog.ATTEMPT_MISSING, f"{_row(run)}: attempt {run.attempt} is not on record")


def check_overlapping(groups: Iterable[tuple[HeldRun, ...]], dialect: Dialect) -> Iterator[Defect]:
    """Report each group of running runs of one job, which must not overlap."""
    for runs in groups:
        ids = ", ".join(str(run.id) for run in runs)
        yield Defect(catalog.EXCLUSIVE_TWICE, f"job {runs[0].job_id}: runs {ids}", (dialect.stop(runs[-1].id),))
