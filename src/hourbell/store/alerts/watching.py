"""The watchers' part of the store: what is wrong is read, decided and written in one transaction, with its messages.

1. Take what tells that a job must be watched: changed streaks of failures, skips, and incidents whose next step is due.
2. Read the facts of those jobs and their unresolved incidents, and let `core.alerts` decide.
3. Write incidents: a new one only if none with its key is unresolved, a known one only at the version that was read.
   Whoever loses a race writes nothing of it; the winner plans the messages.
4. Plan a message as a run of each channel's system job. Its id follows from channel, incident and step, so that a
   message that was planned before is not planned again.

All of it commits together. After a crash at any point, either nothing of it is there and the next watcher begins anew,
or all of it is, and the messages are runs that wait.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID

from hourbell.core.alerts.channel import SYSTEM, StoredChannel, lane_of_channel
from hourbell.core.alerts.conditions import LOSING_WINDOW, JobFacts, troubles_of
from hourbell.core.alerts.incident import Incident, Trouble, channel_key, notification_id
from hourbell.core.alerts.kinds import Event, IncidentKind
from hourbell.core.alerts.message import IncidentSummary, JobSummary, Message, RunSummary
from hourbell.core.alerts.policy import AlertPolicy, policy_for
from hourbell.core.alerts.scheduler import AFTER_OUTAGE, RECOVERY_KEY, RecoverySummary
from hourbell.core.alerts.watch import ONE_DAY, Decision, Move, watch
from hourbell.core.run.policies import Rank
from hourbell.core.run.run import NewRun
from hourbell.core.run.states import Kind
from hourbell.store.alerts.rows import (
    channel_of,
    incident_of,
    incident_values,
    job_summary,
    policies_of,
    run_summary,
    update_values,
)
from hourbell.store.control.session import Session, Sessions
from hourbell.store.engine.batch import RunRow
from hourbell.store.rows import Row

MAX_AGE = timedelta(hours=24)  # of a message that cannot be delivered
NAMED_JOBS = 10  # of a group, in a message
SEEN_INTERVAL = timedelta(minutes=1)  # how often `last_at` is written while nothing else changes
CHANNEL_FAILURES = 3  # attempts of a message, before the channel counts as failing
MAX_COUNTED_RUNS = 100_000  # of the summary of recovery mode
_NOBODY = UUID(int=0)
_FIRST_VERSION = 1  # of a channel's system job, which never changes


@dataclass(frozen=True, slots=True)
class WatchResult:
    """A step of an incident that was written, for the log."""

    move: Move
    incident: Incident
    event: Event | None
    channels: tuple[str, ...]
    recovery: RecoverySummary | None = None  # at the end of recovery mode


@dataclass(frozen=True, slots=True)
class LateJob:
    job_id: UUID
    runs: int
    oldest_at: datetime
    catch_up: str


@dataclass(frozen=True, slots=True)
class WatchedNode:
    id: UUID
    host: str
    started_at: datetime
    beat_at: datetime
    lanes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChannelState:
    """The health of a channel: since when a message waits after several failures, or that the last one failed."""

    channel: StoredChannel
    failing_since: datetime | None
    error: str
    run_id: UUID | None


@dataclass(frozen=True, slots=True)
class Signal:
    """A job got no run for some scheduled times."""

    missed_at: datetime | None = None
    missed: int = 0


class AlertStore:
    """`public_url` is where people reach the page, for links in messages; None for messages without links."""

    def __init__(self, sessions: Sessions, *, public_url: str | None = None) -> None:
        self._sessions = sessions
        self._public_url = public_url

    async def has_work(self, now: datetime) -> bool:
        """Return True if `watch_jobs` would find something to take."""
        [row] = await self._sessions.fetch("alert_work", now=now)
        return bool(row["is_due"])

    async def watch_jobs(self, now: datetime, limit: int, extra: Collection[UUID] = ()) -> list[WatchResult]:
        """Watch up to `limit` jobs that changed, those whose incidents have a step due, and the extra ones.

        A job is watched by one transaction at a time; what other watchers have taken is passed over. Everything that
        follows from what was taken is written in the same transaction, or nothing is.
        """

        async def watch_them(session: Session) -> list[WatchResult]:
            signals = _signals(await session.fetch("take_signals", limit=limit))
            taken = [row["job_id"] for row in await session.fetch("take_alerts", limit=limit)]
            due = [row["job_id"] for row in await session.fetch("due_incidents", now=now, limit=limit)]
            ids = sorted({*signals, *taken, *extra, *(job_id for job_id in due if job_id is not None)})
            if not ids:
                return []
            watching = await _Watching.begin(session, now, self._public_url)
            await watching.watch_jobs(ids, signals)
            return watching.results

        return await self._sessions.transact(watch_them)

    async def watch_keys(
        self, now: datetime, kinds: Collection[IncidentKind], troubles: Sequence[Trouble]
    ) -> list[WatchResult]:
        """Watch incidents that concern no single job: these troubles are all there are of these kinds.

        They follow the policy `default`. The incident of a channel goes to the other channels only.
        """

        values = {"kinds": [kind.value for kind in kinds]}
        if not troubles and not await self._sessions.fetch("unresolved_of_kinds", **values):
            return []

        async def watch_them(session: Session) -> list[WatchResult]:
            rows = await session.fetch("lock_incidents_of_kinds", **values)
            known = {row["key"]: incident_of(row) for row in rows}
            watching = await _Watching.begin(session, now, self._public_url)
            found = {trouble.key: trouble for trouble in troubles}
            name, policy = policy_for("", watching.policies)
            opened = await watching.openings(found.keys() - known.keys())
            summary: RecoverySummary | None = None
            if RECOVERY_KEY in known and RECOVERY_KEY not in found:
                summary = await _recovery_summary(session, known[RECOVERY_KEY], now)
                known[RECOVERY_KEY] = replace(known[RECOVERY_KEY], error=str(summary))
            for key in sorted({*known, *found}):
                await watching.decide(found.get(key), name, policy, known.get(key), opened.get(key, 0))
            return [
                replace(each, recovery=summary) if each.incident.key == RECOVERY_KEY else each
                for each in watching.results
            ]

        return await self._sessions.transact(watch_them)

    async def incident_jobs(self, after: UUID | None, limit: int) -> tuple[list[UUID], UUID | None]:
        """Return jobs of unresolved incidents, page by page, to be watched again; and where the next page begins."""
        rows = await self._sessions.fetch("unresolved_incidents", after=after or _NOBODY, limit=limit)
        return [row["job_id"] for row in rows], rows[-1]["id"] if len(rows) == limit else None

    async def late_jobs(self, now: datetime, limit: int) -> list[LateJob]:
        """Return jobs with runs that wait past their `late_after`; the oldest runs of each lane are looked at."""
        rows = await self._sessions.fetch("late_jobs", now=now, rows=2 * limit, limit=limit)
        return [LateJob(row["job_id"], row["runs"], row["oldest_at"], row["catch_up"]) for row in rows]

    async def slow_jobs(self, before: datetime, limit: int) -> list[UUID]:
        """Return jobs with a run that has been running since before then."""
        return [row["job_id"] for row in await self._sessions.fetch("slow_running", before=before, limit=limit)]

    async def paused_jobs(self, before: datetime, limit: int) -> list[UUID]:
        """Return jobs that were paused before then."""
        return [row["job_id"] for row in await self._sessions.fetch("paused_jobs", before=before, limit=limit)]

    async def jobs_without_success(
        self, before: datetime, after: UUID | None, limit: int
    ) -> tuple[list[UUID], UUID | None]:
        """Return those of a page of all jobs that had no success since then, and where the next page begins."""
        values = {"before": before, "after": after or _NOBODY, "limit": limit}
        rows = await self._sessions.fetch("jobs_without_success", **values)
        return [row["job_id"] for row in rows if row["is_old"]], rows[-1]["job_id"] if len(rows) == limit else None

    async def active_jobs(self) -> int:
        """Count the jobs that will fire."""
        [row] = await self._sessions.fetch("active_jobs")
        return int(row["count"])

    async def earliest_plan_at(self) -> datetime | None:
        """Return when the planner should have looked, or will look, at the job that is due first."""
        return next((row["plan_at"] for row in await self._sessions.fetch("earliest_plan_at")), None)

    async def is_recovering(self) -> bool:
        """Return True while the incident of recovery mode is unresolved, whichever node opened it."""
        return bool(await self._sessions.fetch("unresolved_key", key=RECOVERY_KEY))

    async def last_outage(self, since: datetime) -> tuple[datetime, datetime] | None:
        """Return the beginning and the end of the last outage that ended since then."""
        found = await self._sessions.fetch("last_outage", since=since)
        return next(((row["started_at"], row["ended_at"]) for row in found), None)

    async def nodes(self) -> list[WatchedNode]:
        """Return all nodes that are known, also silent ones."""
        return [
            WatchedNode(row["id"], row["host"], row["started_at"], row["beat_at"], tuple(row["lanes"]))
            for row in await self._sessions.fetch("watched_nodes")
        ]

    async def channel_states(self) -> list[ChannelState]:
        """Return how each channel delivers."""
        channels = {channel.name: channel for channel in await self.channels()}
        rows = await self._sessions.fetch("failing_channels", failures=CHANNEL_FAILURES) if channels else ()
        return [
            ChannelState(
                channels[row["name"]],
                row["waiting_at"] or (row["first_failed_at"] if row["has_failed"] else None),
                row["last_error"] or "",
                row["failed_run_id"] if row["has_failed"] else None,
            )
            for row in rows
            if row["name"] in channels
        ]

    async def policies(self) -> dict[str, AlertPolicy]:
        """Return all policies that make sense, by name."""
        return policies_of(list(await self._sessions.fetch("alert_policies")))

    async def channels(self) -> list[StoredChannel]:
        return [channel_of(row) for row in await self._sessions.fetch("channels")]

    async def channel(self, name: str) -> StoredChannel | None:
        """Return a channel as it is now."""
        return next(map(channel_of, await self._sessions.fetch("channel", name=name)), None)

    async def open_incidents(self) -> dict[str, int]:
        """Count unresolved incidents by state."""
        return {row["state"]: row["count"] for row in await self._sessions.fetch("count_open_incidents")}

    async def take_turn(self, name: str, now: datetime, before: datetime) -> bool:
        """Take a turn, if the last one was taken at `before` or earlier; only one node gets it."""
        times = {"now": _sortable(now), "before": _sortable(before)}
        return bool(await self._sessions.transact(lambda session: session.execute("take_turn", name=name, **times)))

    async def last_turn(self, name: str) -> datetime | None:
        """Return when a turn was taken last."""
        rows = await self._sessions.fetch("last_turn", name=name)
        return next((datetime.fromisoformat(row["value"]) for row in rows), None)

    async def forget(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` incidents that were resolved before then; return how many."""
        ids = [row["id"] for row in await self._sessions.fetch("old_incidents", before=before, limit=limit)]
        return len(await self._sessions.write("forget_incidents", ids=ids)) if ids else 0


