"""Computes how long a node is idle from its database, so that virtual time can jump over quiet hours."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.store.sqlite.connection import Session

LEAD = timedelta(seconds=2)  # a node wakes up so long before work is due, with a working heartbeat
_STRIDE = timedelta(seconds=40)  # max jump while functions run: less than a lease, so that leases are renewed
_WARM_UP = timedelta(seconds=40)  # heartbeats that a reaper needs before it acts
_MAX_HORIZON = timedelta(days=3_650)

_HORIZON_SQL = """
select
    (select min(plan_at) from hourbell_jobs where plan_at is not null and deleted_at is null) as plan_at,
    (select min(ready_at) from hourbell_runs where state in ('pending', 'retrying') and ready_at > ?1) as ready_at,
    (select min(expires_at) from hourbell_runs where state in ('pending', 'retrying')) as expires_at,
    exists (select 1 from hourbell_runs where state in ('pending', 'retrying') and ready_at <= ?1) as has_waiting,
    exists (select 1 from hourbell_runs where state = 'running') as has_running,
    exists (
        select 1 from hourbell_runs where state = 'running'
        and (lease_owner <> ?2 or id in (select run_id from hourbell_cancels))
    ) as has_doomed
"""


@dataclass(frozen=True, slots=True)
class Work:
    """The pending work of a node at a moment. `has_waiting` counts runs that were ready by then."""

    plan_at: datetime | None
    ready_at: datetime | None
    expires_at: datetime | None
    has_waiting: bool
    has_running: bool
    has_doomed: bool  # running: held by a dead node, or cancel requested

    @classmethod
    def at(cls, session: Session, moment: datetime, node_id: UUID) -> "Work":
        [row] = session.fetch(_HORIZON_SQL, moment, node_id)
        times = (row["plan_at"], row["ready_at"], row["expires_at"])
        return cls(*times, bool(row["has_waiting"]), bool(row["has_running"]), bool(row["has_doomed"]))


def is_done(work: Work, now: datetime) -> bool:
    """Return True if no work is due; `work` must be that of the moment `now`."""
    is_planned = work.plan_at is None or work.plan_at > now
    return is_planned and not work.has_waiting and not work.has_running


def idle_until(session: Session, now: datetime, node_id: UUID) -> datetime:
    """Return the time until which nothing happens by itself.

    A run that is ready for longer than LEAD and still waits is blocked by another run of its job. The end of that run
    wakes it, so it needs no polling.
    """
    work = Work.at(session, now - LEAD, node_id)
    if work.has_doomed:
        return now
    until = [at - LEAD for at in (work.plan_at, work.ready_at) if at is not None]
    if work.expires_at is not None and work.expires_at - _WARM_UP > now:
        until.append(work.expires_at - _WARM_UP)
    is_at_work = work.has_running or work.has_waiting
    return min([*until, now + (_STRIDE if is_at_work else _MAX_HORIZON)])
