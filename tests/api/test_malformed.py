"""Malformed bodies, parameters and paths: refused with 4xx, at little cost."""

import base64
import json
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import jsonschema_rs
import pytest

from hourbell.api.json_body import MAX_BODY_BYTES, MAX_BODY_BYTES_BY_PATH
from hourbell.core.access.roles import Role
from tests.api.document import Operation, distinct_operations, document
from tests.api.whole import HOOK, Whole, a_job, whole_api
from tests.backends import ONE
from tests.database import BACKENDS

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
UNUSED = "00000000-0000-4000-8000-000000000000"
NDJSON = {"Content-Type": "application/x-ndjson"}
JSON = {"Content-Type": "application/json"}
IMPORT = "/api/v1/jobs/import"
WITH_JSON = [each for each in distinct_operations() if each.body and "import" not in each.name]
NOT_JSON = {
    "bad UTF-8": b'{"name": "\xff\xfe"}',
    "UTF-16": '{"name": "a"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"name": "a"}',
    "deep arrays": b"[" * 10_000 + b"]" * 10_000,
    "deep objects": b'{"name":' * 10_000 + b"1" + b"}" * 10_000,
    "brackets without an end": b"[" * 100_000,
    "NaN": b'{"name": NaN}',
    "infinity": b'{"name": -Infinity}',
    "a key twice": b'{"name": "a", "name": "b"}',
    "a key twice, deep down": b'{"target": {"type": "http", "type": "sql"}}',
    "NUL": b'{"name": "a\\u0000"}',
    "NUL as a key": b'{"\\u0000": 1}',
    "NUL as it is": b'{"name": "a\x00"}',
    "half a surrogate": b'{"name": "\\ud800"}',
    "the wrong half first": b'{"name": "\\udc00\\ud800"}',
    "a number that is too large": b'{"count": 1e999}',
    "a number that is too long": b'{"count": ' + b"9" * 5_000 + b"}",
    "nothing": b"",
    "space": b" \n\t ",
    "half an object": b'{"name": "a"',
    "more after the end": b"{} {}",
    "single quotes": b"{'name': 'a'}",
}
NO_OBJECT = [b"[]", b"[{}]", b"null", b"true", b"0", b'"name"', b"1" + b"0" * 300]
ODD_VALUES: list[Any] = [
    None, True, False, 0, -1, 1.5, 2**31, 2**63, 2**64, -(2**70), 10**300, 1e300, -0.0, "", " ", "x", "\x7f", "9" * 50,
    "x" * 20_000, "😀", "\u202e", "null", "0s", "99999999d", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00+99:00",
    "9999-12-31T23:59:59Z", "1969-12-31T23:59:59Z", [], [[]], [None], ["x"] * 1_000, {}, {"": {}}, {"type": "http"},
]  # fmt: skip
VALID = {
    "JobBody": a_job(),
    "PatchBody": {"description": "other"},
    "BackfillBody": {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"},
    "PreviewBody": {"schedule": "0 9 * * *"},
    "TokenBody": {"name": "another", "role": "viewer"},
    "SessionBody": {"token": "hb_none"},
}


@pytest.fixture(scope="module", params=ONE)
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Whole]:
    async with BACKENDS[request.param]() as database, whole_api(database) as made:
        made.client.headers["Authorization"] = f"Bearer {await made.token(Role.ADMIN)}"
        await made.job()
        yield made


async def send(api: Whole, operation: Operation, content: object, **headers: str) -> tuple[int, str]:
    path = operation.at(job="report", run=UNUSED, token=UNUSED)
    answer = await api.client.request(operation.method, path, content=content, headers={**JSON, **headers})  # type: ignore[arg-type]
    return answer.status_code, answer.text


@pytest.mark.parametrize("operation", WITH_JSON, ids=str)
async def test_invalid_json_is_refused(api: Whole, operation: Operation) -> None:
    bodies = {name: body for name, body in NOT_JSON.items() if body or operation.requires_body}
    found = {name: await send(api, operation, body) for name, body in bodies.items()}

    limit = MAX_BODY_BYTES_BY_PATH.get(operation.path, MAX_BODY_BYTES)
    expected = {name: 400 if len(body) <= limit else 413 for name, body in bodies.items()}
    assert {name: reported for name, reported in found.items() if reported[0] != expected[name]} == {}


@pytest.mark.parametrize("operation", WITH_JSON, ids=str)
async def test_json_that_is_not_an_object_is_refused(api: Whole, operation: Operation) -> None:
    found = {body: await send(api, operation, body) for body in NO_OBJECT}

    assert {body: reported for body, reported in found.items() if reported[0] != 422} == {}


@pytest.mark.parametrize("operation", WITH_JSON, ids=str)
async def test_another_media_type_is_refused(api: Whole, operation: Operation) -> None:
    given = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json5"]

    found = {each: await send(api, operation, b"{}", **{"Content-Type": each}) for each in given}

    assert {each: reported for each, reported in found.items() if reported[0] != 415} == {}


