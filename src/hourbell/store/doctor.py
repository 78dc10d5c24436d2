"""The doctor's queries and the examination itself: facts are read in small batches and judged in `core`.

Nothing is ever written. Every read is short, so that no node waits for it and no old row versions accumulate. A job is
read together with its runs and skips, as of one moment.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from hourbell.core.access.audit_chain import SealKeys
from hourbell.core.doctor.deployment import AccessFacts
from hourbell.core.doctor.environment import (
    check_alerts,
    check_audit,
    check_clock,
    check_conflicts,
    check_damage,
    check_lanes,
    check_leases,
    check_migrations,
    check_nodes,
    check_schema,
    check_secrets,
    check_settings,
    check_tzdata,
    check_writable,
    knows_zones,
    lives_since,
    objects_of,
    table_names,
)
from hourbell.core.doctor.facts import (
    AlertNames,
    Cluster,
    HeldRun,
    JobFacts,
    LaneFacts,
    NodeFacts,
    RunFacts,
    RunMark,
    Schema,
    SkipMark,
)
from hourbell.core.doctor.findings import Defect, Findings
from hourbell.core.doctor.instants import check_instants
from hourbell.core.doctor.jobs import OVERDUE, Planners, check_job
from hourbell.core.doctor.repairs import Dialect
from hourbell.core.doctor.runs import check_overlapping, check_run
from hourbell.core.job.conflicts import JobConflict
from hourbell.core.job.definition import Definition, Job
from hourbell.store.control.audit_chain import ChainReader, verify_newest
from hourbell.store.migrations import Migration, count_from_baseline
from hourbell.store.rows import Row, job_of

MAX_JOB_ROWS = 10_000  # runs and skips read per job
JOBS_AT_ONCE = 500
RUNS_AT_ONCE = 5_000
AUDIT_ROWS = 1_000  # the newest rows, whose chain is verified
_SHORTEST_LIFE = timedelta(minutes=1)  # how long a node counts as alive after a heartbeat
_SHORTEST_GRACE = timedelta(minutes=2)


class DoctorStore(Protocol):
    """Reads what the doctor judges. Each verb is short and changes nothing."""

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect in which repairs are written."""

    @property
    def audit_chain(self) -> ChainReader:
        """The audit chain."""

    async def sample_time(self) -> datetime:
        """Return the database's own time."""

    async def schema(self) -> Schema:
        """Return the state of the schema; it is empty in a database without Hourbell's tables."""

    async def damage(self) -> list[str]:
        """Return the damage that the database reports in its own file, if it can check for that."""

    async def cluster(self) -> Cluster:
        """Return the registered nodes and the time-zone data that the database has seen."""

    async def secrets_elsewhere(self) -> list[tuple[str, str, str | None, str]]:
        """Return secret headers that were set for another origin than their job's: job, field, origin, and the job's
        origin.
        """

    async def alert_names(self) -> AlertNames:
        """Return the alert policies that jobs name and that do not exist, and the policies and channels that do."""

    async def conflicts(self, beat_after: datetime) -> list[JobConflict]:
        """Return jobs that a program defines, on a node with a heartbeat since then, but that have another owner."""

    async def lanes(self, now: datetime) -> list[LaneFacts]:
        """Return lanes with runs that are ready and not blocked by another run of their job."""

    async def expired(self, before: datetime) -> list[HeldRun]:
        """Return running runs whose lease expired before that time, at most ten thousand."""

    async def overlapping(self) -> list[tuple[HeldRun, ...]]:
        """Return jobs with two or more running runs that must not overlap."""

    def runs(self) -> AsyncIterator[Sequence[RunFacts]]:
        """Yield every run, in batches. A run that is added or removed meanwhile may or may not be included."""

    def histories(self) -> AsyncIterator[Sequence[JobFacts]]:
        """Yield every job that is not deleted, in batches, each with its newest runs and skips as of one moment."""

    async def access(self, now: datetime) -> AccessFacts:
        """Return the tokens, open access, and the user that Hourbell logs in as."""

    async def close(self) -> None:
        """Close every connection."""


@dataclass(frozen=True, slots=True)
class Expectations:
    """The expected state, according to the settings and this release."""

    migrations: Sequence[Migration]
    tzdata: str
    retention: timedelta
    lease: timedelta
    stuck_after: timedelta


@dataclass(slots=True)
class Examined:
    """The findings of an examination, and the number of rows it read."""

    findings: Findings = field(default_factory=Findings)
    jobs: int = 0
    runs: int = 0
    is_whole: bool = False  # the tables were readable


async def compare_clocks(store: DoctorStore, clock: Callable[[], datetime]) -> tuple[datetime, list[Defect]]:
    """Return the database's time, and a finding if this machine's clock differs."""
    before = clock()
    sample = await store.sample_time()
    took = clock() - before
    return sample, list(check_clock(before + took / 2 - sample, took / 2))


