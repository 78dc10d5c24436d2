"""A job as people send it: parsing, all errors at once, and serialization."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.access.signing import new_secret
from hourbell.core.job.body import FIELDS, READ_ONLY, job_to_body, merge_patch, parse_job
from hourbell.core.job.definition import Definition
from hourbell.core.job.target import lane_of
from hourbell.core.run.policies import RETRY_PRESETS, CatchUp, Delivery, Overlap, Priority, RetryPolicy
from hourbell.core.values.field_errors import BodyError, FieldError
from hourbell.core.values.readers import read_duration, show_duration
from tests.core.schedule.strategies import examples
from tests.core.values import DAY, HOUR, MINUTE, SECOND

HTTP = {"type": "http", "url": "https://example.com/hook"}
SMALL: dict[str, Any] = {"name": "a", "schedule": "0 9 * * *", "target": HTTP}
SECRET = new_secret(bytes(range(32)))
HOW_LONG = "write a text such as 90s, 15m, 2h30m or 1d, or a number of seconds"

durations = st.one_of(
    st.timedeltas(SECOND, 36_500 * DAY), st.integers(1, 36_500 * 86_400).map(lambda seconds: timedelta(seconds=seconds))
)
instants = st.timedeltas(timedelta(0), 60_000 * DAY).map(lambda since: datetime(1970, 1, 1, tzinfo=UTC) + since)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
targets = st.sampled_from(
    [
        HTTP | {"method": "PUT", "headers": {"X-A": "b"}, "body": {"a": "{{payload.b}}"}, "timeout": "5s"},
        {"type": "sql", "function": "public.f", "args": {"a": None}},
        {"type": "task", "name": "reports.weekly"},
        {"type": "queue", "queue": "celery", "task": "a", "kwargs": {"b": [1]}},
    ]
)
retries = st.one_of(
    st.sampled_from(list(RETRY_PRESETS.values())),
    st.builds(
        RetryPolicy,
        st.integers(1, 100),
        st.lists(st.one_of(st.just(timedelta(0)), durations), min_size=1, max_size=4).map(tuple),
        st.floats(0, 1),
    ),
)
definitions = st.builds(
    Definition,
    name=st.from_regex(r"[A-Za-z0-9_-]{1,100}", fullmatch=True),
    schedule=st.sampled_from(["0 9 * * 1-5", "H H * * *", "every 90s", "at 2026-12-24T18:00:00", "yearly 02-29 09:00"]),
    target=targets,
    timezone=st.sampled_from(["UTC", "America/New_York", "Asia/Kolkata"]),
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
    jitter=st.one_of(st.just(timedelta(0)), durations),
    starts_at=st.one_of(st.none(), instants),
    ends_at=st.one_of(st.none(), st.just(datetime(2199, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))),
    enabled=st.booleans(),
    tags=st.lists(st.sampled_from(["b", "a", "in München", "x" * 100]), unique=True).map(tuple),
    subject=texts,
    alert_policy=st.sampled_from(["", "none", "billing"]),
)


def errors_of(body: object) -> list[FieldError]:
    with pytest.raises(BodyError) as caught:
        parse_job(body)
    return list(caught.value.errors)


def errors_in(**fields: Any) -> list[FieldError]:
    return errors_of(SMALL | fields)


def read(**fields: Any) -> Definition:
    return parse_job(SMALL | fields).definition


def test_a_minimal_body_gets_every_default() -> None:
    parsed = parse_job(SMALL)

    assert parsed.definition == Definition("a", "0 9 * * *", HTTP, lane="https://example.com:443")
    assert parsed.secret is None


@examples(150)
@given(definitions)
def test_a_serialized_definition_reads_back_as_the_same(definition: Definition) -> None:
    definition = replace(definition, lane=lane_of(definition.target))
    body = job_to_body(definition)

    assert parse_job(json.loads(json.dumps(body))).definition == definition
    assert tuple(body) == FIELDS


def test_a_complete_body_reads_back_as_it_is_shown() -> None:
    whole = {
        "name": "nightly",
        "schedule": "0 3 * * *",
        "timezone": "America/New_York",
        "dst": "wall",
        "target": HTTP,
        "payload": {"days": 30},
        "description": "Cleans up.",
        "catch_up": "all",
        "catch_up_window": "2h30m",
        "overlap": "queue_one",
        "retry": {"attempts": 3, "backoff": ["30s", "10m", 0.5], "spread": 0.25},
        "delivery": "at_most_once",
        "max_age": "1d",
        "late_after": "5m",
        "priority": "high",
        "jitter": "0s",
        "starts_at": "2026-01-01T00:00:00Z",
        "ends_at": "2027-01-01T00:00:00.500000Z",
        "enabled": False,
        "tags": ["billing", "a b"],
        "subject": "customer 17",
        "alert_policy": "billing",
    }

    assert job_to_body(parse_job(whole).definition) == whole


def test_a_client_may_send_back_what_it_got() -> None:
    answer = job_to_body(read()) | {name: {"whatever": [1]} for name in READ_ONLY}

    assert parse_job(answer).definition == read()


@pytest.mark.parametrize(
    ("given", "duration"),
    [
        ("90s", 90 * SECOND),
        ("2h30m", 2 * HOUR + 30 * MINUTE),
        ("1d", DAY),
        ("1w", 7 * DAY),
        (1, SECOND),
        (1.5, 1.5 * SECOND),
        ("36500d", 36_500 * DAY),
    ],
)
def test_a_duration_is_text_or_seconds(given: object, duration: timedelta) -> None:
    assert read(max_age=given).max_age == duration


@pytest.mark.parametrize(
    ("duration", "text"),
    [(timedelta(0), "0s"), (90 * SECOND, "1m30s"), (24 * HOUR, "1d"), (DAY + 9000 * SECOND, "1d2h30m"), (HOUR, "1h")],
)
def test_a_duration_is_shown_short(duration: timedelta, text: str) -> None:
    assert show_duration(duration) == text
    assert read_duration(text) == duration


@pytest.mark.parametrize(
    "given",
    ["", "5", "-1s", "1 h", "36501d", "0s", 0.999, -1, 3.2e9, 10**308, True, None, [], {}, float("nan"), float("inf")],
    ids=repr,
)
@pytest.mark.parametrize("name", ["max_age", "late_after"])
def test_an_invalid_duration_is_refused_with_an_example(name: str, given: object) -> None:
    [error] = errors_in(**{name: given})

    assert error.pointer == f"/{name}"
    assert error.message.endswith("which is not a duration from 1s to 36500d")
    assert error.hint == HOW_LONG


@pytest.mark.parametrize(
    ("schedule", "catch_up"),
    [("at 2026-12-24T18:00:00Z", "all"), ("yearly 02-29 09:00", "all"), ("@daily", "latest")],
)
def test_one_shot_and_yearly_jobs_are_caught_up_by_default(schedule: str, catch_up: str) -> None:
    assert read(schedule=schedule).catch_up == catch_up
    assert read(schedule=schedule, catch_up=None).catch_up == catch_up
    assert read(schedule=schedule, catch_up="none").catch_up is CatchUp.NONE


NULLABLE = ("catch_up", "catch_up_window", "payload", "starts_at", "ends_at")


@pytest.mark.parametrize("name", NULLABLE)
def test_null_means_the_default_where_there_may_be_none(name: str) -> None:
    assert read(**{name: None}) == read()


@pytest.mark.parametrize("name", sorted(set(FIELDS).difference(NULLABLE)))
def test_null_is_an_error_where_there_must_be_a_value(name: str) -> None:
    assert [error.pointer for error in errors_in(**{name: None})] == [f"/{name}"]


ONE_ERROR: list[tuple[dict[str, Any], FieldError]] = [
    (
        {"name": "a b"},
        FieldError("/name", "'a b' cannot be a job's name", "write letters, digits, _ and -, at most 100 of them"),
    ),
    (
        {"name": 5},
        FieldError("/name", "5 cannot be a job's name", "write letters, digits, _ and -, at most 100 of them"),
    ),
    (
        {"schedule": 5},
        FieldError("/schedule", "schedule is not a text", "write a cron expression such as 0 9 * * 1-5"),
    ),
    (
        {"timezone": "America/New_Yrok"},
        FieldError("/timezone", "unknown time zone 'America/New_Yrok'", "did you mean America/New_York?"),
    ),
    ({"dst": "twice"}, FieldError("/dst", "dst is 'twice'", "write one of once, wall, skip")),
    (
        {"target": "x"},
        FieldError(
            "/target",
            "target is not an object",
            'write one such as {"type": "http", "url": "https://example.com/hook"}',
        ),
    ),
    (
        {"target": {}},
        FieldError(
            "/target/type",
            "target needs a type: http with url, sql with function, task with name, "
            "command with command, or queue with queue",
        ),
    ),
    (
        {"target": {"type": "ftp", "url": "ftp://example.com"}},
        FieldError(
            "/target/type",
            "type is 'ftp'; write http with url, sql with function, task with name, "
            "command with command, or queue with queue",
        ),
    ),
    ({"target": {"type": "task", "name": ""}}, FieldError("/target/name", "the task target needs name")),
    (
        {"target": HTTP | {"headers": {"Host": "a"}}},
        FieldError("/target/headers", "headers: Host is set by Hourbell; leave it out"),
    ),
    (
        {"target": HTTP | {"a/b~": 1}},
        FieldError(
            "/target/a~1b~0",
            "'a/b~' is not a field of this target; write type, url, method, headers, body, timeout, secret",
        ),
    ),
    (
        {"target": HTTP | {"timeout": "2m"}},
        FieldError("/target/timeout", "timeout is '2m', which is not a duration from 1s to 1m", HOW_LONG),
    ),
    (
        {"payload": [datetime(2026, 1, 1, tzinfo=UTC)]},
        FieldError("/payload", "a value of type datetime is not JSON; write a text"),
    ),
    (
        {"description": "x" * 10_001},
        FieldError("/description", "description is not a text of at most 10000 characters"),
    ),
    ({"subject": "x" * 201}, FieldError("/subject", "subject is not a text of at most 200 characters")),
    (
        {"description": "a\0"},
        FieldError("/description", r"a text holds the character NUL (\u0000), which cannot be stored; leave it out"),
    ),
    (
        {"overlap": "quue_one"},
        FieldError(
            "/overlap", "overlap is 'quue_one'", "write one of allow, queue_all, queue_one, skip, cancel_running"
        ),
    ),
    ({"priority": ["low"]}, FieldError("/priority", "priority is a list", "write one of low, normal, high")),
    ({"enabled": "true"}, FieldError("/enabled", "enabled is 'true'", "write true or false")),
    ({"enabled": 1}, FieldError("/enabled", "enabled is 1", "write true or false")),
    ({"jitter": "-1s"}, FieldError("/jitter", "jitter is '-1s', which is not a duration from 0s to 36500d", HOW_LONG)),
    ({"tags": "a"}, FieldError("/tags", "tags is not a list of at most 50 texts")),
    ({"tags": [str(n) for n in range(51)]}, FieldError("/tags", "tags is not a list of at most 50 texts")),
    ({"tags": ["a", "b", "a"]}, FieldError("/tags/2", "the tag 'a' is given twice", "leave it out")),
    (
        {"tags": ["a", "b,c"]},
        FieldError("/tags/1", "'b,c' cannot be a tag", "write 1 to 100 printable characters without a comma"),
    ),
    (
        {"retry": {"attempts": 2, "backoff": ["1s", "soon"]}},
        FieldError("/retry/backoff/1", "'soon' is not a duration from 0s to 36500d", HOW_LONG),
    ),
    (
        {"retry": {"attempts": True, "backoff": ["1s"]}},
        FieldError("/retry/attempts", "attempts is true", "write a whole number from 1 to 100"),
    ),
    (
        {"retry": {"attempts": 1, "backoff": ["1s"], "spread": "0.5"}},
        FieldError("/retry/spread", "spread is '0.5'", "write a number from 0 to 1"),
    ),
    (
        {"retry": {"attempts": 1, "backoff": {"1s": 1}}},
        FieldError(
            "/retry/backoff",
            "backoff is not a list of 1 to 100 waits",
            'as in ["30s", "5m"]; the last one repeats',
        ),
    ),
    (
        {"retry": {"attempts": 1, "backoff": [1], "spraed": 0}},
        FieldError("/retry/spraed", "'spraed' is not a field here", "did you mean spread?"),
    ),
    (
        {"retry": "always"},
        FieldError(
            "/retry",
            "retry is 'always'",
            "write one of default, fixed, exponential, none, "
            'or your own, as in {"attempts": 3, "backoff": ["30s", "5m"]}',
        ),
    ),
    (
        {"starts_at": "2026-01-02T00:00:00Z", "ends_at": "2026-01-02T00:00:00Z"},
        FieldError("/ends_at", "ends_at is not after starts_at"),
    ),
    ({"time_zone": "UTC"}, FieldError("/time_zone", "'time_zone' is not a field here", "did you mean timezone?")),
    ({"zzz": 1}, FieldError("/zzz", "'zzz' is not a field here", f"write {', '.join(FIELDS)}")),
    ({"secret": "x"}, FieldError("/secret", "a job has no secret of its own", "write it inside an http target")),
]


@pytest.mark.parametrize(("fields", "error"), ONE_ERROR, ids=[error.pointer for _, error in ONE_ERROR])
def test_one_error_has_one_pointer(fields: dict[str, Any], error: FieldError) -> None:
    assert errors_in(**fields) == [error]


@pytest.mark.parametrize("body", [None, [], "job", 5, True], ids=repr)
def test_a_body_that_is_no_object_is_no_job(body: object) -> None:
    assert errors_of(body) == [FieldError("", "a job is an object with name, schedule and target")]


def test_an_empty_object_gets_an_error_for_each_required_field() -> None:
    assert [(error.pointer, error.message) for error in errors_of({})] == [
        ("/name", "a job needs a name"),
        ("/schedule", "a job needs a schedule"),
        ("/target", "a job needs a target"),
    ]


def test_all_errors_of_a_body_are_reported_at_once() -> None:
    wrong = {name: -1 for name in FIELDS if name != "payload"} | {"target": HTTP | {"url": 1, "method": "X"}, "oops": 1}
    pointers = [error.pointer for error in errors_of(wrong)]

    expected = {f"/{name}" for name in FIELDS} - {"/payload", "/target"}
    assert set(pointers) == expected | {"/target/url", "/target/method", "/oops"}
    assert len(pointers) == len(set(pointers))


def test_a_schedule_and_a_zone_that_are_both_wrong_give_two_errors() -> None:
    errors = errors_in(schedule="61 25 * * *", timezone="Nowhere/Land")

    assert [error.pointer for error in errors] == ["/schedule", "/schedule", "/timezone"]
    assert errors[0].message.startswith("minute field, column 1: ")


@pytest.mark.parametrize("field", ["starts_at", "ends_at"])
@pytest.mark.parametrize(
    "given",
    [
        "2026-01-01", "2026-01-01T00:00:00", "2026-02-30T00:00:00Z", "2026-01-01T00:00Z", "20260101T000000Z",
        "2026-01-01T00:00:60Z", "2026-01-01T00:00:00+25:00", "0001-01-01T00:00:00+10:00", "tomorrow", 1_767_225_600,
        True, "1969-12-31T23:59:59Z", "2200-01-01T00:00:00Z", "2199-12-31T23:00:00-02:00",
    ],
    ids=repr,
)  # fmt: skip
def test_an_instant_is_rfc_3339_with_an_offset_in_the_years_of_schedules(field: str, given: object) -> None:
    assert [error.pointer for error in errors_in(**{field: given})] == [f"/{field}"]


@pytest.mark.parametrize(
    "given",
    ["2026-01-01T05:30:00+05:30", "2026-01-01t00:00:00z", "2025-12-31 19:00:00-05:00", "2026-01-01T00:00:00.000Z"],
)
def test_an_instant_is_kept_in_utc(given: str) -> None:
    assert read(starts_at=given).starts_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert job_to_body(read(starts_at=given))["starts_at"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("secret", ["generate", SECRET])
def test_a_secret_is_taken_out_of_the_target(secret: str) -> None:
    parsed = parse_job(SMALL | {"target": HTTP | {"secret": secret}})

    assert parsed.secret == secret
    assert parsed.definition == read()
    assert secret not in repr(parsed)


@pytest.mark.parametrize("secret", ["whsec_" + "Q" * 8, SECRET[6:], "Generate", 5, ["x"], "whsec_ü"], ids=repr)
def test_a_wrong_secret_is_an_error_that_does_not_show_it(secret: object) -> None:
    [error] = errors_in(target=HTTP | {"secret": secret})

    assert error.pointer == "/target/secret"
    assert error.message == "a secret is whsec_ and base64 of 24 to 64 random bytes"
    assert error.hint == 'write "generate" to have one made'


@pytest.mark.parametrize(
    "target", [{"type": "task", "name": "a"}, {"type": "sql", "function": "f"}, {"type": "queue", "queue": "a"}]
)
def test_only_http_targets_have_a_secret(target: dict[str, Any]) -> None:
    for secret in ("generate", SECRET):
        assert errors_in(target=target | {"secret": secret}) == [
            FieldError("/target/secret", "only http targets have a secret", "leave it out")
        ]


def test_a_hundred_thousand_unknown_fields_are_a_short_answer() -> None:
    errors = errors_in(**{f"field{n}": n for n in range(100_000)}, **{"x" * 1_000_000: 1})

    assert len(errors) == 21
    assert errors[-1] == FieldError("", "99981 more are not fields here")


def test_an_error_reads_as_lines() -> None:
    with pytest.raises(BodyError) as caught:
        parse_job(SMALL | {"enabled": 1, "tags": 1})

    assert str(caught.value) == (
        "/enabled: enabled is 1; write true or false\n/tags: tags is not a list of at most 50 texts"
    )


@examples(200)
@given(st.dictionaries(st.sampled_from([*FIELDS, *READ_ONLY, "other"]), values, max_size=8))
def test_any_object_is_a_job_or_a_list_of_errors(body: dict[str, Any]) -> None:
    errors: tuple[FieldError, ...] = ()
    try:
        parse_job(SMALL | body)
    except BodyError as error:
        errors = error.errors

    assert {error.pointer.split("/")[1] for error in errors} <= set(body)


RFC_7396 = [  # the test cases of its appendix A
    ('{"a":"b"}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'),
    ('{"a":"b"}', '{"a":null}', "{}"),
    ('{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'),
    ('{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'),
    ('{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'),
    ('{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'),
    ('["a","b"]', '["c","d"]', '["c","d"]'),
    ('{"a":"b"}', '["c"]', '["c"]'),
    ('{"a":"foo"}', "null", "null"),
    ('{"a":"foo"}', '"bar"', '"bar"'),
    ('{"e":null}', '{"a":1}', '{"e":null,"a":1}'),
    ("[1,2]", '{"a":"b","c":null}', '{"a":"b"}'),
    ("{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'),
]


@pytest.mark.parametrize(("document", "patch", "result"), RFC_7396)
def test_a_merge_patch_does_what_the_rfc_says(document: str, patch: str, result: str) -> None:
    before = json.loads(document)

    assert merge_patch(before, json.loads(patch)) == json.loads(result)
    assert before == json.loads(document)


def test_a_patch_that_removes_a_field_restores_its_default() -> None:
    late = job_to_body(read(max_age="2h", timezone="Asia/Kolkata"))

    assert parse_job(merge_patch(late, {"max_age": None, "timezone": None})).definition == read()
