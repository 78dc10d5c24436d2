"""Every failure is a problem by RFC 9457 that reveals no internals."""

import logging
from typing import Annotated

import httpx
import pytest
from fastapi import FastAPI, Query
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from hourbell.api.middleware import RequestMiddleware
from hourbell.api.problems import Problem, add_handlers
from hourbell.api.users import read
from hourbell.control.user import NotAllowed
from hourbell.core.access.roles import Role
from hourbell.core.job.body import parse_job
from hourbell.core.values.strict_json import parse_json
from hourbell.store.errors import AlreadyAsked, Conflict, StoreUnavailable

pytestmark = pytest.mark.anyio
CANARY = "canary-4711"


class Inner(BaseModel):
    count: int


class Body(BaseModel):
    name: str = Field(max_length=5)
    inner: Inner


def app_raising(error: Exception | None = None) -> FastAPI:
    app = FastAPI()
    add_handlers(app)

    @app.get("/raise")
    async def fail() -> None:
        assert error is not None
        raise error

    @app.get("/list/{number}")
    async def show(number: int, limit: Annotated[int, Query(le=500)] = 1) -> int:
        return number + limit

    @app.post("/body")
    async def take(body: dict[str, object]) -> None:
        read(Body, body)

    @app.post("/job")
    async def job(body: dict[str, object]) -> None:
        parse_job(body)

    return app


async def ask(app: FastAPI, path: str = "/raise", method: str = "GET", **more: object) -> httpx.Response:
    middleware = RequestMiddleware(app, new_id=lambda: "r-1", elapsed=lambda: 0.0)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(middleware), base_url="http://localhost") as client:
        return await client.request(method, path, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Problem(418, "teapot", "I am one."), 418, "teapot"),
        (Conflict("no_such_job", "there is none"), 404, "no_such_job"),
        (Conflict("no_such_run", "there is none"), 404, "no_such_run"),
        (Conflict("version_mismatch", "it is at 3"), 412, "version_mismatch"),
        (Conflict("name_taken", "it is taken"), 409, "name_taken"),
        (NotAllowed(Role.ADMIN, "to define it"), 403, "not_allowed"),
        (AlreadyAsked(), 409, "already_done"),
        (StoreUnavailable(CANARY), 503, "database_unavailable"),
        (HTTPException(413), 413, "body_too_large"),
        (HTTPException(404, CANARY), 404, "not_found"),
        (RuntimeError(CANARY), 500, "internal_server_error"),
    ],
)
async def test_exceptions_are_answered_as_problems(error: Exception, status: int, code: str) -> None:
    answer = await ask(app_raising(error))

    body = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, body["status"], body["code"], body["request_id"]) == (status, status, code, "r-1")
    assert (body["type"], answer.headers["x-request-id"]) == ("about:blank", "r-1")
    assert body["title"]
    assert body["detail"].endswith(".")
    assert CANARY not in answer.text


async def test_a_problem_carries_its_errors_and_headers() -> None:
    reported = Problem(422, "bad", "Bad.", [("/a", "It is bad.", "write b")], {"Retry-After": "7"})
    answer = await ask(app_raising(reported))

    assert answer.json()["errors"] == [{"pointer": "/a", "message": "It is bad.", "hint": "write b"}]
    assert answer.headers["retry-after"] == "7"


async def test_an_unreachable_database_is_answered_with_retry_after() -> None:
    answer = await ask(app_raising(StoreUnavailable()))

    assert 1 <= int(answer.headers["retry-after"]) <= 5


async def test_retry_after_is_spread_so_that_refused_callers_do_not_return_together() -> None:
    app = app_raising(StoreUnavailable())
    waits = {(await ask(app, headers={"X-Request-Id": f"r{n}"})).headers["retry-after"] for n in range(40)}

    assert waits == {"1", "2", "3", "4", "5"}


async def test_validation_errors_are_reported_field_by_field() -> None:
    answer = await ask(app_raising(), "/job", "POST", json={"name": 7, "schedule": "* * *"})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_job")
    assert {error["pointer"] for error in answer.json()["errors"]} >= {"/name", "/schedule"}


async def test_invalid_json_is_reported_with_line_and_column() -> None:
    with pytest.raises(ValueError, match="not JSON") as caught:
        parse_json(b"{")
    answer = await ask(app_raising(caught.value))

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_json")


@pytest.mark.parametrize(
    ("path", "pointers"),
    [("/list/x?limit=501", ["/path/number", "/query/limit"]), ("/list/1?limit=x", ["/query/limit"])],
)
async def test_wrong_parameters_are_400_and_named(path: str, pointers: list[str]) -> None:
    answer = await ask(app_raising(), path)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")
    assert [error["pointer"] for error in answer.json()["errors"]] == pointers


async def test_an_invalid_body_is_422_with_pointers_and_without_the_values_sent() -> None:
    answer = await ask(app_raising(), "/body", "POST", json={"name": CANARY, "inner": {"count": CANARY}})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_body")
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/name", "/inner/count"]
    assert CANARY not in answer.text


async def test_not_found_and_not_allowed_are_problems_too() -> None:
    app = app_raising()
    missing, wrong = await ask(app, "/nothing"), await ask(app, "/body", "PUT")

    assert (missing.status_code, missing.json()["detail"]) == (404, "No such path: /nothing.")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert wrong.json()["code"] == "method_not_allowed"


async def test_an_internal_error_is_logged_once_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        await ask(app_raising(RuntimeError(CANARY)))

    [record] = caplog.records
    assert (record.getMessage(), record.__dict__["request_id"]) == ("request_failed", "r-1")
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], RuntimeError)