async def examine(store: DoctorStore, now: datetime, expected: Expectations) -> Examined:
    """Run every check, using the database's time. Checks whose tables cannot be read are skipped."""
    examined = Examined()
    found = examined.findings
    schema = await store.schema()
    objects = objects_of(migration.sql for migration in expected.migrations)
    applied = count_from_baseline(expected.migrations, schema.applied)
    found.add(check_migrations(applied, {each.number: each.checksum for each in expected.migrations}))
    found.add(check_writable(schema))
    found.add(check_settings(schema))
    found.add(check_damage(await store.damage()))
    if any(finding.check.name.startswith(("migration_", "schema_")) for finding in found):
        return examined
    found.add(check_schema(schema, objects))
    if not table_names(objects) <= schema.objects:
        return examined
    await _examine_work(store, now, expected, examined)
    examined.is_whole = True
    return examined


async def _examine_work(store: DoctorStore, now: datetime, expected: Expectations, examined: Examined) -> None:
    found = examined.findings
    cluster = await store.cluster()
    live_since = now - max(_SHORTEST_LIFE, expected.lease)
    alive = cluster.alive(live_since)
    grace = max(_SHORTEST_GRACE, 2 * expected.lease)
    found.add(check_nodes(cluster, alive, now))
    found.add(check_conflicts(await store.conflicts(live_since)))
    found.add(check_secrets(await store.secrets_elsewhere()))
    found.add(check_alerts(await store.alert_names()))
    found.add(check_tzdata(cluster, alive, expected.tzdata))
    found.add(check_lanes(await store.lanes(now), alive, now, expected.stuck_after))
    found.add(check_leases(await store.expired(now - grace), is_reaped=lives_since(alive, now - grace)))
    found.add(check_overlapping(await store.overlapping(), store.dialect))
    audit = await verify_newest(store.audit_chain, now, SealKeys(), AUDIT_ROWS)
    waits_long = lives_since(alive, now - grace) and audit.waiting_since is not None
    found.add(check_audit(audit.breaks, audit.waiting if waits_long else 0))
    async for runs in store.runs():
        examined.runs += len(runs)
        for run in runs:
            found.add(check_run(run, store.dialect))
    zones, planners = knows_zones(cluster, expected.tzdata), _planners(alive, now)
    now = max(now, await store.sample_time())  # reading many runs takes a while
    async for jobs in store.histories():
        examined.jobs += len(jobs)
        for facts in jobs:
            found.add(check_job(facts, now, store.dialect, planners=planners, knows_zones=zones))
            found.add(check_instants(facts, now, expected.retention, store.dialect, knows_zones=zones))


def _planners(alive: Sequence[NodeFacts], now: datetime) -> Planners:
    if not alive:
        return Planners.NONE
    return Planners.SETTLED if lives_since(alive, now - OVERDUE) else Planners.NEW


def groups_of(weights: Iterable[tuple[UUID, int]]) -> Iterator[list[UUID]]:
    """Group jobs so that their runs and skips fit into memory. A job with too many is a group of its own."""
    group: list[UUID] = []
    total = 0
    for job_id, weight in weights:
        if group and total + weight >= MAX_JOB_ROWS:
            yield group
            group, total = [], 0
        group.append(job_id)
        total += weight
    if group:
        yield group


def _job_of(row: Row) -> Job:
    """Return the job, or its readable fields if the row bypassed the constraints of the table."""
    try:
        return job_of(row)
    except ValueError as error:
        definition = Definition(row["name"], row["schedule"], {}, enabled=bool(row["enabled"]))
        return Job(row["id"], row["version"], definition, plan_at=row["plan_at"], error=row["error"] or str(error))


def job_facts(row: Row, runs: Sequence[Sequence[Any]], skips: Sequence[Sequence[Any]]) -> JobFacts:
    """Convert a job's row with its runs and skips, which are sorted newest first."""
    return JobFacts(
        job=_job_of(row),
        adopted_at=row["adopted_at"],
        adopted_by=row["adopted_by"],
        earlier_at=row["earlier_at"],
        is_by_users=bool(row["is_by_users"]),
        ended_ever=row["ended_ever"],
        runs=since_skips([RunMark._make(run) for run in reversed(runs)], skips),
        skips=tuple(SkipMark._make(skip) for skip in reversed(skips)),
        is_whole=len(runs) < MAX_JOB_ROWS and len(skips) < MAX_JOB_ROWS,
        created_at=row["created_at"],
    )


def since_skips(runs: Sequence[RunMark], skips: Sequence[Sequence[Any]]) -> tuple[RunMark, ...]:
    """Return the runs newer than the oldest skip that was read: older ones cannot be judged if skips were left out."""
    if len(skips) < MAX_JOB_ROWS:
        return tuple(runs)
    oldest = SkipMark._make(skips[-1])
    return tuple(run for run in runs if run.scheduled_at > oldest.last_at)
