"""Every kind of value is read the same by every endpoint, file and option: same value or same refusal."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from hourbell import Scheduler
from hourbell.api import bodies, values
from hourbell.api.field_errors import field_error
from hourbell.cli.job.definition import definition_of as body_by_flags
from hourbell.cli.shared.parameters import LENGTH, ZONE
from hourbell.cli.shared.times import parse_time
from hourbell.core.formats.jobs_file import Format, JobsFileError, read_jobs_file
from hourbell.core.formats.jobs_file_writing import toml_value, yaml_value
from hourbell.core.job.body import parse_job
from hourbell.core.job.target import TargetError, TaskCall, parse_target
from hourbell.core.run.policies import RetryPolicy
from hourbell.core.schedule import zone_names
from hourbell.core.values.field_errors import BodyError, FieldError
from hourbell.core.values.readers import (
    SECOND,
    InvalidValue,
    describe_duration,
    read_duration,
    read_instant,
    read_retry,
    read_zone,
)
from hourbell.settings import SettingsError, load_settings
from hourbell.sql import insert_job
from hourbell.store.rows import definition_of as definition_in_row
from hourbell.testing import times as rehearsed
from tests.core.schedule.strategies import examples

NOW = datetime(2026, 3, 2, tzinfo=UTC)
SMALL: dict[str, Any] = {"name": "a", "schedule": "@daily", "target": {"type": "task", "name": "a"}}
ROW = {
    **asdict(parse_job(SMALL).definition),
    "target": '{"type": "task", "name": "a"}',
    "retry": '"default"',
    "tags": [],
}

Read = Callable[[Any], Any]
Refusal = tuple[str, str | None]  # what is wrong, and what to write

duration_texts = st.one_of(
    st.from_regex(r"(\d{1,3}w)?(\d{1,4}d)?(\d{1,4}h)?(\d{1,4}m)?(\d{1,4}s)?", fullmatch=True).filter(bool),
    st.sampled_from(["90s", "0s", "36500d", "36501d", "99999999d", "5", "1 h", "-1s", "1.5s", "soon", "1h1h", "٣s"]),
)
durations = st.one_of(
    duration_texts,
    st.integers(-5, 4_000_000_000),
    st.floats(-5, 4e9),
    st.sampled_from([True, [], {}, ["1s"], 30, 1.5, 10**300, "9" * 60 + "s", ""]),
)
offsets = st.sampled_from(["Z", "z", "+00:00", "-05:00", "+05:30", " 05:30", "+25:00", "", "+0530"])
instant_texts = st.one_of(
    st.builds(
        "{:%Y-%m-%d}{}{:%H:%M:%S}{}{}".format,
        moments := st.datetimes(datetime(1969, 1, 1), datetime(2201, 1, 1)),  # noqa: DTZ001
        st.sampled_from("Tt "),
        moments,
        st.one_of(st.just(""), st.from_regex(r"\.\d{1,10}", fullmatch=True)),
        offsets,
    ),
    st.sampled_from(["2026-02-30T00:00:00Z", "2026-01-01T00:00Z", "20260101T000000Z", "0001-01-01T00:00:00+10:00"]),
)
instants = st.one_of(instant_texts, st.sampled_from([5, True, [], {}, 1_767_225_600.5]))
retries = st.one_of(
    st.sampled_from(["default", "fixed", "exponential", "none", "often", 3, True, [], {}]),
    st.fixed_dictionaries(
        {"attempts": st.sampled_from([1, 3, 100, 0, 101, "3", 2.5, True])},
        optional={
            "backoff": st.one_of(st.lists(durations, max_size=3), st.sampled_from([30, "30s", {}])),
            "spread": st.sampled_from([0, 0.5, 1, 1.5, "0.5", True]),
            "wait": st.just(1),
        },
    ),
)
zones = st.one_of(
    st.sampled_from(sorted(zone_names())), st.sampled_from(["Europe/Pari", "utc", "", "CEST", "+02:00", 5, True, []])
)


def outcome(read: Read, value: Any) -> Any:
    """Return the value read, or the list of errors."""
    try:
        return read(value)
    except InvalidValue as error:
        return [(error.message, error.hint)]
    except (BodyError, TargetError) as error:
        return [_without_value(each) for each in error.errors]
    except JobsFileError as error:
        return [_without_value(each.error) for each in error.errors]
    except ValidationError as error:
        return [_without_value(field_error(each)) for each in error.errors()]


def _without_value(error: FieldError) -> Refusal:
    """Return the error without the field and the value that the message begins with."""
    return re.sub(r"^.*, which is |^(the body|keep_old|until) is ", "", error.message), error.hint


def is_refused(read: Read, value: Any) -> bool:
    """Return True if a reader with its own error messages refuses a value."""
    try:
        read(value)
    except (ValueError, click.UsageError, SettingsError):
        return True
    return False


def in_body(field: str) -> Read:
    return lambda value: getattr(parse_job({**SMALL, field: value}).definition, field)


def in_file(field: str, form: Format) -> Read:
    def read(value: Any) -> Any:
        match form:
            case "toml":
                lines = [f"{name} = {toml_value(each)}" for name, each in {**SMALL, field: value}.items()]
                text = "[[job]]\n" + "\n".join(lines)
            case "yaml":
                lines = [f"{name}: {yaml_value(each)}" for name, each in {**SMALL, field: value}.items()]
                text = "job:\n  - " + "\n    ".join(lines)
            case "json":
                text = json.dumps({"job": [{**SMALL, field: value}]})
        return getattr(read_jobs_file(text, form, lambda _: None).jobs[0].definition, field)

    return read


def in_sql(field: str) -> Read:
    return lambda value: in_body(field)(value) if insert_job({**SMALL, field: value}) else None


def in_flags(field: str) -> Read:
    """A flag of the command line, which has a text."""

    def read(value: Any) -> Any:
        text = value if isinstance(value, str) else json.dumps(value)
        return in_body(field)(body_by_flags({field: text})[field])

    return read


def in_library(field: str) -> Read:
    return lambda value: getattr(Scheduler().register("a", "@daily", lambda _: None, **{field: value}), field)  # type: ignore[misc]


def in_query(kind: Any) -> Read:
    return TypeAdapter(kind).validate_python


def by_plain_sql(value: Any) -> RetryPolicy:
    return definition_in_row({**ROW, "retry": json.dumps(value)}).retry


def timeout_of_target(value: Any) -> timedelta:
    call = parse_target({"type": "task", "name": "a", "timeout": value})
    assert isinstance(call, TaskCall)
    return call.timeout


def lease_of_settings(value: str) -> timedelta:
    return load_settings(environment={"HOURBELL_LEASE": value}).lease


def every_way(field: str) -> list[Read]:
    """The ways in of a job, which say what is wrong as data."""
    return [in_body(field), in_sql(field), *(in_file(field, form) for form in ("toml", "yaml", "json"))]  # type: ignore[arg-type]


@examples(300)
@given(durations)
def test_a_duration_is_read_the_same_everywhere(value: Any) -> None:
    expected = outcome(lambda each: read_duration(each, SECOND), value)

    assert [outcome(read, value) for read in [*every_way("max_age"), timeout_of_target]] == [expected] * 6
    assert is_refused(in_library("max_age"), value) == isinstance(expected, list)
    assert isinstance(expected, list) or in_library("max_age")(value) == expected

    from_zero = outcome(read_duration, value)
    assert outcome(lambda each: bodies.RotateBody(keep_old=each).keep_old, value) == from_zero
    assert outcome(in_query(values.Duration), value) == from_zero
    assert is_refused(rehearsed.duration, value) == isinstance(from_zero, list)


@examples(200)
@given(duration_texts)
def test_the_text_of_a_duration_is_read_the_same_everywhere(text: str) -> None:
    expected = outcome(lambda each: read_duration(each, SECOND), text)

    assert outcome(in_flags("max_age"), text) == expected
    assert is_refused(lease_of_settings, text) == isinstance(expected, list)
    if not isinstance(expected, list):
        assert lease_of_settings(text) == LENGTH.convert(text, None, None) == expected


@examples(300)
@given(instants)
def test_an_instant_is_read_the_same_everywhere(value: Any) -> None:
    expected = outcome(read_instant, value)

    assert [outcome(read, value) for read in every_way("starts_at")] == [expected] * 5
    assert outcome(lambda each: bodies.PauseBody(until=each).until, value) == expected
    assert outcome(in_query(values.Instant), value) == expected
    assert is_refused(in_library("starts_at"), value) == isinstance(expected, list)
    if not isinstance(expected, list):
        assert in_flags("starts_at")(value) == in_library("starts_at")(value) == expected
        assert parse_time(value, NOW, "Asia/Tokyo") == rehearsed.moment(value, rehearsed.zone_of("UTC")) == expected


@pytest.mark.parametrize("value", [NOW, NOW.astimezone(rehearsed.zone_of("Asia/Kolkata"))])
def test_an_instant_that_is_one_already_is_read_the_same_everywhere(value: datetime) -> None:
    in_toml = f'[[job]]\nname="a"\nschedule="@daily"\nstarts_at={value.isoformat()}\ntarget={{type="task",name="a"}}'
    [job] = read_jobs_file(in_toml, "toml", lambda _: None).jobs

    assert job.definition.starts_at == NOW
    assert [read(value) for read in (read_instant, in_body("starts_at"), in_library("starts_at"))] == [NOW] * 3


@examples(300)
@given(retries)
def test_a_retry_policy_is_read_the_same_everywhere(value: Any) -> None:
    errors: list[FieldError] = []
    policy = read_retry(value, errors)
    expected = [_without_value(error) for error in errors] or policy

    assert [outcome(read, value) for read in every_way("retry")] == [expected] * 5
    assert is_refused(by_plain_sql, value) == is_refused(in_library("retry"), value) == bool(errors)
    if not errors:
        assert by_plain_sql(value) == in_library("retry")(value) == in_flags("retry")(value) == policy


def test_a_bad_retry_policy_gets_the_same_message_everywhere() -> None:
    wrong = {"attempts": 0, "backoff": ["soon"]}
    with pytest.raises(BodyError) as in_a_body:
        in_body("retry")(wrong)

    with pytest.raises(ValueError) as in_a_row:  # noqa: PT011 - the text is what matters
        by_plain_sql(wrong)

    assert str(in_a_row.value) == str(in_a_body.value).replace("\n", "; ")


@examples(150)
@given(zones)
def test_a_zone_is_read_the_same_everywhere(value: Any) -> None:
    expected = outcome(read_zone, value)
    found = [outcome(read, value) for read in every_way("timezone")]

    assert found == ([[("timezone is not a text", expected[0][1])]] if value in (5, True, []) else [expected]) * 5
    assert is_refused(in_library("timezone"), value) == isinstance(expected, list)
    if isinstance(value, str):
        assert outcome(in_flags("timezone"), value) == expected
        refused = isinstance(expected, list)
        assert is_refused(lambda each: ZONE.convert(each, None, None), value) == refused
        assert is_refused(rehearsed.zone_of, value) == refused


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 ms"), (0, "0 ms"), (0.42, "420 ms"), (0.9997, "1 s"), (1.52, "1.5 s"), (59.97, "1m"), (792, "13m 12s"),
        (9_005, "2h 30m"), (172_803, "2d 3s"),
    ],
)  # fmt: skip
def test_a_duration_is_described_for_people(seconds: float, text: str) -> None:
    assert describe_duration(timedelta(seconds=seconds)) == text
