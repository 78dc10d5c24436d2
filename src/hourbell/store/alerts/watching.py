"""The transactions of the watchers: what is wrong is read, decided and written together, with its messages.

1. Take what tells that a job must be watched: changed streaks of failures, skips, and incidents whose next step is due.
2. Read the facts of those jobs and their unresolved incidents, and let `core.alerts` decide.
3. Write incidents: a new one only if none with its key is unresolved, a known one only at the version that was read.
   Whoever loses a race writes nothing of it; the winner plans the messages (`messages.py`).

All of it commits together. After a crash at any point, either nothing of it is there and the next watcher begins anew,
or all of it is, and the messages are runs that wait.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from hourbell.core.alerts.channel import SYSTEM
from hourbell.core.alerts.conditions import LOSING_WINDOW, JobFacts, troubles_of
from hourbell.core.alerts.incident import Incident, Trouble
from hourbell.core.alerts.kinds import Event, IncidentKind, IncidentState
from hourbell.core.alerts.policy import AlertPolicy, policy_for
from hourbell.core.alerts.scheduler import AFTER_OUTAGE, RECOVERY_KEY, RecoverySummary
from hourbell.core.alerts.watch import (
    NEVER,
    ONE_DAY,
    Before,
    Decision,
    Move,
    after_quiet_hours,
    replaced,
    watch,
)
from hourbell.store.alerts.messages import Messages, Step
from hourbell.store.alerts.reader import MAX_WAITING_ROWS, AlertReader, ChannelState, LateJob, WatchedNode
from hourbell.store.alerts.rows import incident_of, incident_values, policies_of, update_values
from hourbell.store.control.session import Session, Sessions
from hourbell.store.rows import Row

__all__ = ["AlertStore", "ChannelState", "LateJob", "Signal", "WatchResult", "WatchedNode"]

SEEN_INTERVAL = timedelta(minutes=1)  # how often `last_at` is written while nothing else changes
MAX_COUNTED_RUNS = 100_000  # of the summary of recovery mode
_LANE = "lane:"  # of the key of an incident of all jobs of a host


@dataclass(frozen=True, slots=True)
class WatchResult:
    """A step of an incident that was written, for the log."""

    move: Move
    incident: Incident
    event: Event | None
    channels: tuple[str, ...]
    recovery: RecoverySummary | None = None  # at the end of recovery mode


@dataclass(frozen=True, slots=True)
class Signal:
    """A job got no run for some scheduled times."""

    missed_at: datetime | None = None
    missed: int = 0


class AlertStore(AlertReader):
    """`public_url` is where people reach the page, for links in messages; None for messages without links."""

    def __init__(self, sessions: Sessions, *, public_url: str | None = None) -> None:
        super().__init__(sessions)
        self._public_url = public_url

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
            before = await watching.before(found.keys() - known.keys())
            await watching.messages.read_notified(known.values())
            summary: RecoverySummary | None = None
            if RECOVERY_KEY in known and RECOVERY_KEY not in found:
                summary = await _recovery_summary(session, known[RECOVERY_KEY], now)
                known[RECOVERY_KEY] = replace(known[RECOVERY_KEY], error=str(summary))
            for key in sorted({*known, *found}):
                await watching.decide(found.get(key), name, policy, known.get(key), before.get(key, NEVER))
            return [
                replace(each, recovery=summary) if each.incident.key == RECOVERY_KEY else each
                for each in watching.results
            ]

        return await self._sessions.transact(watch_them)

    async def end_quiet_hours(self, now: datetime, limit: int) -> list[WatchResult]:
        """Tell what waited for the end of quiet hours: one message for each channel, about up to `limit` incidents."""
        if not await self._sessions.fetch("quiet_is_over", now=now):
            return []

        async def tell(session: Session) -> list[WatchResult]:
            found = [incident_of(row) for row in await session.fetch("lock_quiet_incidents", now=now, limit=limit)]
            if not found:
                return []
            watching = await _Watching.begin(session, now, self._public_url)
            await watching.messages.read_notified(found)
            await watching.end_quiet_hours(found)
            return watching.results

        return await self._sessions.transact(tell)


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
    is_well: bool = False  # one of the healed jobs is well; the trouble of the others goes on under another key


@dataclass(frozen=True, slots=True)
class _Own:
    """A job's own incident and its trouble, to be decided on."""

    key: str
    name: str
    policy: AlertPolicy
    trouble: Trouble | None
    is_moved: bool


