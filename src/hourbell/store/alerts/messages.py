"""Messages of incidents: each is planned as a run of a channel's system job, in the transaction of what it tells.

The id of a message follows from channel, incident and step, so that a message that was planned before is not planned
again. A digest is one message about several incidents, and its id follows from all of them.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import quote
from uuid import UUID

from hourbell.core.alerts.channel import StoredChannel, lane_of_channel
from hourbell.core.alerts.incident import Incident, channel_key, digest_id, notification_id
from hourbell.core.alerts.kinds import Event
from hourbell.core.alerts.message import DigestItem, IncidentSummary, JobSummary, Message, RunSummary
from hourbell.core.alerts.watch import NOBODY, Audience
from hourbell.core.run.policies import Rank
from hourbell.core.run.run import NewRun
from hourbell.core.run.states import Kind
from hourbell.store.alerts.rows import channel_of, job_summary, run_summary
from hourbell.store.control.session import Session
from hourbell.store.engine.batch import RunRow
from hourbell.store.rows import Row

MAX_AGE = timedelta(hours=24)  # of a message that cannot be delivered
NAMED_JOBS = 10  # of a group, in a message
MAX_DIGEST_ITEMS = 50  # incidents in a message; of more, the number
_FIRST_VERSION = 1  # of a channel's system job, which never changes


@dataclass(frozen=True, slots=True)
class Step:
    """A message about an incident that is due, and the channels that get it."""

    incident: Incident
    event: Event
    channels: tuple[str, ...]


@dataclass(slots=True)
class Messages:
    """The messages of one transaction."""

    session: Session
    now: datetime
    public_url: str | None
    channels: Mapping[str, StoredChannel]
    rows: dict[UUID, Row] = field(default_factory=dict)  # facts of jobs that were read already
    _notified_of: dict[UUID, set[str]] = field(default_factory=dict)

    @classmethod
    async def begin(cls, session: Session, now: datetime, public_url: str | None) -> "Messages":
        channels = {row["name"]: channel_of(row) for row in await session.fetch("channels")}
        return cls(session, now, public_url, channels)

    async def read_notified(self, incidents: Collection[Incident]) -> None:
        """Read which channels have got messages of these incidents."""
        if not (incidents and self.channels):
            return
        for row in await self.session.fetch("notified_channels", ids=[incident.id for incident in incidents]):
            self._notified_of.setdefault(row["incident_id"], set()).add(row["channel"])

    def audience(self, incident: Incident | None) -> Audience:
        """Return the channels that messages of the incident can go to. The channel that fails gets none about that."""
        if incident is None:
            return NOBODY
        return Audience(
            channels=self.existing(incident, None),
            notified=frozenset(self._notified_of.get(incident.id, ())),
            stateful=frozenset(name for name, channel in self.channels.items() if channel.is_stateful),
        )

    def existing(self, incident: Incident, names: Iterable[str] | None) -> tuple[str, ...]:
        """Return those of the channels, all if None, that a message of the incident can go to."""
        wanted = self.channels if names is None else names
        return tuple(name for name in wanted if name in self.channels and incident.key != channel_key(name))

    async def plan(self, step: Step) -> None:
        """Plan a message about one incident for each of its channels."""
        if not step.channels:
            return
        incident = step.incident
        job, run = await self._job_summary(incident), await self._run_summary(incident)
        jobs = await self._member_names(incident, job)
        for name in step.channels:
            channel = self.channels[name]
            run_id = notification_id(channel.job_id, incident.id, incident.steps)
            message = Message(
                id=str(run_id),
                event=step.event,
                at=self.now,
                channel=channel.name,
                incident=IncidentSummary.of(incident, jobs),
                job=job,
                run=run,
                links=links_of(self.public_url, incident.id, job, run),
            )
            await plan_message(self.session, channel, run_id, message, self.now, [step])

    async def plan_digests(self, steps: Sequence[Step]) -> None:
        """Plan one message for each channel: a digest, if it is about several incidents.

        A receiver that keeps a state for each incident gets a message about each.
        """
        by_channel: dict[str, list[Step]] = {}
        for step in steps:
            for name in step.channels:
                by_channel.setdefault(name, []).append(step)
        items: dict[UUID, DigestItem] = {}
        for name, due in by_channel.items():
            channel = self.channels[name]
            if channel.is_stateful or len(due) == 1:
                for step in due:
                    await self.plan(Step(step.incident, step.event, (name,)))
                continue
            for step in due[:MAX_DIGEST_ITEMS]:
                if step.incident.id not in items:
                    items[step.incident.id] = await self._digest_item(step)
            await self._plan_digest(channel, due, [items[step.incident.id] for step in due[:MAX_DIGEST_ITEMS]])

    async def _plan_digest(self, channel: StoredChannel, due: Sequence[Step], items: Sequence[DigestItem]) -> None:
        run_id = digest_id(channel.job_id, ((step.incident.id, step.incident.steps) for step in due))
        links = {} if self.public_url is None else {"incidents": f"{self.public_url.rstrip('/')}/incidents"}
        message = Message(
            id=str(run_id),
            event=Event.QUIET_DIGEST,
            at=self.now,
            channel=channel.name,
            links=links,
            items=tuple(items),
            total=len(due),
        )
        await plan_message(self.session, channel, run_id, message, self.now, due)

    async def _digest_item(self, step: Step) -> DigestItem:
        job = await self._job_summary(step.incident)
        return DigestItem(step.event, IncidentSummary.of(step.incident, await self._member_names(step.incident, job)))

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
    session: Session, channel: StoredChannel, run_id: UUID, message: Message, now: datetime, steps: Sequence[Step] = ()
) -> None:
    """Plan a message about these steps as a run of the channel's system job; a test of the channel has none."""
    values = {"run_id": run_id, "channel": channel.name, "planned_at": now}
    about: list[tuple[UUID | None, Event, int]] = [
        (step.incident.id, step.event, step.incident.steps) for step in steps
    ] or [(None, message.event, 0)]
    is_new = False
    for incident_id, event, step in about:
        about_one = {"incident_id": incident_id, "event": event.value, "step": step}
        is_new = bool(await session.fetch("insert_notification", **values, **about_one)) or is_new
    if not is_new:
        return
    run = NewRun(
        id=run_id,
        scheduled_at=now,
        local_at=now.replace(tzinfo=None),
        ready_at=now,
        expires_at=now + MAX_AGE,
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
