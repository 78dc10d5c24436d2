"""Checks of the environment of jobs: schema, database settings, nodes, clocks, time-zone data and lanes."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from hourbell.core.access.audit_chain import Break
from hourbell.core.alerts.policy import channels_of, parse_policy
from hourbell.core.doctor import catalog
from hourbell.core.doctor.facts import AlertNames, Cluster, HeldRun, LaneFacts, NodeFacts, Schema
from hourbell.core.doctor.findings import Defect
from hourbell.core.job.conflicts import JobConflict
from hourbell.core.job.secret_headers import show_origin
from hourbell.core.run.error_line import error_line

MAX_OFFSET = timedelta(seconds=5)
UNSERVED = timedelta(minutes=1)
UNATTENDED = timedelta(minutes=5)
_MADE = re.compile(
    r"^create (?:unique )?(table|index|trigger) (?:concurrently )?(?:if not exists )?(?:hourbell\.)?(\w+)", re.M
)
_DROPPED = re.compile(r"^drop (table|index|trigger) (?:concurrently )?(?:if exists )?(?:hourbell\.)?(\w+)", re.M)


def check_migrations(applied: Mapping[int, str], known: Mapping[int, str]) -> Iterator[Defect]:
    """Compare checksums of migrations, by number. After any defect here, the other tables cannot be checked."""
    for number in sorted(applied.keys() - known.keys()):
        yield Defect(catalog.SCHEMA_NEWER, f"migration {number:04}")
    for number in sorted(known):
        if number not in applied:
            yield Defect(catalog.MIGRATION_PENDING, f"migration {number:04}")
        elif applied[number] != known[number]:
            yield Defect(catalog.MIGRATION_CHANGED, f"migration {number:04}")


def objects_of(migrations: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Return the objects that exist after the SQL of all migrations, as (kind, name)."""
    objects: set[tuple[str, str]] = set()
    for sql in migrations:
        objects -= set(_DROPPED.findall(sql))
        objects |= set(_MADE.findall(sql))
    return frozenset(objects)


def check_schema(schema: Schema, expected: frozenset[tuple[str, str]]) -> Iterator[Defect]:
    for kind, name in sorted(expected - schema.objects):
        yield Defect(catalog.OBJECT_MISSING, f"{kind} {name}")
    for name in schema.invalid_indexes:
        yield Defect(catalog.INDEX_INVALID, f"index {name}", (f"reindex index concurrently hourbell.{name}",))
    for table, name in schema.disabled_triggers:
        sql = f"alter table hourbell.{table} enable trigger {name}"
        yield Defect(catalog.TRIGGER_DISABLED, f"trigger {name} of {table}", (sql,))


def check_writable(schema: Schema) -> Iterator[Defect]:
    if schema.read_only is not None:
        yield Defect(catalog.DATABASE_READ_ONLY, schema.read_only)


def check_settings(schema: Schema) -> Iterator[Defect]:
    if schema.unwritable is not None:
        yield Defect(catalog.DATABASE_UNWRITABLE, schema.unwritable)
    for name, value in (schema.settings or {}).items():
        if name == "journal_mode":
            if value not in ("wal", "memory"):
                yield Defect(catalog.JOURNAL_MODE, f"journal_mode is {value}")
        elif value == "off":
            sql = f"alter system set {name} = on; select pg_reload_conf()"
            yield Defect(catalog.SETTING_UNSAFE, f"{name} is off", (sql,))


def check_damage(lines: Iterable[str]) -> Iterator[Defect]:
    for line in lines:
        yield Defect(catalog.DATABASE_DAMAGED, line)


def check_conflicts(conflicts: Iterable[JobConflict]) -> Iterator[Defect]:
    for each in conflicts:
        row = f"job {each.job}: {each.program} defines it, {each.owner} has it; {each.hint}"
        yield Defect(catalog.JOB_CONFLICT, row)


def check_alerts(names: AlertNames) -> Iterator[Defect]:
    """Report names of alert policies and channels that nothing has, so that alerts go elsewhere or nowhere."""
    for unknown, job, jobs in names.unknown_policies:
        more = f" and {jobs - 1} more" if jobs > 1 else ""
        yield Defect(catalog.POLICY_UNKNOWN, f"alert policy {unknown}, named by job {job}{more}", count=jobs)
    for name, definition in names.policies:
        try:
            policy = parse_policy(json.loads(definition))
        except ValueError as error:
            yield Defect(catalog.POLICY_UNREADABLE, f"alert policy {name}: {error_line(str(error))}")
            continue
        for channel in sorted(channels_of(policy) - names.channels):
            yield Defect(catalog.CHANNEL_UNKNOWN, f"alert policy {name} names the channel {channel}")


