"""Derive the troubles of a job from the facts in the tables, as far as its policy asks for them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.core.alerts.incident import MAX_ERROR_CHARACTERS, Incident, Trouble, job_key, lane_key
from hourbell.core.alerts.kinds import IncidentKind
from hourbell.core.alerts.policy import AlertPolicy
from hourbell.core.run.error_line import error_line
from hourbell.core.run.fingerprint import fingerprint_of
from hourbell.core.values.readers import show_duration

RARE = timedelta(days=1)  # a job whose next run is further away does not wait for a second failure
LOSING_WINDOW = timedelta(days=1)
MIN_LOST_TIMES = 3  # skips in that window, before their share counts


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The facts about one job, read in one transaction.

    `streak` is the number of runs that failed since the last success, `failing_since` the end of the first of them, and
    `failed_at` that of the last one. `late_at` is the scheduled time of the oldest run that waits and has never begun,
    and `running_since` the start of the first attempt of the oldest run that has begun and not ended. `missed_at` is
    the newest scheduled time that got no run, of those not yet reported.
    """

    job_id: UUID
    name: str
    policy: str
    is_active: bool  # enabled and not deleted
    lane: str
    late_after: timedelta
    next_at: datetime | None = None
    created_at: datetime | None = None
    paused_since: datetime | None = None
    streak: int = 0
    failing_since: datetime | None = None
    failed_run: UUID | None = None
    failed_at: datetime | None = None
    failed_unbegun: bool = False  # the last failed run never had an attempt
    error: str | None = None
    last_success_at: datetime | None = None
    recent_failures: int = 0  # among the runs that `rate` looks at
    late_at: datetime | None = None
    late_run: UUID | None = None
    running_since: datetime | None = None
    running_run: UUID | None = None
    missed_at: datetime | None = None
    missed: int = 0
    lost_to_overlap: int = 0  # within LOSING_WINDOW
    lost_at: datetime | None = None  # the last of them
    planned: int = 0  # runs within LOSING_WINDOW


def troubles_of(
    facts: JobFacts, name: str, policy: AlertPolicy, known: Mapping[str, Incident], now: datetime
) -> Iterator[tuple[str, Trouble | None, bool]]:
    """Yield the key of each incident that the job can have, with what is wrong; None if it is not, or no longer.

    `name` is that of the policy; `known` has the job's unresolved incidents by their keys. Only keys that have an
    incident or a trouble are yielded. The flag is True if the trouble goes on under another key, because the job's
    policy or target was changed.
    """
    found: set[IncidentKind] = set()
    keys = {kind: key_of(facts, kind, name, policy) for kind in _CONDITIONS}
    for kind, condition in _CONDITIONS.items():
        key = keys[kind]
        incident = known.get(key)
        is_asked = kind in policy.on and (facts.is_active or kind is IncidentKind.PAUSED_TOO_LONG)
        trouble = condition(facts, key, policy, incident, now) if is_asked else None
        if trouble is not None:
            found.add(kind)
        if trouble is not None or incident is not None:
            yield key, trouble, False
    for key in known.keys() - set(keys.values()):  # from before the policy or the target was changed
        yield key, None, known[key].kind in found


def key_of(facts: JobFacts, kind: IncidentKind, name: str, policy: AlertPolicy) -> str:
    """Return the key of the incident of a job: its own, or that of all jobs with the same policy and host."""
    if kind is IncidentKind.FAILED and group_of(facts, policy) is not None:
        return lane_key(f"{name}:{facts.lane}", kind)
    return job_key(facts.job_id, kind)


def group_of(facts: JobFacts, policy: AlertPolicy) -> str | None:
    """Return the lane by which a job's failures are grouped; None if they are not."""
    return facts.lane if policy.group == "host" and facts.lane.startswith(("http://", "https://")) else None


def _failed(facts: JobFacts, key: str, policy: AlertPolicy, incident: Incident | None, now: datetime) -> Trouble | None:
    is_rare = facts.next_at is None or facts.next_at - now > RARE
    needed = policy.failures_needed(never_began=facts.failed_unbegun, is_rare=is_rare)
    if incident is not None:
        needed = 1  # it is over with a success, not before
    by_rate = policy.rate is not None and facts.recent_failures >= policy.rate.failed
    if facts.streak < needed and not by_rate:
        return None
    return Trouble(
        key=key,
        kind=IncidentKind.FAILED,
        since=facts.failing_since or now,
        error=error_line(facts.error)[:MAX_ERROR_CHARACTERS],
        fingerprint=fingerprint_of(facts.error, facts.lane, None),
        count=max(facts.streak, facts.recent_failures if by_rate else 0, 1),
        job_id=facts.job_id,
        run_id=facts.failed_run,
        lane=group_of(facts, policy),
        news_at=facts.failed_at,
    )


