"""The conditions under which a job has trouble, kind by kind."""

from dataclasses import replace
from typing import Any

import pytest

from hourbell.core.alerts.conditions import JobFacts, troubles_of
from hourbell.core.alerts.incident import Incident, Trouble, job_key
from hourbell.core.alerts.kinds import JOB_KINDS, IncidentKind
from hourbell.core.alerts.policy import SILENT, AlertPolicy, Rate
from tests.core.alerts.values import opened, some_facts
from tests.core.values import DAY, HOUR, JOB, MINUTE, SECOND, T0

ALL = AlertPolicy(
    on=JOB_KINDS, slow_after=10 * MINUTE, no_success_for=26 * HOUR, paused_for=7 * DAY, losing_share=0.5
)  # fmt: skip
HOST = "https://example.com:443"


def found(facts: JobFacts, policy: AlertPolicy = ALL, *known: Incident, now: Any = T0) -> dict[str, Trouble]:
    incidents = {incident.key: incident for incident in known}
    troubles = troubles_of(facts, "default", policy, incidents, now)
    return {str(trouble.kind): trouble for _, trouble, _ in troubles if trouble is not None}


@pytest.mark.parametrize(
    ("facts", "kinds"),
    [
        ({}, []),
        ({"streak": 1}, []),
        ({"streak": 2}, ["failed"]),
        ({"streak": 1, "failed_unbegun": True}, ["failed"]),
        ({"streak": 1, "next_at": None}, ["failed"]),
        ({"streak": 1, "next_at": T0 + 2 * DAY}, ["failed"]),
        ({"missed_at": T0, "missed": 3}, ["missed"]),
        ({"late_at": T0 - 5 * MINUTE + SECOND}, []),
        ({"late_at": T0 - 5 * MINUTE}, ["late"]),
        ({"last_success_at": T0 - 26 * HOUR + SECOND}, []),
        ({"last_success_at": T0 - 26 * HOUR}, ["no_success"]),
        ({"created_at": T0 - 26 * HOUR}, ["no_success"]),
        ({"running_since": T0 - 10 * MINUTE}, ["slow"]),
        ({"running_since": T0 - 9 * MINUTE}, []),
        ({"lost_to_overlap": 3, "planned": 2}, ["losing_runs"]),
        ({"lost_to_overlap": 3, "planned": 3}, []),
        ({"lost_to_overlap": 2, "planned": 0}, []),
        ({"is_active": False, "paused_since": T0 - 7 * DAY}, ["paused_too_long"]),
        ({"is_active": False, "paused_since": T0 - 6 * DAY, "streak": 9, "late_at": T0 - DAY}, []),
    ],
)
def test_each_kind_of_trouble_of_a_job(facts: dict[str, Any], kinds: list[str]) -> None:
    assert list(found(some_facts(**facts))) == kinds


def test_a_policy_that_asks_for_nothing_finds_nothing() -> None:
    assert found(some_facts(streak=9, missed_at=T0, missed=1), SILENT) == {}


def test_an_open_incident_is_over_with_a_success_and_not_before() -> None:
    incident = opened()

    assert list(found(some_facts(streak=1), ALL, incident)) == ["failed"]
    assert list(troubles_of(some_facts(), "default", ALL, {incident.key: incident}, T0)) == [
        (incident.key, None, False)
    ]


def test_a_rate_of_failures_opens_an_incident_without_a_streak() -> None:
    policy = replace(ALL, rate=Rate(3, 10))

    assert found(some_facts(recent_failures=2), policy) == {}
    assert found(some_facts(recent_failures=3), policy)["failed"].count == 3


def test_missed_times_are_over_with_the_next_success() -> None:
    incident = replace(opened(), key=job_key(JOB, IncidentKind.MISSED), kind=IncidentKind.MISSED)

    assert list(found(some_facts(last_success_at=T0 - SECOND), ALL, incident)) == ["missed"]
    assert found(some_facts(last_success_at=T0 + SECOND), ALL, incident, now=T0 + SECOND) == {}


def test_jobs_of_one_host_share_an_incident_unless_the_policy_says_otherwise() -> None:
    facts = some_facts(streak=2, lane=HOST)

    assert found(facts)["failed"].key == f"lane:failed:default:{HOST}"
    assert found(facts, replace(ALL, group="none"))["failed"].key == job_key(JOB, IncidentKind.FAILED)
    assert found(some_facts(streak=2))["failed"].key == job_key(JOB, IncidentKind.FAILED)


def test_an_incident_from_before_the_policy_changed_is_over() -> None:
    grouped = replace(opened(), key=f"lane:failed:default:{HOST}")
    facts = some_facts(streak=2, lane=HOST)

    policy = replace(ALL, group="none")
    troubles = {
        key: (trouble is not None, is_moved)
        for key, trouble, is_moved in troubles_of(facts, "default", policy, {grouped.key: grouped}, T0)
    }
    well = troubles_of(replace(facts, streak=0), "default", policy, {grouped.key: grouped}, T0)

    assert troubles == {job_key(JOB, IncidentKind.FAILED): (True, False), grouped.key: (False, True)}
    assert list(well) == [(grouped.key, None, False)]


def test_the_error_of_an_incident_is_the_exception_of_a_traceback() -> None:
    error = 'Traceback (most recent call last):\n  File "job.py", line 3, in main\n    ship(17)\nKeyError: order 17'

    trouble = found(some_facts(streak=2, error=error))["failed"]

    assert trouble.error == "KeyError: order 17"


@pytest.mark.parametrize(
    ("one", "other", "is_same"), [("order 17 is lost", "order 18 is lost", True), ("HTTP 503", "HTTP 500", False)]
)
def test_errors_that_differ_in_numbers_only_are_the_same_trouble(one: str, other: str, is_same: bool) -> None:
    first, second = (found(some_facts(streak=2, error=error))["failed"].fingerprint for error in (one, other))

    assert (first == second) is is_same