@dataclass(slots=True)
class _Watching:
    """One transaction of a watcher."""

    session: Session
    now: datetime
    policies: Mapping[str, AlertPolicy]
    messages: Messages
    is_held: bool  # recovery mode speaks for all jobs
    results: list[WatchResult] = field(default_factory=list)
    rows: dict[UUID, Row] = field(default_factory=dict)  # the facts of jobs

    @classmethod
    async def begin(cls, session: Session, now: datetime, public_url: str | None) -> "_Watching":
        policies = policies_of(list(await session.fetch("alert_policies")))
        messages = await Messages.begin(session, now, public_url)
        is_held = bool(await session.fetch("unresolved_key", key=RECOVERY_KEY))
        return cls(session, now, policies, messages, is_held)

    async def before(self, keys: Collection[str]) -> dict[str, Before]:
        """Read the past of each key without an unresolved incident."""
        if not keys:
            return {}
        rows = await self.session.fetch("past_incidents", keys=sorted(keys), since=self.now - ONE_DAY)
        return {row["key"]: Before(int(row["openings"]), row["closed_at"]) for row in rows}

    async def watch_jobs(self, ids: Sequence[UUID], signals: Mapping[UUID, Signal]) -> None:
        self.rows = {row["id"]: row for row in await self.session.fetch("job_facts", ids=list(ids))}
        self.messages.rows = self.rows
        facts = await self._facts(signals)
        known: dict[UUID, dict[str, Incident]] = {}
        for row in await self.session.fetch("incidents_of_jobs", ids=list(ids)):
            known.setdefault(row["of_job_id"], {})[row["key"]] = incident_of(row)
        groups: dict[str, _Group] = {}
        own: list[_Own] = []
        for each in facts:
            name, policy = policy_for(each.policy, self.policies)
            for key, trouble, is_moved in troubles_of(each, name, policy, known.get(each.job_id, {}), self.now):
                if not key.startswith(_LANE):
                    own.append(_Own(key, name, policy, trouble, is_moved))
                    continue
                group = groups.setdefault(key, _Group(name, policy))
                if trouble is None:
                    group.healed.append(each.job_id)
                    group.is_well |= not is_moved
                else:
                    group.troubles.append(trouble)
        for job_id in known.keys() - {each.job_id for each in facts}:  # the job was removed with its history
            for key, incident in known[job_id].items():
                name, policy = policy_for(incident.policy, self.policies)
                if key.startswith(_LANE):
                    group = groups.setdefault(key, _Group(name, policy, is_well=True))
                    group.healed.append(job_id)
                else:
                    own.append(_Own(key, name, policy, None, is_moved=False))
        await self._decide_all(own, groups)

    async def _decide_all(self, own: Sequence[_Own], groups: Mapping[str, _Group]) -> None:
        keys = {*groups, *(each.key for each in own)}
        if not keys:
            return
        locked = await self.session.fetch("lock_incidents", keys=sorted(keys))
        incidents = {row["key"]: incident_of(row) for row in locked}
        before = await self.before(keys - incidents.keys())
        await self.messages.read_notified(incidents.values())
        for each in own:
            incident = incidents.get(each.key)
            if each.is_moved and incident is not None:
                await self._replace(incident)
            else:
                await self.decide(each.trouble, each.name, each.policy, incident, before.get(each.key, NEVER))
        for key in sorted(groups):
            await self._watch_group(groups[key], incidents.get(key), before.get(key, NEVER))

    async def _watch_group(self, group: _Group, incident: Incident | None, before: Before) -> None:
        """Watch the incident of a host: each job joins it when it fails, and it is over when all are well."""
        if incident is None:
            news = [each for each in group.troubles if each.is_news(before.closed_at)]
            if news:
                last = replace(news[-1], group_size=len(news))
                made = await self.decide(last, group.name, group.policy, None, before)
                await self._join(made, news)
            return
        trouble = await self._newest(group.troubles, incident)
        await self._join(incident, group.troubles)
        if group.healed:
            values = {"incident_id": incident.id, "job_ids": group.healed, "now": self.now}
            await self.session.execute("heal_jobs", **values)
        [counts] = await self.session.fetch("count_members", incident_id=incident.id)
        if trouble is None and counts["troubled"]:
            trouble = _same(incident)  # others are not well yet
        if trouble is None and group.healed and not group.is_well:
            await self._replace(incident)
            return
        if trouble is not None:
            trouble = replace(trouble, group_size=int(counts["members"]))
        made = await self.decide(trouble, group.name, group.policy, incident, before)
        if made is not None and made.id != incident.id:  # it has taken the place of the one that was acknowledged
            await self.session.execute("move_members", old_id=incident.id, new_id=made.id, now=self.now)

    async def _newest(self, troubles: Sequence[Trouble], incident: Incident) -> Trouble | None:
        """Return the trouble that the incident shows: one with an error that none of its jobs had before, if any.

        An error that another job had is no news about the host.
        """
        if not troubles:
            return None
        if incident.state is not IncidentState.ACKNOWLEDGED:
            return troubles[-1]
        rows = await self.session.fetch("member_fingerprints", incident_id=incident.id)
        known = {incident.fingerprint, *(row["fingerprint"] for row in rows)}
        news = [trouble for trouble in troubles if trouble.fingerprint not in known]
        return news[-1] if news else replace(troubles[-1], error=incident.error, fingerprint=incident.fingerprint)

    async def _join(self, incident: Incident | None, troubles: Sequence[Trouble]) -> None:
        if incident is not None:
            rows = [
                {
                    "incident_id": incident.id,
                    "job_id": each.job_id,
                    "fingerprint": each.fingerprint,
                    "now": self.now,
                }
                for each in troubles
            ]
            await self.session.execute_many("join_incident", rows)

    async def decide(
        self,
        trouble: Trouble | None,
        name: str,
        policy: AlertPolicy,
        incident: Incident | None,
        before: Before,
    ) -> Incident | None:
        """Decide about one key and write it; return the incident that is stored for it, None if this lost a race."""
        kind = trouble.kind if trouble is not None else incident.kind if incident is not None else None
        is_held = self.is_held and kind is not IncidentKind.RECOVERY
        audience = self.messages.audience(incident)
        decision = watch(trouble, name, policy, incident, self.now, before=before, audience=audience, held=is_held)
        if decision.incident is None or decision.incident == incident:
            return incident
        if not await self._write(decision, incident):
            return None
        if decision.move is Move.REPLACE:
            return await self.decide(trouble, name, policy, None, NEVER)
        return decision.incident

    async def _replace(self, incident: Incident) -> None:
        """Resolve an incident whose trouble goes on under another key."""
        await self._write(replaced(incident, self.now, self.messages.audience(incident)), incident)

    async def end_quiet_hours(self, incidents: Sequence[Incident]) -> None:
        """Write what these incidents say at the end of quiet hours, and plan one message for each channel."""
        steps: list[Step] = []
        for incident in incidents:
            _, policy = policy_for(incident.policy, self.policies)
            is_held = self.is_held and incident.kind is not IncidentKind.RECOVERY
            audience = self.messages.audience(incident)
            decision = after_quiet_hours(incident, policy, self.now, audience, held=is_held)
            assert decision.incident is not None  # it always stores at least that it waits no more
            if not await self._store(decision.incident, incident):
                continue
            step = self._step(decision)
            if step is not None:
                steps.append(step)
            self._note(decision, step)
        await self.messages.plan_digests(steps)

    async def _write(self, decision: Decision, known: Incident | None) -> bool:
        incident = decision.incident
        assert incident is not None  # the caller's condition
        if known is not None and decision.move is Move.KEEP and _is_only_seen(incident, known):
            return True  # a look that finds nothing new writes nothing, or once a minute the time
        if not await self._store(incident, known):
            return False
        step = self._step(decision)
        if step is not None:
            await self.messages.plan(step)
        self._note(decision, step)
        return True

    async def _store(self, incident: Incident, known: Incident | None) -> bool:
        """Write an incident; return False if another watcher was faster."""
        if known is None:
            return bool(await self.session.fetch("insert_incident", **incident_values(incident)))
        if known.is_resolved:
            return bool(await self.session.fetch("tell_resolved", id=incident.id, version=incident.version))
        return bool(await self.session.fetch("update_incident", **update_values(incident)))

    def _step(self, decision: Decision) -> Step | None:
        """Return the message of a decision, for the channels there are."""
        incident = decision.incident
        if decision.event is None or incident is None:
            return None
        return Step(incident, decision.event, self.messages.existing(incident, decision.notify))

    def _note(self, decision: Decision, step: Step | None) -> None:
        if decision.move is not Move.KEEP and decision.incident is not None:
            channels = () if step is None else step.channels
            self.results.append(WatchResult(decision.move, decision.incident, decision.event, channels))

    async def _facts(self, signals: Mapping[UUID, Signal]) -> list[JobFacts]:
        ids = [job_id for job_id, row in self.rows.items() if row["managed_by"] != SYSTEM]
        waiting = {row["job_id"]: row for row in await self.session.fetch("oldest_waiting", ids=ids, now=self.now)}
        running: dict[UUID, Row] = {}
        for row in await self.session.fetch("begun_of_jobs", ids=ids, rows=MAX_WAITING_ROWS):
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
            more |= {"lost_to_overlap": int(lost["lost"]), "planned": int(lost["planned"]), "lost_at": lost["lost_at"]}
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
            failed_at=row["failed_at"],
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
