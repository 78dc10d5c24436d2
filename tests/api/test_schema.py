"""Requests that the OpenAPI document allows or forbids are answered as the document says, for every caller."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis.strategies import SearchStrategy, lists, one_of
from schemathesis.checks import not_a_server_error
from schemathesis.generation.modes import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from hourbell.core.access.roles import Role
from tests.api.document import Operation, distinct_operations, document
from tests.api.whole import Whole, a_job, whole_api
from tests.sqlite_database import SqliteDatabase

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
OPERATIONS = [each for each in distinct_operations() if each.name != "listen"]  # it has no end
SCHEMA = schemathesis.openapi.from_dict(document())
BASE = "http://127.0.0.1:8080"
QUIET = settings(
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@schemathesis.serializer("application/x-ndjson")
def lines(_context: object, value: object) -> bytes:
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def takes_lines(case: schemathesis.Case) -> bool:
    """Return True if a body is lines of any JSON, each of which is answered by itself."""
    return case.path.endswith("/import")


@dataclass
class Server:
    """The API on a loop of its own, with a job and a run that calls may be about."""

    loop: asyncio.Runner
    api: Whole
    tokens: dict[Role, str]
    run_id: str = ""

    def ask(self, method: str, url: str, role: Role = Role.ADMIN, **more: Any) -> httpx.Response:
        headers = {**more.pop("headers", {}), "Authorization": f"Bearer {self.tokens[role]}"}
        return self.loop.run(self.api.client.request(method, url, headers=headers, **more))

    def set_up(self) -> None:
        self.ask("PUT", "/api/v1/jobs/report", json=a_job())
        if not self.run_id or self.ask("GET", f"/api/v1/runs/{self.run_id}").status_code != 200:
            self.run_id = self.ask("POST", "/api/v1/jobs/report/trigger").json()["run_id"]

    def check(self, case: schemathesis.Case, role: Role) -> None:
        try:
            sent = requests.Request(**case.as_transport_kwargs(base_url=BASE)).prepare()
        except (requests.exceptions.InvalidHeader, UnicodeError):
            reject()
        headers = {
            name: value for name, value in sent.headers.items() if name.lower() not in ("authorization", "cookie")
        }
        try:
            answer = self.ask(sent.method or "", sent.url or "", role, headers=headers, content=sent.body)
        except (httpx.InvalidURL, UnicodeError):
            reject()
        checks = [each for each in CHECKS if each is not negative_data_rejection or not takes_lines(case)]
        case.validate_response(answer, checks=checks)


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with asyncio.Runner() as loop:
        database_context = SqliteDatabase.in_memory()
        database = loop.run(database_context.__aenter__())
        api_context = whole_api(database)
        api = loop.run(api_context.__aenter__())
        try:
            tokens = {role: loop.run(api.token(role)) for role in Role}
            yield Server(loop, api, tokens)
        finally:
            loop.run(api_context.__aexit__(None, None, None))
            loop.run(database_context.__aexit__(None, None, None))


def cases(operation: Operation, run_id: str) -> SearchStrategy[schemathesis.Case]:
    """Calls that the document allows and forbids, about unknown and existing objects."""
    found = SCHEMA[operation.path][operation.method]
    kinds = [found.as_strategy(mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)]
    there = {"{job}": {"job": "report"}, "{run}": {"run": run_id}}
    for part, value in there.items():
        if part in operation.path:
            kinds.append(found.as_strategy(GenerationMode.POSITIVE, path_parameters=value))
            if operation.body is not None or operation.described.get("parameters"):
                kinds.append(found.as_strategy(GenerationMode.NEGATIVE, path_parameters=value))
    return one_of(kinds)


def known(operation: Operation, run_id: str) -> SearchStrategy[schemathesis.Case]:
    """Calls that the document allows, about the existing job and run."""
    part = {"job": "report"} if "{job}" in operation.path else {"run": run_id}
    return SCHEMA[operation.path][operation.method].as_strategy(GenerationMode.POSITIVE, path_parameters=part)


def search(running: Server, operation: Operation, role: Role, examples: int) -> None:
    running.set_up()

    @settings(QUIET, max_examples=examples)
    @given(case=cases(operation, running.run_id))
    def every_answer_is_documented(case: schemathesis.Case) -> None:
        running.set_up()
        running.check(case, role)

    every_answer_is_documented()


def walk(running: Server, examples: int) -> None:
    """Calls one after another about one job and its run, in whatever state the last call has left them."""
    running.set_up()
    about_them = [each for each in OPERATIONS if "{job}" in each.path or "{run}" in each.path]

    @settings(QUIET, max_examples=examples)
    @given(calls=lists(one_of([known(each, running.run_id) for each in about_them]), min_size=8, max_size=16))
    def every_answer_is_documented(calls: list[schemathesis.Case]) -> None:
        running.set_up()
        for call in calls:
            running.check(call, Role.ADMIN)

    every_answer_is_documented()


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_answers_to_an_admin_match_the_openapi_document(running: Server, operation: Operation) -> None:
    search(running, operation, Role.ADMIN, 8)


@pytest.mark.parametrize(
    "role",
    [
        Role.VIEWER,
        pytest.param(Role.OPERATOR, marks=pytest.mark.full),
        pytest.param(Role.EDITOR, marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_answers_to_every_other_role_match_the_openapi_document(
    running: Server, operation: Operation, role: Role
) -> None:
    search(running, operation, role, 4)


def test_answers_in_every_reachable_state_match_the_openapi_document(running: Server) -> None:
    walk(running, 12)


@pytest.mark.sweep
def test_a_long_walk_finds_no_undocumented_answer(running: Server) -> None:
    walk(running, 1_000)


@pytest.mark.sweep
@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_a_long_search_finds_no_undocumented_answer(running: Server, operation: Operation, role: Role) -> None:
    search(running, operation, role, 500)
