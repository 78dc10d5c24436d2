"""Definitions as JSON, there and back; retry policies as people write them."""

import json
from datetime import UTC, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.job.definition import Definition
from hourbell.core.job.field_kinds import RETRY
from hourbell.core.job.version_json import definition_from_json, definition_to_json
from hourbell.core.run.policies import RETRY_PRESETS, CatchUp, Delivery, Overlap, Priority, RetryPolicy
from hourbell.core.values.field_errors import FieldError
from hourbell.core.values.readers import read_retry
from hourbell.core.values.strict_json import text_problem
from tests.core.schedule.strategies import examples
from tests.core.values import DAY, HOUR, MINUTE, SECOND, T0, a_definition

durations = st.timedeltas(timedelta(0), 36_500 * DAY)
instants = st.timedeltas(-20_000 * DAY, 60_000 * DAY).map(lambda since: T0 + since)
texts = st.text(max_size=20)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
retries = st.one_of(
    st.sampled_from(list(RETRY_PRESETS.values())),
    st.builds(
        RetryPolicy, st.integers(1, 100), st.lists(durations, min_size=1, max_size=4).map(tuple), st.floats(0, 1)
    ),
)
definitions = st.builds(
    Definition,
    name=texts,
    schedule=texts,
    target=st.dictionaries(texts, values, max_size=4),
    timezone=texts,
    dst=st.sampled_from(["once", "wall", "skip"]),
    payload=values,
    description=texts,
    catch_up=st.sampled_from(CatchUp),
    catch_up_window=st.one_of(st.none(), durations),
    overlap=st.sampled_from(Overlap),
    retry=retries,
    delivery=st.sampled_from(Delivery),
    max_age=durations,
    late_after=durations,
    priority=st.sampled_from(Priority),
    jitter=durations,
    starts_at=st.one_of(st.none(), instants),
    ends_at=st.one_of(st.none(), instants),
    enabled=st.booleans(),
    tags=st.lists(texts.filter(lambda text: text_problem(text) is None), max_size=3).map(tuple),  # others are not read
    lane=texts,
    managed_by=st.sampled_from(["api", "code", "sql", "file"]),
    source=texts,
)


@examples(300)
@given(definitions)
def test_a_definition_survives_being_written_down(definition: Definition) -> None:
    text = json.dumps(definition_to_json(definition))

    assert definition_from_json(json.loads(text)) == definition


@examples(200)
@given(retries)
def test_a_retry_policy_survives_being_written_down(retry: RetryPolicy) -> None:
    assert RETRY.load("retry", json.loads(json.dumps(RETRY.dump(retry)))) == retry


def test_an_omitted_field_has_its_default() -> None:
    body = {"name": "job", "schedule": "0 * * * *", "target": {"type": "task", "name": "a"}}

    assert definition_from_json(body) == Definition(**body)


def test_unknown_fields_of_a_later_version_are_ignored() -> None:
    assert definition_from_json(definition_to_json(a_definition()) | {"colour": "red"}) == a_definition()


