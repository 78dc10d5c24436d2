"""Small values for tests of alerts: a job that fails, and its incident."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hourbell.core.alerts.conditions import JobFacts
from hourbell.core.alerts.incident import Incident, Trouble, job_key
from hourbell.core.alerts.kinds import IncidentKind
from hourbell.core.alerts.policy import AlertPolicy
from hourbell.core.alerts.watch import Before, watch
from tests.core.values import HOUR, JOB, MINUTE, T0

KEY = job_key(JOB, IncidentKind.FAILED)
OPS = AlertPolicy(notify=("ops",))


def some_facts(**more: Any) -> JobFacts:
    values = {"policy": "", "is_active": True, "lane": "task:a", "late_after": 5 * MINUTE, "next_at": T0 + HOUR}
    return JobFacts(**{"job_id": JOB, "name": "job", "created_at": T0, **values, **more})


def some_trouble(**more: Any) -> Trouble:
    values = {"key": KEY, "kind": IncidentKind.FAILED, "since": T0, "error": "HTTP 503", "fingerprint": "a"}
    return Trouble(**{**values, "job_id": JOB, **more})


def opened(policy: AlertPolicy = OPS, *, opened_before: int = 0, **more: Any) -> Incident:
    """An incident that was opened and notified at T0."""
    decision = watch(some_trouble(), "default", policy, None, T0, before=Before(opened_before))
    assert decision.incident is not None
    return replace(decision.incident, **more)


def after(minutes: float = 0, hours: float = 0) -> timedelta:
    return timedelta(minutes=minutes, hours=hours)
