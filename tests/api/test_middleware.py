"""The middleware: request ids, headers, addresses and one log line for every response."""

import logging

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hourbell.api.middleware import RequestMiddleware
from hourbell.api.problems import add_handlers
from hourbell.core.values.networks import parse_networks
from tests.api.house import House

pytestmark = pytest.mark.anyio
PATH = "/api/v1/things"


@pytest.mark.parametrize("given", ["abc", "018f3c1e-7a52-7cc1-8d5b-0c6b1d2f9a10", "a.b:c_d", "x" * 100])
async def test_a_valid_request_id_is_used(house: House, given: str) -> None:
    assert (await house.ask("GET", PATH, headers={"X-Request-Id": given})).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "x" * 101, "a b", "<script>", "a\x7f", "ü"])
async def test_an_invalid_request_id_is_replaced_by_a_new_one(house: House, given: str) -> None:
    answer = await house.ask("GET", PATH, headers={"X-Request-Id": given})

    assert answer.headers["x-request-id"] == "made-id"


@pytest.mark.parametrize("path", [PATH, "/api/v1/nothing", "/api/v1/session", "/"])
async def test_every_answer_of_the_api_has_the_security_headers(house: House, path: str) -> None:
    headers = (await house.ask("GET", path)).headers

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"


async def test_an_internal_error_has_the_security_headers_too() -> None:
    app = FastAPI()
    add_handlers(app)

    @app.get("/api/bug")
    async def bug() -> None:
        raise RuntimeError("canary")

    middleware = RequestMiddleware(app, new_id=lambda: "made-id", elapsed=lambda: 0.0)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(middleware), base_url="http://localhost") as client:
        answer = await client.get("/api/bug")

    assert (answer.status_code, answer.headers["x-request-id"]) == (500, "made-id")
    assert (answer.json()["request_id"], answer.headers["x-content-type-options"]) == ("made-id", "nosniff")
    assert "canary" not in answer.text


async def test_a_content_security_policy_of_the_app_is_not_overwritten() -> None:
    app = Response("", headers={"Content-Security-Policy": "default-src 'self'"})
    middleware = RequestMiddleware(app, new_id=lambda: "made-id", elapsed=lambda: 0.0)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(middleware), base_url="http://localhost") as client:
        assert (await client.get("/")).headers["content-security-policy"] == "default-src 'self'"


PROXIES = parse_networks("10.0.0.0/8, fd00::/8")


@pytest.mark.parametrize(
    ("connected", "forwarded", "ip"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.7"], "192.0.2.1"),  # anybody can write that
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.9, 198.51.100.7"], "198.51.100.7"),  # what is before was written by the client
        ("10.0.0.1", ["203.0.113.9, 198.51.100.7, 10.9.9.9"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.9", "198.51.100.7", "10.9.9.9"], "198.51.100.7"),
        ("10.0.0.1", ["10.1.1.1, 10.2.2.2"], "10.1.1.1"),
        ("10.0.0.1", ["198.51.100.7, nonsense"], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7:4711"], "198.51.100.7"),
        ("fd00::1", ["[2001:db8::7]:4711"], "2001:db8::7"),
        ("::ffff:10.0.0.1", ["::ffff:198.51.100.7"], "198.51.100.7"),
    ],
)
async def test_only_trusted_proxies_may_report_the_client_address(
    house: House, connected: str, forwarded: list[str], ip: str
) -> None:
    house.client_ip, house.trusted_proxies = connected, PROXIES
    token = await house.token()
    headers = [("X-Forwarded-For", each) for each in forwarded]

    assert (await house.ask("GET", PATH, token=token, headers=headers)).json()["ip"] == ip


async def test_a_request_is_logged_as_one_line_without_its_query(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "hourbell"):
        await house.ask("GET", f"{PATH}?password=canary", headers={"Cookie": "canary", "X-Other": "canary"})

    [record] = [each for each in caplog.records if each.name == "hourbell.api"]
    facts = record.__dict__
    assert (record.getMessage(), record.levelname) == ("request", "DEBUG")
    assert (facts["method"], facts["path"], facts["status"], facts["ip"]) == ("GET", PATH, 200, "127.0.0.1")
    assert facts["request_id"] == "made-id"
    assert "canary" not in repr(facts)


async def test_a_path_cannot_forge_a_log_line(house: House, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "hourbell"):
        await house.ask("GET", "/a%0Ab%1B[31m" + "x" * 1_000)

    [record] = [each for each in caplog.records if each.name == "hourbell.api"]
    assert record.__dict__["path"].isprintable()
    assert len(record.__dict__["path"]) <= 500


async def test_scopes_other_than_http_pass_through() -> None:
    seen = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        seen.append(scope)

    async def nothing(*_: object) -> None: ...

    await RequestMiddleware(app, new_id=str, elapsed=lambda: 0.0)({"type": "lifespan"}, nothing, nothing)  # type: ignore[arg-type]
    assert seen == [{"type": "lifespan"}]
