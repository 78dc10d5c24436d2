"""Alert policies as people write them: every error at once, and what is read is written as it was."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.alerts.kinds import JOB_KINDS, IncidentKind
from hourbell.core.alerts.policy import (
    BUILT_IN,
    SILENT,
    AlertPolicy,
    Escalation,
    QuietHours,
    Rate,
    parse_policy,
    policy_for,
    policy_to_body,
)
from hourbell.core.values.field_errors import BodyError
from tests.core.schedule.strategies import examples

spans = st.timedeltas(timedelta(minutes=5), timedelta(days=30)).map(
    lambda span: timedelta(seconds=span // timedelta(seconds=1))
)
names = st.lists(st.sampled_from(["ops", "pager", "mail"]), unique=True, max_size=3).map(tuple)
policies = st.builds(
    AlertPolicy,
    on=st.just(frozenset(JOB_KINDS)),
    after=st.none() | st.integers(1, 100),
    rate=st.none() | st.integers(1, 10).map(lambda failed: Rate(failed, 10)),
    notify=st.none() | names,
    repeat=st.none() | spans,
    escalate=st.lists(spans, unique=True, max_size=3).map(
        lambda after: tuple(Escalation(each, ("pager",)) for each in sorted(after))
    ),
    resolve=st.booleans(),
    quiet_hours=st.none() | st.just(QuietHours(time(22), time(7), "Europe/Berlin")),
    group=st.sampled_from(["host", "none"]),
    slow_after=spans,
    no_success_for=spans,
    paused_for=spans,
    losing_share=st.just(0.5),
)


def errors_of(body: Any) -> dict[str, str]:
    with pytest.raises(BodyError) as refused:
        parse_policy(body)
    return {error.pointer: error.text for error in refused.value.errors}


@examples(200)
@given(policies)
def test_a_policy_is_read_as_it_was_written(policy: AlertPolicy) -> None:
    assert parse_policy(policy_to_body(policy)) == policy


def test_an_empty_policy_is_the_built_in_one() -> None:
    assert parse_policy({}) == BUILT_IN


def test_all_errors_are_reported_at_once() -> None:
    body = {
        "on": ["failed", "failing"], "after": 0, "rate": "11 of 10", "notify": ["a b"], "repeat": "1s",
        "escalate": [{"after": "30m", "notify": ["x"]}, {"after": "10m", "notify": []}], "resolve": "yes",
        "quiet_hours": {"from": "25:00", "until": "07:00", "timezone": "Mars"}, "group": "team", "repaet": "1h",
    }  # fmt: skip

    assert list(errors_of(body)) == [
        "/on/1", "/after", "/rate", "/notify/0", "/repeat", "/escalate/1/after", "/resolve", "/quiet_hours/from",
        "/quiet_hours/timezone", "/group", "/repaet",
    ]  # fmt: skip
    assert "did you mean repeat?" in errors_of(body)["/repaet"]


def test_null_is_a_value_only_where_it_means_something() -> None:
    nulls = dict.fromkeys(policy_to_body(BUILT_IN))

    assert sorted(errors_of(nulls)) == ["/escalate", "/group", "/on", "/resolve"]
    assert parse_policy({"after": None, "notify": None, "repeat": None}) == BUILT_IN


@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        ("slow", "slow_after"),
        ("no_success", "no_success_for"),
        ("paused_too_long", "paused_for"),
        ("losing_runs", "losing_share"),
    ],
)
def test_a_kind_that_needs_a_limit_says_which(kind: str, limit: str) -> None:
    assert limit in errors_of({"on": [kind]})[f"/{limit}"]


@pytest.mark.parametrize(
    ("after", "never_began", "is_rare", "needed"),
    [(None, False, False, 2), (None, True, False, 1), (None, False, True, 1), (5, True, True, 5), (1, False, False, 1)],
)
def test_how_many_failures_open_an_incident(after: int | None, never_began: bool, is_rare: bool, needed: int) -> None:
    assert AlertPolicy(after=after).failures_needed(never_began=never_began, is_rare=is_rare) == needed


def test_a_job_without_a_known_policy_gets_the_default() -> None:
    mine, default = AlertPolicy(after=7), AlertPolicy(after=3)

    assert policy_for("mine", {"mine": mine, "default": default}) == ("mine", mine)
    assert policy_for("", {"default": default}) == ("default", default)
    assert policy_for("gone", {}) == ("default", BUILT_IN)
    assert policy_for("none", {"default": default}) == ("none", SILENT)


@pytest.mark.parametrize(
    ("at", "until"),
    [
        ("21:59", None),
        ("22:00", "07:00"),
        ("03:00", "07:00"),
        ("06:59", "07:00"),
        ("07:00", None),
        ("12:00", None),
    ],
)
def test_quiet_hours_may_cross_midnight(at: str, until: str | None) -> None:
    now = datetime.fromisoformat(f"2026-11-18T{at}").replace(tzinfo=UTC)

    found = QuietHours(time(22), time(7)).until(now)

    assert (found and f"{found:%H:%M}") == until
    assert found is None or timedelta(0) < found - now <= timedelta(hours=9)


def test_quiet_hours_follow_local_clocks() -> None:
    hours = QuietHours(time(22), time(7), "Europe/Berlin")

    assert hours.until(datetime(2026, 7, 1, 20, 30, tzinfo=UTC)) == datetime(2026, 7, 2, 5, tzinfo=UTC)
    assert hours.until(datetime(2026, 12, 1, 20, 30, tzinfo=UTC)) is None


def test_the_built_in_policy_needs_no_limit() -> None:
    assert IncidentKind.SLOW not in BUILT_IN.on