@pytest.mark.parametrize("operation", WITH_JSON, ids=str)
async def test_field_values_that_openapi_forbids_are_refused(api: Whole, operation: Operation) -> None:
    assert operation.body is not None
    schema = next(iter(operation.body.values()))["schema"]
    name = schema["$ref"].rpartition("/")[2]
    validator = jsonschema_rs.validator_for({**schema, "components": document()["components"]})
    properties = document()["components"]["schemas"]["JobBody" if name == "PatchBody" else name]["properties"]
    base = VALID.get(name, {})
    wrong = {}
    for field in properties:
        for value in ODD_VALUES:
            body = {**base, field: value}
            status, text = await send(api, operation, json.dumps(body))
            if status >= 500 or (status < 300 and not validator.is_valid(body)):
                wrong[field, repr(value)[:40]] = status, text[:200]

    assert wrong == {}


async def fifty_mebibytes(sent: list[int], part: bytes = b"x" * 65_536) -> AsyncIterator[bytes]:
    yield b'{"name": "'
    while sum(sent) < 50 * MIB:
        sent.append(len(part))
        yield part


@pytest.mark.parametrize("operation", WITH_JSON, ids=str)
async def test_a_body_of_50_mib_is_not_read_to_its_end(api: Whole, operation: Operation) -> None:
    sent: list[int] = []

    status, _ = await send(api, operation, fifty_mebibytes(sent))

    limit = 9 if operation.path.endswith("/apply") else 2
    assert (status, sum(sent) < limit * MIB) == (413, True)


async def test_a_body_with_a_too_large_content_length_is_not_read(api: Whole) -> None:
    sent: list[int] = []

    answer = await api.client.post(
        "/api/v1/jobs", content=fifty_mebibytes(sent), headers={**JSON, "Content-Length": str(50 * MIB)}
    )

    assert (answer.status_code, sent) == (413, [])


@pytest.mark.parametrize("part", [b"x" * 65_536, b'"' + b"x" * (MIB - 3) + b'"\n'], ids=["one line", "50 lines"])
async def test_an_import_of_50_mib_of_garbage_takes_little_memory(api: Whole, part: bytes) -> None:
    sent: list[int] = []
    tracemalloc.start()
    try:
        answer = await api.client.post(IMPORT, content=fifty_mebibytes(sent, part), headers=NDJSON)
        _, limit = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (answer.status_code, sum(sent)) == (200, 50 * MIB)
    assert all(json.loads(line)["result"] == "refused" for line in answer.text.splitlines())
    assert limit < 32 * MIB


async def test_invalid_lines_of_an_import_are_refused_one_by_one(api: Whole) -> None:
    bad = [body for body in NOT_JSON.values() if body.strip() and b"\n" not in body and b"\r" not in body]
    lines = [*bad, *NO_OBJECT, json.dumps(a_job("good")).encode()]

    answer = await api.client.post(IMPORT, content=b"\n".join(lines), headers=NDJSON)

    results = [json.loads(line)["result"] for line in answer.text.splitlines()]
    assert results == ["refused"] * (len(lines) - 1) + [results[-1]]
    assert results[-1] in ("created", "unchanged")


async def test_a_line_with_many_errors_has_a_short_answer(api: Whole) -> None:
    line = json.dumps({f"field-{number}": 1 for number in range(50_000)}).encode()

    answer = await api.client.post(IMPORT, content=line, headers=NDJSON)

    assert (answer.json()["result"], len(answer.content) < 100_000) == ("refused", True)