def _missed(facts: JobFacts, key: str, policy: AlertPolicy, incident: Incident | None, now: datetime) -> Trouble | None:
    del policy
    if facts.missed_at is None:
        is_over = incident is None or (facts.last_success_at is not None and facts.last_success_at > incident.opened_at)
        if is_over or incident is None:
            return None
        return _again(incident, key)
    count = facts.missed + (0 if incident is None else incident.count)
    since = now if incident is None else incident.opened_at
    return _trouble(facts, key, IncidentKind.MISSED, since, "scheduled times got no run", count=count)


def _late(facts: JobFacts, key: str, policy: AlertPolicy, incident: Incident | None, now: datetime) -> Trouble | None:
    del policy, incident
    if facts.late_at is None or now < facts.late_at + facts.late_after:
        return None
    text = f"a run has not begun {show_duration(facts.late_after)} after its scheduled time"
    return _trouble(facts, key, IncidentKind.LATE, facts.late_at + facts.late_after, text, run_id=facts.late_run)


def _no_success(
    facts: JobFacts, key: str, policy: AlertPolicy, incident: Incident | None, now: datetime
) -> Trouble | None:
    del incident
    since = facts.last_success_at or facts.created_at
    if policy.no_success_for is None or since is None or now < since + policy.no_success_for:
        return None
    text = f"no run succeeded for {show_duration(policy.no_success_for)}"
    return _trouble(facts, key, IncidentKind.NO_SUCCESS, since + policy.no_success_for, text)


def _slow(facts: JobFacts, key: str, policy: AlertPolicy, incident: Incident | None, now: datetime) -> Trouble | None:
    del incident
    if policy.slow_after is None or facts.running_since is None or now < facts.running_since + policy.slow_after:
        return None
    text = f"a run takes longer than {show_duration(policy.slow_after)}"
    since = facts.running_since + policy.slow_after
    return _trouble(facts, key, IncidentKind.SLOW, since, text, run_id=facts.running_run)


def _losing_runs(
    facts: JobFacts, key: str, policy: AlertPolicy, incident: Incident | None, now: datetime
) -> Trouble | None:
    del incident
    total = facts.lost_to_overlap + facts.planned
    if policy.losing_share is None or facts.lost_to_overlap < MIN_LOST_TIMES:
        return None
    if facts.lost_to_overlap <= policy.losing_share * total:
        return None
    text = "runs are skipped because earlier ones have not ended"
    trouble = _trouble(facts, key, IncidentKind.LOSING_RUNS, now, text, count=facts.lost_to_overlap)
    return replace(trouble, news_at=facts.lost_at)


def _paused_too_long(
    facts: JobFacts, key: str, policy: AlertPolicy, incident: Incident | None, now: datetime
) -> Trouble | None:
    del incident
    if policy.paused_for is None or facts.paused_since is None or now < facts.paused_since + policy.paused_for:
        return None
    text = f"the job has been paused for {show_duration(policy.paused_for)}"
    return _trouble(facts, key, IncidentKind.PAUSED_TOO_LONG, facts.paused_since + policy.paused_for, text)


_CONDITIONS = {
    IncidentKind.FAILED: _failed,
    IncidentKind.MISSED: _missed,
    IncidentKind.LATE: _late,
    IncidentKind.NO_SUCCESS: _no_success,
    IncidentKind.SLOW: _slow,
    IncidentKind.LOSING_RUNS: _losing_runs,
    IncidentKind.PAUSED_TOO_LONG: _paused_too_long,
}


def _trouble(
    facts: JobFacts,
    key: str,
    kind: IncidentKind,
    since: datetime,
    text: str,
    *,
    count: int = 1,
    run_id: UUID | None = None,
) -> Trouble:
    return Trouble(key, kind, since, text, kind, count, job_id=facts.job_id, run_id=run_id)


def _again(incident: Incident, key: str) -> Trouble:
    """Return the trouble of an incident that is not over yet, without anything new."""
    return Trouble(
        key,
        incident.kind,
        incident.opened_at,
        incident.error,
        incident.fingerprint,
        incident.count,
        job_id=incident.job_id,
        run_id=incident.run_id,
    )
