"""Troubles of Hourbell itself: silent nodes, lanes nobody serves, channels that fail, many late runs."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.core.alerts.channel import LANE_PREFIX
from hourbell.core.alerts.incident import MAX_ERROR_CHARACTERS, Trouble, channel_key, lane_key
from hourbell.core.alerts.kinds import IncidentKind
from hourbell.core.run.error_line import error_line
from hourbell.core.run.fingerprint import fingerprint_of
from hourbell.core.run.policies import CatchUp
from hourbell.core.values.readers import show_duration

RECOVERY_KEY, PLANNING_KEY = "recovery", "planning"
MANY_LATE_RUNS = 10  # more than so many late runs, of a share of all jobs, are recovery mode
LATE_SHARE = 0.1
MAX_LATE_JOBS = 500  # no more are counted; so many are a share of any number
PLANNING_SILENT = timedelta(seconds=60)  # how long a job may be due before planning counts as silent
GONE_AFTER = timedelta(hours=1)  # a node that has been silent for so long is not expected back
UNSERVED_FOR = timedelta(seconds=60)
LONG_OUTAGE, AFTER_OUTAGE = timedelta(minutes=1), timedelta(seconds=30)
CHANNEL_SILENT = timedelta(seconds=30)
_SECOND = timedelta(seconds=1)
_EFFECTS = {
    CatchUp.LATEST: "with a run of the newest missed time only",
    CatchUp.EARLIEST: "with a run of the oldest missed time only",
    CatchUp.ALL: "with a run of every missed time",
    CatchUp.NONE: "with no run of a missed time",
}


@dataclass(frozen=True, slots=True)
class NodeFacts:
    id: UUID
    host: str
    started_at: datetime
    beat_at: datetime


@dataclass(frozen=True, slots=True)
class LateRuns:
    """Runs that wait past their `late_after`, as far as they were counted, and the jobs they belong to."""

    runs: int = 0
    jobs: int = 0
    oldest_at: datetime | None = None
    policies: Mapping[str, int] = field(default_factory=dict)  # how many of the jobs have which catch-up policy

    @property
    def effect(self) -> str:
        """The effect of the catch-up policies of the late jobs on missed times, in words."""
        counts = sorted(self.policies.items(), key=lambda item: -item[1])
        return ", ".join(f"{_jobs(count)} {_EFFECTS[CatchUp(policy)]}" for policy, count in counts)


@dataclass(frozen=True, slots=True)
class RecoverySummary:
    """The numbers of a recovery that is over."""

    duration: timedelta
    ended: int
    succeeded: int
    failed: int
    skipped: int

    @property
    def runs_per_second(self) -> float:
        return self.ended / max(self.duration.total_seconds(), 1.0)

    def __str__(self) -> str:
        return (
            f"caught up in {_shown(self.duration)}: {self.ended:,} runs ended ({self.runs_per_second:,.1f} a second), "
            f"{self.succeeded:,} succeeded, {self.failed:,} failed; {self.skipped:,} scheduled times were skipped"
        )


def silent_nodes(nodes: Collection[NodeFacts], now: datetime, silent_after: timedelta) -> Iterator[Trouble]:
    """Yield a trouble for each node that stopped its heartbeats without a goodbye, and that nothing has replaced.

    A node that was restarted has another id on the same host, and has started since. If no node is alive, nobody is
    there to notify, and the one that comes back needs no message about the others.
    """
    alive = [node for node in nodes if now - node.beat_at <= silent_after]
    for node in nodes if alive else ():
        silence = now - node.beat_at
        is_replaced = any(other.host == node.host and other.started_at > node.beat_at for other in alive)
        if silent_after < silence < GONE_AFTER and not is_replaced:
            text = f"the node on {node.host} sent its last heartbeat at {node.beat_at:%H:%M:%S} UTC"
            yield Trouble(f"node:{node.id}", IncidentKind.SCHEDULER_SILENT, node.beat_at, text, "node")


def silent_planning(earliest_plan_at: datetime | None, now: datetime) -> Trouble | None:
    """Return the trouble that due jobs are not planned by any node."""
    if earliest_plan_at is None or now - earliest_plan_at <= PLANNING_SILENT:
        return None
    text = f"a job has been due since {earliest_plan_at:%H:%M:%S} UTC, and no node plans it"
    return Trouble(PLANNING_KEY, IncidentKind.SCHEDULER_SILENT, earliest_plan_at, text, PLANNING_KEY)


def unserved_lanes(lanes: Iterable[tuple[str, datetime]], now: datetime) -> Iterator[Trouble]:
    """Yield a trouble for each of these lanes, which no live node serves, if its first run has waited long enough."""
    for lane, ready_at in lanes:
        if now - ready_at >= UNSERVED_FOR:
            text = _unserved_text(lane)
            kind = IncidentKind.UNSERVED
            yield Trouble(lane_key(lane, kind), kind, ready_at, text, kind, lane=lane)


def _unserved_text(lane: str) -> str:
    if not lane.startswith(LANE_PREFIX):
        return f"runs wait for a node that serves {lane}"
    name = lane.removeprefix(LANE_PREFIX)
    needs = "the key of its secrets, or for e-mail HOURBELL_SMTP_URL"
    return f"messages to the channel {name} wait: no live node can deliver them; a node needs {needs}"


def failing_channel(
    name: str, failing_since: datetime | None, error: str, run_id: UUID | None, now: datetime
) -> Trouble | None:
    """Return the trouble of a channel whose messages fail: for a while, or for good."""
    if failing_since is None or (run_id is None and now - failing_since < CHANNEL_SILENT):
        return None
    text = f"the channel {name} cannot deliver: {error_line(error)[:MAX_ERROR_CHARACTERS]}"
    return Trouble(
        channel_key(name),
        IncidentKind.CHANNEL_FAILED,
        failing_since,
        text,
        fingerprint_of(error, name, None),
        run_id=run_id,
    )


def recovery(
    late: LateRuns, active_jobs: int, now: datetime, *, is_on: bool, outage: tuple[datetime, datetime] | None = None
) -> Trouble | None:
    """Return the trouble that stands for all late jobs: from many late runs on, until none is late.

    An outage that has just ended is one, too, for as long as its backlog may take to show.
    """
    is_many = late.runs > MANY_LATE_RUNS and late.jobs > 1 and late.jobs >= min(LATE_SHARE * active_jobs, MAX_LATE_JOBS)
    is_after_outage = outage is not None and outage[1] - outage[0] >= LONG_OUTAGE and now - outage[1] <= AFTER_OUTAGE
    if not (is_many or is_after_outage or (is_on and late.runs)):
        return None
    texts = []
    if outage is not None and is_after_outage:
        texts.append(f"the scheduler was down for {_shown(outage[1] - outage[0])}")
    if late.oldest_at is not None:
        age = _shown(now - late.oldest_at)
        effect = f" ({late.effect})" if late.policies else ""
        texts.append(f"{late.runs} runs of {_jobs(late.jobs)} are late, the oldest by {age}{effect}")
    return Trouble(
        RECOVERY_KEY,
        IncidentKind.RECOVERY,
        late.oldest_at or (outage[1] if outage is not None and is_after_outage else now),
        "; ".join(texts),
        RECOVERY_KEY,
        count=late.runs,
        group_size=late.jobs,
    )


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _shown(span: timedelta) -> str | float:
    return show_duration(span // _SECOND * _SECOND)