def cursor(*parts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


LISTS = ("jobs:name", "jobs:next_at", "jobs:id", "runs", "skips", "versions", "audit", "late", "stuck")
UNUSUAL_POSITIONS: list[tuple[object, ...]] = [
    (), (0,), (-1,), (2**31,), (2**62,), (2**80,), (True,), (None,), (None, UNUSED), ("\0", UNUSED),
    ("\ud800", UNUSED), ("x" * 900, UNUSED), ("2026-03-02T08:00:00+00:00", UNUSED),
    ("0001-01-01T00:00:00+23:59", UNUSED),
    ("9999-12-31T23:59:59-23:59", UNUSED), ("2026-03-02T08:00:00+00:00", 2**62), ("9999-12-31T23:59:59-23:59", 1),
    (0, "2026-03-02T08:00:00+00:00", UNUSED), (0, "9999-12-31T23:59:59-23:59", UNUSED), (9, "x", UNUSED),
    ([], {}), ({}, UNUSED, 1),
]  # fmt: skip
UNUSUAL_CURSORS = [cursor(kind, *position) for kind in LISTS for position in UNUSUAL_POSITIONS]
ODD_TEXTS = [
    "", " ", "%00", "a%00b", "%FF", "%ED%A0%80", "%F0%9F%98%80", "%E2%80%AE", "-1", "0", "1", "501", "1e9", "9" * 30,
    "9" * 5_000, "NaN", "null", "true", "0x10", "1_0", "%EF%BC%91", "%D9%A3", "2026-13-45T00:00:00Z", "2026-03-02",
    "0000-00-00T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-01-01T00:00:00%2B99:99",
    "2199-12-31T23:59:59Z", "1970-01-01T00:00:00-23:59", "2026-03-02T08:00:00Z", "'%20or%201=1--", "%25", "_",
    "..%2F..%2Fetc%2Fpasswd", "x" * 3_000, "[]", "%7B%7D", UNUSED, "failed", "paused", "id", "next_at", "1m", "31d",
]  # fmt: skip
WITH_QUERY = [
    (each, parameter["name"])
    for each in distinct_operations()
    for parameter in each.described.get("parameters", ())
    if parameter["in"] == "query" and each.method == "get"
]
ONE_VALUE = [
    (each, parameter["name"])
    for each in distinct_operations()
    for parameter in each.described.get("parameters", ())
    if parameter["in"] == "query" and each.method == "get" and "array" not in str(parameter["schema"])
]


@pytest.mark.parametrize(("operation", "name"), WITH_QUERY, ids=str)
async def test_an_unusual_parameter_value_causes_no_internal_error(api: Whole, operation: Operation, name: str) -> None:
    needed = "job=report&at=2026-03-02T08:00:00Z" if operation.name == "explain_instant" else ""
    rest = "&".join(part for part in needed.split("&") if part and not part.startswith(f"{name}="))
    path = operation.at(job="report", run=UNUSED)
    texts = [*ODD_TEXTS, *(UNUSUAL_CURSORS if name == "cursor" else ())]

    found = {text: await api.client.get(f"{path}?{name}={text}&{rest}".rstrip("&")) for text in texts}

    wrong = {
        text[:60]: answer.text[:200] for text, answer in found.items() if answer.status_code not in (200, 400, 404, 409)
    }
    assert wrong == {}


@pytest.mark.parametrize(("operation", "name"), ONE_VALUE, ids=str)
async def test_a_repeated_parameter_is_refused(api: Whole, operation: Operation, name: str) -> None:
    answer = await api.client.get(f"{operation.at(job='report', run=UNUSED)}?{name}=1&{name}=2")

    assert answer.status_code == 400


@pytest.mark.parametrize(
    "operation", [each for each in distinct_operations() if "{" in each.path and each.name != "create_job"], ids=str
)
async def test_an_unusual_name_in_a_path_is_not_found_or_refused(api: Whole, operation: Operation) -> None:
    there = ("", "null", "1", "1_0") if operation.name == "get_audit_entry" else ("", "null")  # what may be there
    texts = [text for text in ODD_TEXTS if text not in there]
    wrong = {}
    for text in texts:
        content = b'{"on": 1}' if operation.name == "put_alert_policy" else b"{}"  # which is a whole policy
        body = {"content": content, "headers": JSON} if operation.body else {}
        path = operation.at(job=text, run=text, token=text, version=text, entry=text, name=text, incident=text)
        answer = await api.client.request(operation.method, path, **body)  # type: ignore[arg-type]
        if not 400 <= answer.status_code < 500:
            wrong[text[:60]] = answer.status_code, answer.text[:200]

    assert wrong == {}


ODD_HEADERS = ["", '"', '"x"', 'W/"1"', "-1", "0", '"99999999999999999999"', "\x01", "é", '"1", "2"', "x" * 300]


@pytest.mark.parametrize("name", ["If-Match", "Idempotency-Key", "Authorization", "Cookie", "X-Request-Id", "Origin"])
async def test_an_unusual_header_causes_no_internal_error(api: Whole, name: str) -> None:
    found = [
        await api.client.post("/api/v1/jobs/report/pause", headers={name: value.encode()}, json={"note": str(number)})
        for number, value in enumerate(ODD_HEADERS)
    ]

    assert [answer.text for answer in found if answer.status_code >= 500] == []


async def test_unusual_target_fields_cause_no_internal_error(api: Whole) -> None:
    fields = ["url", "method", "headers", "body", "timeout", "secret", "type", "args", "function", "name", "queue"]
    targets = [
        {"type": kind, **(HOOK if kind == "http" else {}), field: value}
        for kind in ("http", "sql", "task", "queue")
        for field in fields
        for value in ODD_VALUES
    ]

    found = [
        (each, await api.client.post("/api/v1/jobs?dry_run=true", json=a_job("odd", target=each))) for each in targets
    ]

    assert [(each, answer.text) for each, answer in found if answer.status_code not in (200, 403, 422)] == []
