"""Targets as people write them: parsing, lanes, and all errors at once."""

import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from hourbell.core.job.target import HttpCall, SqlCall, TargetError, TaskCall, lane_of, parse_target

HTTP = {"type": "http", "url": "https://example.com/hook"}
SQL = {"type": "sql", "function": "public.f"}
HOW_LONG = "write a text such as 90s, 15m, 2h30m or 1d, or a number of seconds"


def errors_of(target: object) -> tuple[str, ...]:
    with pytest.raises(TargetError) as caught:
        parse_target(target)
    return tuple(error.text for error in caught.value.errors)


@pytest.mark.parametrize(
    ("target", "lane"),
    [
        (HTTP, "https://example.com:443"),
        ({"type": "http", "url": "http://example.com"}, "http://example.com:80"),
        ({"type": "http", "url": "HTTPS://Example.COM:8443/a?b"}, "https://example.com:8443"),
        ({"type": "http", "url": "http://[::1]:8080/"}, "http://[::1]:8080"),
        (SQL, "sql:default"),
        (SQL | {"database": "reports"}, "sql:reports"),
        (SQL | {"database": None}, "sql:default"),
        ({"type": "task", "name": "reports.weekly"}, "task:reports.weekly"),
        ({"type": "queue", "queue": "celery", "task": "reports.weekly"}, "queue:celery"),
    ],
)
def test_a_lane_follows_from_the_target(target: dict[str, Any], lane: str) -> None:
    assert lane_of(target) == lane


@pytest.mark.parametrize("target", [None, [], "task", {}, {"type": None}], ids=repr)
def test_a_target_without_a_type_is_refused_with_the_known_types(target: object) -> None:
    assert errors_of(target) == (
        "target needs a type: http with url, sql with function, task with name, "
        "command with command, or queue with queue",
    )


@pytest.mark.parametrize(
    ("target", "error"),
    [
        (
            {"type": "ftp"},
            "type is 'ftp'; write http with url, sql with function, task with name, "
            "command with command, or queue with queue",
        ),
        ({"type": "sql", "database": "default"}, "the sql target needs function"),
        ({"type": "task", "name": ""}, "the task target needs name"),
        ({"type": "task", "name": {"a": 1}}, "the task target needs name"),
        ({"type": "queue", "task": "a"}, "the queue target needs queue"),
        (HTTP | {"method": "TRACE"}, "method is 'TRACE'; write one of POST, GET, PUT, PATCH, DELETE"),
        (HTTP | {"timeout": "61s"}, f"timeout is '61s', which is not a duration from 1s to 1m; {HOW_LONG}"),
        (HTTP | {"timeout": "0s"}, f"timeout is '0s', which is not a duration from 1s to 1m; {HOW_LONG}"),
        (HTTP | {"timeout": 61}, f"timeout is 61, which is not a duration from 1s to 1m; {HOW_LONG}"),
        (HTTP | {"body": "{{env.HOME}}"}, "body: {{env.HOME}} begins with none of payload, run, job"),
        (HTTP | {"headers": {"Host": "a"}}, "headers: Host is set by Hourbell; leave it out"),
        (HTTP | {"headers": {"webhook-ID": "a"}}, "headers: webhook-ID is set by Hourbell; leave it out"),
        (HTTP | {"headers": {"hourbell-x": "a"}}, "headers: hourbell-x is set by Hourbell; leave it out"),
        (HTTP | {"headers": {"a b": "a"}}, "headers: 'a b' is not the name of a header"),
        (HTTP | {"headers": {"a": "b\r\nc: d"}}, "headers: the value of a is not printable ASCII text"),
        (HTTP | {"headers": {"a": 1}}, "headers: the value of a is empty, or not a text"),
        (HTTP | {"headers": {"a": " "}}, "headers: the value of a is empty, or not a text"),
        (HTTP | {"headers": {"a": "1", "A": "2"}}, "headers: A is given twice"),
        (HTTP | {"headers": []}, "headers is not an object"),
        (SQL | {"function": "f(1)"}, "function is 'f(1)'; write schema.name, as in public.run_daily_cleanup"),
        (SQL | {"function": ".f"}, "function is '.f'; write schema.name, as in public.run_daily_cleanup"),
        (SQL | {"args": {"a; drop": 1}}, "args: 'a; drop' is not the name of a parameter"),
        (SQL | {"database": "a b"}, "database is 'a b'; write a name from the settings, or leave it out"),
        (SQL | {"search_path": 5}, "search_path is a list of schemas, as in ['metadata', 'public']"),
    ],
    ids=repr,
)
def test_an_error_says_what_to_write(target: object, error: str) -> None:
    assert errors_of(target) == (error,)


def test_all_errors_are_reported_at_once() -> None:
    assert len(errors_of({"type": "http", "url": "ftp://x", "method": "A", "timeout": "1h", "hedaers": {}})) == 4


def test_a_target_holds_no_secret() -> None:
    [error] = errors_of(HTTP | {"secret": "whsec_canary"})
    assert "hourbell secret create" in error
    assert "canary" not in error


def test_an_omitted_field_has_its_default() -> None:
    http, sql = parse_target(HTTP), parse_target({"type": "sql", "function": "f"})

    assert isinstance(http, HttpCall)
    assert (http.method, http.headers, http.body, http.timeout) == ("POST", {}, None, timedelta(seconds=30))
    assert isinstance(sql, SqlCall)
    assert (sql.schema, sql.function, sql.search_path) == ("public", "f", ("public",))
    assert parse_target({"type": "task", "name": "a"}) == TaskCall("a", {}, timedelta(minutes=10))


def test_a_function_keeps_its_schema_and_case() -> None:
    sql = parse_target(SQL | {"function": 'App.Clean "up"', "search_path": "app, public", "lock_timeout": "5s"})

    assert isinstance(sql, SqlCall)
    assert (sql.schema, sql.function, sql.search_path) == ("App", 'Clean "up"', ("app", "public"))
    assert sql.lock_timeout == timedelta(seconds=5)


@pytest.mark.parametrize(
    "url",
    [None, "", "example.com", "/hook", "https://", "ftp://example.com:21", "http://example.com:port", "http://[::1"],
)
def test_a_url_that_is_none_is_refused(url: object) -> None:
    [error] = errors_of({"type": "http", "url": url})
    assert error.startswith("url: ")


def test_a_target_that_is_nested_too_deep_is_refused_without_being_walked() -> None:
    body: object = "x"
    for _ in range(5_000):
        body = [body]
    assert errors_of(HTTP | {"body": body}) == ("target is nested more than 32 deep",)


def test_at_most_ten_errors_are_reported() -> None:
    assert len(errors_of(HTTP | {"body": ["{{x}}"] * 1_000})) == 10


@pytest.mark.parametrize("value", [0, "xy"])
def test_reading_a_large_body_takes_not_much_longer_than_parsing_its_json(value: object) -> None:
    text = json.dumps({"type": "http", "url": "https://example.com/", "body": [value] * 200_000})

    def seconds(call: Callable[[], object]) -> float:
        began = time.process_time()
        call()
        return time.process_time() - began

    target = json.loads(text)
    parsing = min(seconds(lambda: json.loads(text)) for _ in range(3))
    assert min(seconds(lambda: parse_target(target)) for _ in range(3)) < 5 * parsing