async def _recovery_summary(session: Session, incident: Incident, now: datetime) -> RecoverySummary:
    """Count the runs that ended, and the times that were skipped, in recovery mode or because of its outage."""
    outage = next(iter(await session.fetch("last_outage", since=incident.opened_at - AFTER_OUTAGE)), None)
    began_at = incident.opened_at if outage is None else min(incident.opened_at, outage["ended_at"])
    rows = await session.fetch("recovery_runs", since=began_at, limit=MAX_COUNTED_RUNS)
    ended = {row["state"]: int(row["count"]) for row in rows}
    missed_since = began_at if outage is None else outage["started_at"]
    [skips] = await session.fetch("recovery_skips", since=missed_since, limit=MAX_COUNTED_RUNS)
    succeeded, failed = ended.get("succeeded", 0), ended.get("failed", 0)
    return RecoverySummary(now - began_at, sum(ended.values()), succeeded, failed, int(skips["skipped"]))


def _sortable(at: datetime) -> str:
    """Return a UTC time as text that sorts by time."""
    return at.isoformat(timespec="microseconds")


def _signals(rows: Iterable[Row]) -> dict[UUID, Signal]:
    found: dict[UUID, Signal] = {}
    for row in rows:
        known = found.setdefault(row["job_id"], Signal())
        if row["reason"] != "overlap":
            newest = max(filter(None, (known.missed_at, row["missed_at"])))
            found[row["job_id"]] = Signal(newest, known.missed + int(row["count"]))
    return found


