"""The check that each instant of a job's current version has exactly one run or skip, and that no other time has one.

The tables prove less than the engine guarantees, and the check reports only proven defects:

1. An instant certainly belongs to the current version if that version planned a run before it. The first version's
   instants begin when it was stored. Instants of a later version before its first run count from one day after the last
   event of another version, because a clock that went back moves that boundary without a trace.
2. An instant without a run is lost, and not pruned, if an older run of the job that ended before it still exists:
   retention would have removed that run first. The same holds if the job's statistics show that no run was pruned.
   Instants older than the configured retention are not checked.
3. Outside UTC, newer time-zone data may have moved past instants. A run or skip that does not match today's data hides
   all defects before it.
4. A skip that does not match, or that overlaps, may belong to another version if a version was adopted from plain SQL
   while the clock went back. It then hides all defects before it, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

from hourbell.core.doctor import catalog
from hourbell.core.doctor.facts import JobFacts, RunMark, SkipMark
from hourbell.core.doctor.findings import Defect
from hourbell.core.doctor.repairs import Dialect
from hourbell.core.doctor.runs import PLANNED
from hourbell.core.run.plan import first_instant
from hourbell.core.run.states import Kind
from hourbell.core.schedule import Schedule, ScheduleError
from hourbell.core.schedule.zones import load_zone, local_time_at

_DAY = timedelta(days=1)
_MICROSECOND = timedelta(microseconds=1)
_NEVER = datetime.max.replace(tzinfo=UTC)
_SHOWN = 3  # lost instants of one gap
_BY_TRIGGER = "sql"  # version stored when the job was triggered, before it was adopted


def check_instants(
    facts: JobFacts, now: datetime, retention: timedelta, dialect: Dialect, *, knows_zones: bool
) -> list[Defect]:
    """Return all defects in the instants of one job. Unless `knows_zones`, only jobs in UTC are checked."""
    defects = list(_runs_twice(facts))
    definition, cursor_at = facts.job.definition, facts.job.cursor_at
    try:
        schedule = definition.parsed()
    except ScheduleError:
        return defects
    is_utc = load_zone(definition.timezone).is_utc
    start = _start(facts)
    if cursor_at is None or start is None or not (is_utc or knows_zones):
        return defects
    walk = _Walk(facts, schedule, dialect, max(_certain_from(facts), now - retention), is_utc=is_utc)
    return defects + walk.defects(start, cursor_at)


def _runs_twice(facts: JobFacts) -> Iterator[Defect]:
    before: RunMark | None = None
    for run in facts.runs:
        if run.kind not in PLANNED:
            continue
        if before is not None and before.scheduled_at == run.scheduled_at:
            yield Defect(catalog.RUN_TWICE, f"job {facts.job.definition.name}, {run.scheduled_at.isoformat()}")
        before = run


def _is_own(run: RunMark, facts: JobFacts) -> bool:
    return run.kind == Kind.SCHEDULED and run.version == facts.job.version


def _start(facts: JobFacts) -> datetime | None:
    """Return the time after which every instant belongs to the current version; None if that is unknown."""
    first = next((run.scheduled_at for run in facts.runs if _is_own(run, facts)), None)
    adopted_at = facts.adopted_at
    if adopted_at is None or facts.adopted_by == _BY_TRIGGER or not _is_unpruned(facts):
        return first
    if facts.job.version > 1:
        others = [run.planned_at for run in facts.runs if run.version < facts.job.version]
        others += [skip.last_at for skip in facts.skips if first is None or skip.last_at < first]
        adopted_at = max([adopted_at, facts.earlier_at or adopted_at, *others]) + _DAY
    return adopted_at if first is None else min(adopted_at, first)


def _is_unpruned(facts: JobFacts) -> bool:
    return facts.is_whole and facts.ended_ever == sum(run.finished_at is not None for run in facts.runs)


def _certain_from(facts: JobFacts) -> datetime:
    """Return the time from which an instant without a run cannot have been pruned; the far future if unknown."""
    if _is_unpruned(facts):
        return facts.adopted_at or facts.runs[0].scheduled_at
    ends = [max(run.scheduled_at, run.finished_at) for run in facts.runs if run.finished_at is not None]
    return min(ends, default=_NEVER)


def _ends(mark: RunMark | SkipMark) -> tuple[datetime, datetime]:
    if isinstance(mark, SkipMark):
        return mark.first_at, mark.last_at
    return mark.scheduled_at, mark.scheduled_at


@dataclass(slots=True)
class _Walk:
    """Walks from one run or skip to the next, and checks the instants between them."""

    facts: JobFacts
    schedule: Schedule
    dialect: Dialect
    certain_from: datetime
    is_utc: bool

    def defects(self, start: datetime, until: datetime) -> list[Defect]:
        found: list[Defect] = []
        at = skipped_until = served_at = start
        for mark in self._marks(start):
            first, last = _ends(mark)
            if isinstance(mark, SkipMark):
                is_certain = self.facts.is_by_users and first > start
                if not self._fits(mark) and not (self.is_utc and is_certain):
                    found, at = [], max(at, last)  # from other time-zone data or another version
                    continue
                if not self._fits(mark):
                    found.append(self._miscounted(mark))
                elif is_certain and first <= max(skipped_until, served_at):
                    found.append(self._twice(first))
                skipped_until = max(skipped_until, last)
            elif _is_own(mark, self.facts):
                if self._was_moved(mark):
                    found, at = [], max(at, last)
                    continue
                served_at = last
                if first > at and self._next(at) == first:
                    at = last
                    continue
                if first > at and not self._names(first):
                    found.append(self._outside(mark))
                elif self.facts.is_by_users and first <= skipped_until:
                    found.append(self._twice(first))
            found += self._lost(at, first - _MICROSECOND)
            at = max(at, last)
        return found + self._lost(at, until)

    def _marks(self, start: datetime) -> list[RunMark | SkipMark]:
        """Return the runs and skips after the start, with a skip before the run at its first instant."""
        runs = [run for run in self.facts.runs if run.kind in PLANNED and run.scheduled_at > start]
        skips = [skip for skip in self.facts.skips if skip.last_at > start]
        if not skips:
            return [*runs]
        keyed = [(skip.first_at, 0, skip) for skip in skips] + [(run.scheduled_at, 1, run) for run in runs]
        return [mark for *_, mark in sorted(keyed, key=lambda each: each[:2])]

    def _next(self, after: datetime) -> datetime | None:
        return first_instant(self.facts.job.definition, self.schedule, after)

    def _names(self, instant: datetime) -> bool:
        return self._next(instant - _MICROSECOND) == instant

    def _fits(self, skip: SkipMark) -> bool:
        ends = self._names(skip.first_at) and self._names(skip.last_at)
        return ends and self.schedule.count(skip.first_at - _MICROSECOND, skip.last_at) == skip.total

    def _was_moved(self, run: RunMark) -> bool:
        """Check if today's time-zone data gives another local time for the run's instant than the planned one."""
        if self.is_utc:
            return False
        occurrence = self.schedule.next_occurrence(run.scheduled_at - _MICROSECOND)
        if occurrence is not None and occurrence.at == run.scheduled_at:
            return occurrence.local != run.local_at
        return local_time_at(self.facts.job.definition.timezone, run.scheduled_at)[0] != run.local_at

    def _lost(self, after: datetime, until: datetime) -> list[Defect]:
        """Report each of the first lost instants in (after, until], and the count of the others as one defect."""
        after = max(after, self.certain_from - _MICROSECOND)
        definition = self.facts.job.definition
        if after >= until or (instant := self._next(after)) is None or instant > until:
            return []
        if definition.ends_at is not None:
            until = min(until, definition.ends_at)
        instants = list(islice(self.schedule.between(instant - _MICROSECOND, until), _SHOWN))
        defects = [self._one_lost(each) for each in instants]
        more = self.schedule.count(instants[-1], until)
        if more:
            last = self.schedule.previous(until + _MICROSECOND)
            row = f"job {definition.name}, {more} more until {last.isoformat() if last else until.isoformat()}"
            defects.append(Defect(catalog.INSTANT_LOST, row, count=more))
        return defects

    def _one_lost(self, instant: datetime) -> Defect:
        job, dialect = self.facts.job, self.dialect
        local = local_time_at(job.definition.timezone, instant)[0]
        sql = (
            dialect.run_instant(job.id, instant, local),
            f"-- or, to leave it out: {dialect.skip_instant(job.id, instant)}",
        )
        return Defect(catalog.INSTANT_LOST, f"job {job.definition.name}, {instant.isoformat()}", sql)

    def _twice(self, instant: datetime) -> Defect:
        return Defect(catalog.INSTANT_TWICE, f"job {self.facts.job.definition.name}, {instant.isoformat()}")

    def _outside(self, run: RunMark) -> Defect:
        name, job_id = self.facts.job.definition.name, self.facts.job.id
        sql = self.dialect.cancel_instant(job_id, run.scheduled_at)
        return Defect(catalog.RUN_OUTSIDE, f"job {name}, {run.scheduled_at.isoformat()}", (sql,))

    def _miscounted(self, skip: SkipMark) -> Defect:
        job = self.facts.job
        count = self.schedule.count(skip.first_at - _MICROSECOND, skip.last_at)
        sql = (self.dialect.set_skip_count(job.id, skip.first_at, skip.last_at, count),) if count else ()
        between = f"{skip.first_at.isoformat()} to {skip.last_at.isoformat()}"
        row = f"job {job.definition.name}, {between}: says {skip.total}, the schedule {count}"
        return Defect(catalog.SKIP_MISCOUNTED, row, sql)
