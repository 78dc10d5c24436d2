"""Validation errors of parameters and bodies have our own messages, with a hint."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hourbell.api.field_errors import field_error
from tests.api.document import Operation, distinct_operations, document
from tests.api.test_malformed import JSON, ODD_TEXTS, ODD_VALUES, UNUSED, VALID, WITH_JSON, WITH_QUERY
from tests.api.whole import Whole, whole_api
from tests.database import BACKENDS

pytestmark = pytest.mark.anyio

FOREIGN = ("Input", "should", "valid ", "Extra", "permitted", "required", "Value error", "Unable", "after validation")
STATES = "write pending, running, retrying, succeeded, failed or cancelled"
NO_FILTER = "the body is without a filter, which would be every run of every job"
WRITE_ONE = 'write state, job, since or until, or "all": true'
HOW_LONG = "write a text such as 90s, 15m, 2h30m or 1d, or a number of seconds"
ODD_PATHS = [text for text in ODD_TEXTS if text not in ("", "null")]


@pytest.fixture(scope="module")
async def api() -> AsyncIterator[Whole]:
    async with BACKENDS["memory"]() as database, whole_api(database) as made:
        await made.job()
        yield made


@pytest.mark.parametrize(
    ("path", "pointer", "message", "hint"),
    [
        ("/runs?since=foo", "/query/since", "since is not a date and time",
         "write one with an offset, as in 2026-12-24T18:00:00Z"),
        ("/runs?since=1969-01-01T00:00:00Z", "/query/since", "since is outside the years 1970 to 2199",
         "write a time between them"),
        ("/runs/abc", "/path/run", "run is not an id",
         "write all 36 characters, as in 0198c0de-7a11-8b0b-9d35-5f1e1d7a93a5"),
        ("/explain?job=report", "/query/at", "at is missing", "write at=… in the query"),
        ("/explain?at=2026-03-02T08:00:00Z&job=", "/query/job", "job is empty", "write at least 1 character"),
        ("/runs?limit=0", "/query/limit", "limit is less than 1", "write 1 or more"),
        ("/runs?limit=501", "/query/limit", "limit is more than 500", "write 500 or less"),
        ("/runs?limit=many", "/query/limit", "limit is not a whole number", "write one such as 10"),
        (f"/runs?limit={'9' * 5_000}", "/query/limit", "limit is not a number in the supported range",
         "write one such as 10"),
        ("/runs?limit=1&limit=2", "/query/limit", "limit is given twice", "write it once"),
        ("/runs?state=done", "/query/state", "state is not one of the allowed values", STATES),
        (
            "/jobs?target=ftp",
            "/query/target",
            "target is not one of the allowed values",
            "write http, sql, task, command or queue",
        ),
        (f"/jobs?q={'x' * 101}", "/query/q", "q is too long", "write at most 100 characters"),
        (f"/jobs/{'x' * 101}", "/path/job", "job is too long", "write at most 100 characters"),
        ("/forecast?bucket=1000000d", "/query/bucket", "bucket is not a duration from 1m to 31d", HOW_LONG),
        ("/forecast?bucket=30s", "/query/bucket", "bucket is not a duration from 1m to 31d", HOW_LONG),
        ("/forecast?bucket=soon", "/query/bucket", "bucket is not a duration from 1m to 31d", HOW_LONG),
    ],
)  # fmt: skip
async def test_an_invalid_parameter_is_refused_with_a_hint(
    api: Whole, path: str, pointer: str, message: str, hint: str
) -> None:
    answer = await api.client.get(f"/api/v1{path}")

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")
    assert answer.json()["errors"] == [{"pointer": pointer, "message": message, "hint": hint}]


@pytest.mark.parametrize(
    ("path", "body", "pointer", "message", "hint"),
    [
        ("/jobs/report/trigger", [], "", "the body is not an object", 'write one such as {"field": "value"}'),
        ("/jobs/report/trigger", {"payloadd": 1}, "/payloadd", "'payloadd' is not a field here",
         "did you mean payload?"),
        ("/jobs/report/trigger", {"x" * 200: 1}, "", f"'{'x' * 39}…' is not a field here", "write payload, key"),
        ("/jobs/report/trigger", {"key": ""}, "/key", "key is empty", "write at least 1 character"),
        ("/jobs/report/trigger", {"key": 7}, "/key", "key is not a text", 'write it in quotes, as in "text"'),
        ("/jobs/report/backfill", {"from": "2026-01-01T00:00:00Z"}, "/to", "to is missing",
         'write "to": … in the body'),
        ("/jobs/report/backfill", {"from": "2026-01-01T00:00:00Z", "to": 5}, "/to", "to is not a date and time",
         "write one with an offset, as in 2026-12-24T18:00:00Z"),
        ("/jobs/report/pause", {"cancel_waiting": 1}, "/cancel_waiting", "cancel_waiting is not true or false",
         "write true or false"),
        ("/jobs/report/pause", {"note": "x" * 1_001}, "/note", "note is too long", "write at most 1,000 characters"),
        ("/jobs/report/rotate-secret", {"keep_old": -1}, "/keep_old", "keep_old is not a duration from 0s to 36500d",
         HOW_LONG),
        ("/jobs/apply", {"jobs": 1}, "/jobs", "jobs is not a list", "write it in brackets, as in [1, 2]"),
        ("/jobs/apply", {"jobs": [1] * 10_001}, "/jobs", "jobs has too many items",
         "write at most 10,000 in one request"),
        ("/preview", {"schedule": "@daily", "dst": "no"}, "/dst", "dst is not one of the allowed values",
         "write once, wall or skip"),
        ("/preview", {"schedule": "@daily", "name": "a b"}, "/name", "name has characters that are not allowed",
         "write letters, digits, _ and -"),
        ("/preview", {"schedule": "@daily", "count": "5"}, "/count", "count is not a whole number",
         "write one such as 10"),
        ("/runs/cancel", {}, "", NO_FILTER, WRITE_ONE),
        ("/runs/discard", {"limit": 5, "state": None}, "", NO_FILTER, WRITE_ONE),
        ("/runs/replay", {"per_minute": 5, "all": False}, "", NO_FILTER, WRITE_ONE),
        ("/runs/cancel", {"state": "done"}, "/state", "state is not one of the allowed values", STATES),
        ("/runs/cancel", {"job": "report", "limit": 0}, "/limit", "limit is less than 1", "write 1 or more"),
    ],
)  # fmt: skip
async def test_an_invalid_body_is_refused_with_a_hint(
    api: Whole, path: str, body: object, pointer: str, message: str, hint: str
) -> None:
    answer = await api.client.post(f"/api/v1{path}", json=body)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_body")
    assert answer.json()["errors"] == [{"pointer": pointer, "message": message, "hint": hint}]


async def test_an_unknown_parameter_gets_a_suggestion(api: Whole) -> None:
    answer = await api.client.get("/api/v1/jobs?tga=billing&limit=1&limit=2")

    assert answer.json()["code"] == "unknown_parameter"
    assert [error["hint"] for error in answer.json()["errors"]] == ["did you mean tag?", "write it once"]


def test_an_unexpected_validation_error_is_passed_on_unchanged() -> None:
    error = field_error({"type": "new_type", "loc": ("query", "a"), "msg": "It is odd"})

    assert (error.pointer, error.message, error.hint) == ("/query/a", "It is odd", None)


def foreign(answer: Any) -> list[str]:
    """Return the parts of an answer that are not our own messages."""
    if answer.status_code not in (400, 422):
        return []
    reported = [each["message"] for each in answer.json().get("errors", ())]
    return [message for message in reported if any(word in message for word in FOREIGN)]


@pytest.mark.parametrize(("operation", "name"), WITH_QUERY, ids=str)
async def test_no_parameter_error_uses_the_wording_of_a_library(api: Whole, operation: Operation, name: str) -> None:
    path = operation.at(job="report", run=UNUSED)

    found = [foreign(await api.client.get(f"{path}?{name}={text}")) for text in ODD_TEXTS]

    assert [reported for reported in found if reported] == []


@pytest.mark.parametrize("operation", [each for each in distinct_operations() if "{" in each.path], ids=str)
async def test_no_path_error_uses_the_wording_of_a_library(api: Whole, operation: Operation) -> None:
    found = [
        foreign(
            await api.client.request(
                operation.method, operation.at(job=text, run=text, token=text, name=text, incident=text)
            )
        )
        for text in ODD_PATHS
    ]

    assert [reported for reported in found if reported] == []


@pytest.mark.parametrize("operation", WITH_JSON, ids=str)
async def test_no_body_error_uses_the_wording_of_a_library(api: Whole, operation: Operation) -> None:
    assert operation.body is not None
    name = next(iter(operation.body.values()))["schema"]["$ref"].rpartition("/")[2]
    schema = document()["components"]["schemas"]["JobBody" if name == "PatchBody" else name]
    fields = [*schema["properties"], "unknown"]
    bodies: list[object] = [
        None,
        [],
        {},
        *({**VALID.get(name, {}), field: odd} for field in fields for odd in ODD_VALUES),
    ]
    path = operation.at(job="report", run=UNUSED)

    found = [
        foreign(await api.client.request(operation.method, path, content=json.dumps(body), headers=JSON))
        for body in bodies
    ]

    assert [reported for reported in found if reported] == []