@dataclass(slots=True)
class _Group:
    """The common message of the jobs of one host."""

    name: str
    policy: AlertPolicy
    troubles: list[Trouble] = field(default_factory=list)
    healed: list[UUID] = field(default_factory=list)


@dataclass(slots=True)
class _Watching:
    """One transaction of a watcher."""

    session: Session
    now: datetime
    public_url: str | None
    policies: Mapping[str, AlertPolicy]
    channels: Mapping[str, StoredChannel]
    is_held: bool  # recovery mode speaks for all jobs
    results: list[WatchResult] = field(default_factory=list)
    rows: dict[UUID, Row] = field(default_factory=dict)  # the facts of jobs

    @classmethod
    async def begin(cls, session: Session, now: datetime, public_url: str | None) -> "_Watching":
        policies = policies_of(list(await session.fetch("alert_policies")))
        channels = {row["name"]: channel_of(row) for row in await session.fetch("channels")}
        is_held = bool(await session.fetch("unresolved_key", key=RECOVERY_KEY))
        return cls(session, now, public_url, policies, channels, is_held)

    async def openings(self, keys: Collection[str]) -> dict[str, int]:
        """Count the incidents of each key that were opened and notified within a day."""
        if not keys:
            return {}
        rows = await self.session.fetch("notified_openings", keys=sorted(keys), since=self.now - ONE_DAY)
        return {row["key"]: int(row["count"]) for row in rows}

    async def watch_jobs(self, ids: Sequence[UUID], signals: Mapping[UUID, Signal]) -> None:
        self.rows = {row["id"]: row for row in await self.session.fetch("job_facts", ids=list(ids))}
        facts = await self._facts(signals)
        known: dict[UUID, dict[str, Incident]] = {}
        for row in await self.session.fetch("incidents_of_jobs", ids=list(ids)):
            known.setdefault(row["of_job_id"], {})[row["key"]] = incident_of(row)
        groups: dict[str, _Group] = {}
        own: list[tuple[Trouble | None, str, AlertPolicy, str]] = []
        for each in facts:
            name, policy = policy_for(each.policy, self.policies)
            for key, trouble in troubles_of(each, name, policy, known.get(each.job_id, {}), self.now):
                if not key.startswith("lane:"):
                    own.append((trouble, name, policy, key))
                    continue
                group = groups.setdefault(key, _Group(name, policy))
                if trouble is None:
                    group.healed.append(each.job_id)
                else:
                    group.troubles.append(trouble)
        keys = [*groups, *(key for _, _, _, key in own)]
        if not keys:
            return
        locked = await self.session.fetch("lock_incidents", keys=sorted(keys))
        incidents = {row["key"]: incident_of(row) for row in locked}
        opened = await self.openings(set(keys) - incidents.keys())
        for trouble, name, policy, key in own:
            await self.decide(trouble, name, policy, incidents.get(key), opened.get(key, 0))
        for key in sorted(groups):
            await self._watch_group(groups[key], incidents.get(key), opened.get(key, 0))

    async def _watch_group(self, group: _Group, incident: Incident | None, opened_before: int) -> None:
        """Watch the incident of a host: each job joins it when it fails, and it is over when all are well."""
        trouble = group.troubles[-1] if group.troubles else None
        if incident is None:
            if trouble is not None:
                trouble = replace(trouble, group_size=len(group.troubles))
                made = await self.decide(trouble, group.name, group.policy, None, opened_before)
                await self._join(made, group.troubles)
            return
        await self._join(incident, group.troubles)
        if group.healed:
            values = {"incident_id": incident.id, "job_ids": group.healed, "now": self.now}
            await self.session.execute("heal_jobs", **values)
        [counts] = await self.session.fetch("count_members", incident_id=incident.id)
        if trouble is None and counts["troubled"]:
            trouble = _same(incident)  # others are not well yet
        if trouble is not None:
            trouble = replace(trouble, group_size=int(counts["members"]))
        made = await self.decide(trouble, group.name, group.policy, incident, opened_before)
        if made is not None and made.id != incident.id:
            await self._join(made, group.troubles)

    async def _join(self, incident: Incident | None, troubles: Sequence[Trouble]) -> None:
        if incident is not None:
            rows = [{"incident_id": incident.id, "job_id": each.job_id, "now": self.now} for each in troubles]
            await self.session.execute_many("join_incident", rows)

    async def decide(
        self,
        trouble: Trouble | None,
        name: str,
        policy: AlertPolicy,
        incident: Incident | None,
        opened_before: int,
    ) -> Incident | None:
        """Decide about one key and write it; return the incident that is stored for it, None if this lost a race."""
        kind = trouble.kind if trouble is not None else incident.kind if incident is not None else None
        is_held = self.is_held and kind is not IncidentKind.RECOVERY
        decision = watch(trouble, name, policy, incident, self.now, opened_before=opened_before, held=is_held)
        if decision.incident is None or decision.incident == incident:
            return incident
        if not await self._write(decision, incident):
            return None
        if decision.move is Move.REPLACE:
            return await self.decide(trouble, name, policy, None, opened_before)
        return decision.incident

    async def _write(self, decision: Decision, known: Incident | None) -> bool:
        incident = decision.incident
        assert incident is not None  # the caller's condition
        if known is None:
            written = await self.session.fetch("insert_incident", **incident_values(incident))
        elif decision.move is Move.KEEP and _is_only_seen(incident, known):
            return True  # a look that finds nothing new writes nothing, or once a minute the time
        else:
            written = await self.session.fetch("update_incident", **update_values(incident))
        if not written:
            return False
        channels = await self._plan_messages(decision, incident)
        if decision.move is not Move.KEEP:
            self.results.append(WatchResult(decision.move, incident, decision.event, channels))
        return True

    async def _plan_messages(self, decision: Decision, incident: Incident) -> tuple[str, ...]:
        if decision.event is None or decision.send_at is None:
            return ()
        names = self.channels.keys() if decision.notify is None else decision.notify
        named = [self.channels[name] for name in names if name in self.channels and incident.key != channel_key(name)]
        if not named:
            return ()
        job, run = await self._job_summary(incident), await self._run_summary(incident)
        jobs = await self._member_names(incident, job)
        for channel in named:
            run_id = notification_id(channel.job_id, incident.id, incident.steps)
            message = Message(
                id=str(run_id),
                event=decision.event,
                at=self.now,
                channel=channel.name,
                incident=IncidentSummary.of(incident, jobs),
                job=job,
                run=run,
                links=links_of(self.public_url, incident.id, job, run),
            )
            await plan_message(
                self.session, channel, run_id, message, self.now, decision.send_at, incident.id, incident.steps
            )
        return tuple(channel.name for channel in named)

    async def _job_summary(self, incident: Incident) -> JobSummary | None:
        if incident.job_id is None or (incident.lane is not None and incident.group_size > 1):
            return None
        row = self.rows.get(incident.job_id)
        if row is None:
            row = await self.session.fetch_one("job_facts", ids=[incident.job_id])
        return None if row is None else job_summary(row)

    async def _run_summary(self, incident: Incident) -> RunSummary | None:
        if incident.run_id is None:
            return None
        row = await self.session.fetch_one("summary_of_run", id=incident.run_id)
        return None if row is None else run_summary(row)

    async def _member_names(self, incident: Incident, job: JobSummary | None) -> tuple[str, ...]:
        if job is not None:
            return (job.name,)
        rows = await self.session.fetch("member_names", incident_id=incident.id, limit=NAMED_JOBS)
        return tuple(row["name"] for row in rows)

    async def _facts(self, signals: Mapping[UUID, Signal]) -> list[JobFacts]:
        ids = [job_id for job_id, row in self.rows.items() if row["managed_by"] != SYSTEM]
        waiting = {row["job_id"]: row for row in await self.session.fetch("oldest_waiting", ids=ids, now=self.now)}
        running: dict[UUID, Row] = {}
        for row in await self.session.fetch("running_of_jobs", ids=ids):
            known = running.get(row["job_id"])
            if known is None or row["started_at"] < known["started_at"]:
                running[row["job_id"]] = row
        return [
            await self._facts_of(self.rows[job_id], signals.get(job_id), waiting.get(job_id), running.get(job_id))
            for job_id in ids
        ]

    async def _facts_of(self, row: Row, signal: Signal | None, waiting: Row | None, running: Row | None) -> JobFacts:
        _, policy = policy_for(row["alert_policy"], self.policies)
        more: dict[str, Any] = {}
        if policy.rate is not None:
            [recent] = await self.session.fetch("recent_failures", job_id=row["id"], runs=policy.rate.of)
            more["recent_failures"] = int(recent["count"])
        if policy.losing_share is not None:
            since = self.now - LOSING_WINDOW
            [lost] = await self.session.fetch("recent_overlaps", job_id=row["id"], since=since)
            more |= {"lost_to_overlap": int(lost["lost"]), "planned": int(lost["planned"])}
        if signal is not None and signal.missed_at is not None:
            more |= {"missed_at": signal.missed_at, "missed": signal.missed}
        if waiting is not None:
            more |= {"late_at": waiting["scheduled_at"], "late_run": waiting["run_id"]}
        if running is not None:
            more |= {"running_since": running["started_at"], "running_run": running["run_id"]}
        is_active, is_deleted = bool(row["is_active"]), bool(row["is_deleted"])
        return JobFacts(
            job_id=row["id"],
            name=row["name"],
            policy=row["alert_policy"],
            is_active=is_active,
            lane=row["lane"],
            late_after=row["late_after"],
            next_at=row["next_at"],
            created_at=row["created_at"],
            paused_since=None if is_active or is_deleted else row["updated_at"],
            streak=row["streak"] or 0,
            failing_since=row["first_failed_at"],
            failed_run=row["failed_run_id"],
            failed_unbegun=row["failed_attempt"] == 0,
            error=row["last_error"],
            last_success_at=row["last_success_at"],
            **more,
        )