def test_an_instant_may_be_written_in_any_zone() -> None:
    body = definition_to_json(a_definition()) | {
        "starts_at": "2026-03-02T10:00:00+01:00",
        "ends_at": "2026-03-03T09:00:00Z",
    }
    read = definition_from_json(body)

    assert (read.starts_at, read.ends_at) == (T0, T0 + DAY)
    assert read.starts_at is not None
    assert read.starts_at.tzinfo is UTC


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"catch_up": "sometimes"}, "catch_up is one of latest, earliest, all, none, not 'sometimes'"),
        ({"max_age": "1d"}, "max_age is a number of seconds, not '1d'"),
        ({"jitter": 1e300}, "jitter is a number of seconds, not 1e\\+300"),
        ({"starts_at": "2026-03-02T10:00:00"}, "starts_at is a date and time with an offset"),
        ({"ends_at": "tomorrow"}, "ends_at is a date and time with an offset, .* not 'tomorrow'"),
        ({"ends_at": 5}, "ends_at is a date and time with an offset, .* not 5"),
        ({"retry": "often"}, "retry is a preset, or attempts, backoff and spread, not 'often'"),
    ],
    ids=["enum", "text for seconds", "too long", "no offset", "no date", "a number", "retry"],
)
def test_an_unreadable_field_is_named(broken: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        definition_from_json(definition_to_json(a_definition()) | broken)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(ValueError, match="a definition needs schedule, target"):
        definition_from_json({"name": "job"})


@pytest.mark.parametrize("name", RETRY_PRESETS)
def test_a_preset_is_written_by_its_name(name: str) -> None:
    assert RETRY.dump(RETRY_PRESETS[name]) == name
    assert RETRY.load("retry", name) == RETRY_PRESETS[name]
    assert read_retry(name, []) == RETRY_PRESETS[name]


@pytest.mark.parametrize(
    ("body", "policy"),
    [
        ({"attempts": 4, "backoff": ["30s", "2m", "10m"]}, RETRY_PRESETS["default"]),
        ({"attempts": 4, "backoff": [30, 120.0, 600]}, RETRY_PRESETS["default"]),
        ({"attempts": 2, "backoff": ["1h30m"]}, RetryPolicy(2, (90 * MINUTE,))),
        ({"attempts": 2, "backoff": [0.5]}, RetryPolicy(2, (SECOND / 2,))),
        ({"attempts": 1, "backoff": ["0s"]}, RETRY_PRESETS["none"]),
        ({"attempts": 100, "backoff": ["1h"], "spread": 1}, RetryPolicy(100, (HOUR,), 1.0)),
    ],
    ids=["as the design writes it", "seconds", "hours and minutes", "half a second", "none", "all of it"],
)
def test_a_custom_retry_policy_has_attempts_and_waits(body: object, policy: RetryPolicy) -> None:
    errors: list[FieldError] = []

    assert (read_retry(body, errors), errors) == (policy, [])


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        (None, "/retry"),
        (5, "/retry"),
        ("often", "/retry"),
        ([], "/retry"),
        ({}, "/retry/attempts /retry/backoff"),
        ({"attempts": 3}, "/retry/backoff"),
        ({"backoff": [1]}, "/retry/attempts"),
        ({"attempts": 0, "backoff": [1]}, "/retry/attempts"),
        ({"attempts": 101, "backoff": [1]}, "/retry/attempts"),
        ({"attempts": "3", "backoff": [1]}, "/retry/attempts"),
        ({"attempts": 2.5, "backoff": [1]}, "/retry/attempts"),
        ({"attempts": True, "backoff": [1]}, "/retry/attempts"),
        ({"attempts": None, "backoff": [1]}, "/retry/attempts"),
        ({"attempts": 3, "backoff": []}, "/retry/backoff"),
        ({"attempts": 3, "backoff": 30}, "/retry/backoff"),
        ({"attempts": 3, "backoff": "30s"}, "/retry/backoff"),
        ({"attempts": 3, "backoff": [1, -1]}, "/retry/backoff/1"),
        ({"attempts": 3, "backoff": ["soon"]}, "/retry/backoff/0"),
        ({"attempts": 3, "backoff": [None]}, "/retry/backoff/0"),
        ({"attempts": 3, "backoff": [float("nan")]}, "/retry/backoff/0"),
        ({"attempts": 3, "backoff": [float("inf")]}, "/retry/backoff/0"),
        ({"attempts": 3, "backoff": [1e300]}, "/retry/backoff/0"),
        ({"attempts": 3, "backoff": [1], "spread": -0.1}, "/retry/spread"),
        ({"attempts": 3, "backoff": [1], "spread": 1.1}, "/retry/spread"),
        ({"attempts": 3, "backoff": [1], "spread": float("nan")}, "/retry/spread"),
        ({"attempts": 3, "backoff": [1], "spread": "wide"}, "/retry/spread"),
        ({"attempts": 3, "backoff": [1], "spread": None}, "/retry/spread"),
        ({"attempts": 3, "backoff": [1], "wait": 1}, "/retry/wait"),
    ],
    ids=repr,
)
def test_a_bad_retry_value_is_refused_with_its_position_and_an_example(body: object, pointers: str) -> None:
    errors: list[FieldError] = []
    read_retry(body, errors)

    assert [error.pointer for error in errors] == pointers.split()
    assert all(error.hint for error in errors)