def check_secrets(secrets: Iterable[tuple[str, str, str | None, str]]) -> Iterator[Defect]:
    """Report secret headers that are not sent. Each is given as its job, field, origin and the job's origin."""
    for job, field, origin, wanted in secrets:
        was = "bound to no origin" if origin is None else f"set for {show_origin(origin)}"
        yield Defect(
            catalog.SECRET_ELSEWHERE, f"job {job}: {field} is {was}, and the job goes to {show_origin(wanted)}"
        )


def check_audit(breaks: Iterable[Break], waiting: int) -> Iterator[Defect]:
    """Check the newest part of the audit chain; `waiting` is the number of rows that are overdue for chaining."""
    for each in breaks:
        prefix = "" if each.position is None else f"position {each.position}: "
        yield Defect(catalog.AUDIT_CHAIN_BROKEN, f"{prefix}{each.message}")
    if waiting:
        yield Defect(catalog.AUDIT_UNCHAINED, f"{waiting} audit rows", count=waiting)


def check_nodes(cluster: Cluster, alive: Sequence[NodeFacts], now: datetime) -> Iterator[Defect]:
    if not alive:
        newest = max((node.beat_at for node in cluster.nodes), default=None)
        row = "there is none on the list"
        if newest is not None:  # nodes that shut down gracefully leave the list
            row = f"the last heartbeat of one that did not shut down cleanly was at {newest.isoformat()}"
        yield Defect(catalog.NO_LIVE_NODE, row)
    for node in cluster.nodes:
        if node.beat_at > now + MAX_OFFSET:
            yield Defect(catalog.BEAT_IN_FUTURE, f"{_shown(node)}: {node.beat_at.isoformat()}")


def check_clock(offset: timedelta, uncertainty: timedelta) -> Iterator[Defect]:
    """Check the clock. `offset` is this machine's time minus the database's, measured with this `uncertainty`."""
    if abs(offset) > MAX_OFFSET + uncertainty:
        seconds = offset.total_seconds()
        yield Defect(
            catalog.CLOCK_OFFSET, f"this machine is {abs(seconds):.1f} s {'ahead' if seconds > 0 else 'behind'}"
        )


def knows_zones(cluster: Cluster, here: str) -> bool:
    """Check that all jobs are planned with the same time-zone data as this machine has."""
    return cluster.planned_by_tzdata in (here, None) and cluster.tzdata in (here, None)


def check_tzdata(cluster: Cluster, alive: Sequence[NodeFacts], here: str) -> Iterator[Defect]:
    newest = max([node.tzdata for node in alive] + ([cluster.tzdata] if cluster.tzdata else []), default=here)
    for node in alive:
        if node.tzdata != newest:
            yield Defect(catalog.TZDATA_MIXED, f"{_shown(node)} has {node.tzdata}, the newest is {newest}")
    if cluster.tzdata is not None and cluster.planned_by_tzdata != cluster.tzdata:
        row = f"planned by {cluster.planned_by_tzdata or 'none yet'}, seen {cluster.tzdata}"
        yield Defect(catalog.TZDATA_UNFINISHED, row)
    if not knows_zones(cluster, here):
        yield Defect(catalog.TZDATA_HERE, f"here {here}, there {cluster.planned_by_tzdata or cluster.tzdata}")


def check_lanes(
    lanes: Iterable[LaneFacts], alive: Sequence[NodeFacts], now: datetime, stuck_after: timedelta
) -> Iterator[Defect]:
    """Check ready runs that wait for a node."""
    for lane in lanes:
        row = f"lane {lane.lane}: {lane.waiting}, the oldest since {lane.oldest_ready_at.isoformat()}"
        if not alive:
            if lane.oldest_ready_at < now - UNATTENDED:
                yield Defect(catalog.RUNS_UNATTENDED, row, count=lane.waiting)
        elif not any(_serves(node, lane.lane) for node in alive):
            if lane.oldest_ready_at < now - UNSERVED:
                yield Defect(catalog.LANE_UNSERVED, row, count=lane.waiting)
        elif lane.oldest_ready_at < now - stuck_after:
            yield Defect(catalog.RUNS_STUCK, row, count=lane.waiting)


def check_leases(expired: Iterable[HeldRun], *, is_reaped: bool) -> Iterator[Defect]:
    """Report expired leases; `is_reaped` says that a node has been alive long enough to reap them."""
    for run in expired if is_reaped else ():
        until = run.lease_until.isoformat() if run.lease_until else ""
        yield Defect(catalog.LEASE_EXPIRED, f"run {run.id} of job {run.job_id}, until {until}")


def lives_since(alive: Sequence[NodeFacts], before: datetime) -> bool:
    """Check that some live node started before that time."""
    return any(node.started_at < before for node in alive)


def table_names(expected: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    return frozenset(each for each in expected if each[0] == "table")


def _serves(node: NodeFacts, lane: str) -> bool:
    return any(lane == each or (each.endswith("*") and lane.startswith(each[:-1])) for each in node.lanes)


def _shown(node: NodeFacts) -> str:
    return f"node {node.id} on {node.host}"