def _same(incident: Incident) -> Trouble:
    """Return the trouble of an incident that goes on, without anything new."""
    return Trouble(
        incident.key,
        incident.kind,
        incident.opened_at,
        incident.error,
        incident.fingerprint,
        incident.count,
        incident.group_size,
        incident.job_id,
        incident.run_id,
        incident.lane,
    )


def _is_only_seen(incident: Incident, known: Incident) -> bool:
    """Return True if nothing has changed but that it was seen again, shortly after the last time."""
    is_recent = incident.last_at - known.last_at < SEEN_INTERVAL
    return is_recent and replace(incident, last_at=known.last_at) == known


def links_of(
    public_url: str | None, incident_id: UUID | None, job: JobSummary | None, run: RunSummary | None
) -> dict[str, str]:
    """Return the addresses of the pages that a message speaks of."""
    if public_url is None:
        return {}
    base = public_url.rstrip("/")
    links = {} if incident_id is None else {"incident": f"{base}/incidents/{incident_id}"}
    if job is not None:
        links["job"] = f"{base}/jobs/{quote(job.name)}"
    if run is not None:
        links["run"] = f"{base}/runs/{run.id}"
    return links


async def plan_message(
    session: Session,
    channel: StoredChannel,
    run_id: UUID,
    message: Message,
    now: datetime,
    send_at: datetime,
    incident_id: UUID | None,
    step: int,
) -> None:
    """Plan a message as a run of the channel's system job, inside the transaction of what it tells."""
    values = {"run_id": run_id, "incident_id": incident_id, "channel": channel.name, "event": message.event.value}
    if not await session.fetch("insert_notification", **values, step=step, planned_at=now):
        return
    run = NewRun(
        id=run_id,
        scheduled_at=now,
        local_at=now.replace(tzinfo=None),
        ready_at=send_at,
        expires_at=send_at + MAX_AGE,
        rank=Rank.HIGH,
        kind=Kind.MANUAL,
    )
    row = RunRow(
        channel.job_id,
        _FIRST_VERSION,
        run,
        lane_of_channel(channel.name),
        exclusive=False,
        at_most_once=False,
        payload=json.dumps(message.to_json(), ensure_ascii=False),
    )
    await session.insert_runs([row], now)
