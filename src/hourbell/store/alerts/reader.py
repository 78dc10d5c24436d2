"""Reads of the watchers: what may be wrong, and what is known of nodes, channels, policies and incidents."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from hourbell.core.alerts.channel import StoredChannel
from hourbell.core.alerts.policy import AlertPolicy
from hourbell.core.alerts.scheduler import RECOVERY_KEY
from hourbell.store.alerts.rows import channel_of, policies_of
from hourbell.store.control.session import Sessions

CHANNEL_FAILURES = 3  # attempts of a message, before the channel counts as failing
MAX_WAITING_ROWS = 1_000  # waiting runs of a job that are looked at, from the oldest on and from the newest on
MAX_RETRYING_ROWS = 5_000  # runs between attempts that are looked at for slow ones
_NOBODY = UUID(int=0)


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


class AlertReader:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def has_work(self, now: datetime) -> bool:
        """Return True if `watch_jobs` or `end_quiet_hours` would find something to do."""
        [row] = await self._sessions.fetch("alert_work", now=now)
        return bool(row["is_due"])

    async def incident_jobs(self, after: UUID | None, limit: int) -> tuple[list[UUID], UUID | None]:
        """Return jobs of unresolved incidents, page by page, to be watched again; and where the next page begins."""
        rows = await self._sessions.fetch("unresolved_incidents", after=after or _NOBODY, limit=limit)
        return [row["job_id"] for row in rows], rows[-1]["id"] if len(rows) == limit else None

    async def late_jobs(self, now: datetime, limit: int) -> list[LateJob]:
        """Return jobs with runs that wait past their `late_after`; the oldest runs of each lane are looked at."""
        rows = await self._sessions.fetch("late_jobs", now=now, rows=2 * limit, limit=limit)
        return [LateJob(row["job_id"], row["runs"], row["oldest_at"], row["catch_up"]) for row in rows]

    async def waiting_jobs(
        self, now: datetime, after: UUID | None, limit: int
    ) -> tuple[Sequence[LateJob], UUID | None]:
        """Return the late ones of a page of all jobs with runs that wait, and where the next page begins."""
        values = {"now": now, "after": after or _NOBODY, "limit": limit, "rows": MAX_WAITING_ROWS}
        rows = await self._sessions.fetch("waiting_jobs", **values)
        late = [
            LateJob(row["job_id"], 1, row["late_at"], row["catch_up"]) for row in rows if row["late_at"] is not None
        ]
        return late, rows[-1]["job_id"] if len(rows) == limit else None

    async def slow_jobs(self, before: datetime, limit: int) -> list[UUID]:
        """Return jobs with a run that began before then and has not ended; of those between attempts, the oldest."""
        rows = await self._sessions.fetch("slow_runs", before=before, limit=limit, rows=MAX_RETRYING_ROWS)
        return [row["job_id"] for row in rows]

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


def _sortable(at: datetime) -> str:
    """Return a UTC time as text that sorts by time."""
    return at.isoformat(timespec="microseconds")
