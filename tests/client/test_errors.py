"""A refused request becomes an exception with the code, the field and the message."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from hourbell.client import (
    ApiError,
    AsyncClient,
    ClientError,
    Invalid,
    Job,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    Retries,
    ServerOutOfReach,
    TooManyRequests,
    UnexpectedAnswer,
)
from hourbell.client.batches import line_batches
from hourbell.client.reading import read
from hourbell.client.server_address import find_server
from hourbell.core.access.roles import Role
from tests.api.whole import a_job
from tests.client.served import Served, serve, served
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio


async def test_all_errors_of_a_job_are_reported_with_json_pointers(server: Served) -> None:
    with pytest.raises(Invalid) as caught:
        await server.client.jobs.create(a_job(schedule="99 * * * *", tgs=[]))

    error = caught.value
    assert (error.status, error.code, error.request_id) == (422, "invalid_job", "made-id")
    assert sorted(each.pointer for each in error.errors) == ["/schedule", "/tgs"]
    assert "/schedule: " in str(error)
    assert error.raw["status"] == 422


async def test_unknown_callers_and_missing_roles_are_errors(server: Served) -> None:
    viewer = await server.api.token(Role.VIEWER)

    with pytest.raises(NotAuthenticated):
        await server.client.whoami()
    async with server.another(viewer) as client:
        assert ((await client.whoami()).kind, (await client.whoami()).role) == ("token", "viewer")
        with pytest.raises(NotAllowed, match="operator"):
            await client.jobs.trigger("report")
        with pytest.raises(NotAllowed):
            await client.tokens.list()


async def test_tokens_are_created_listed_and_revoked(server: Served) -> None:
    async with server.another(await server.api.token(Role.ADMIN)) as admin:
        made = await admin.tokens.create("dashboard", Role.VIEWER, expires_in="1d")
        assert made.token is not None
        assert made.token not in repr(made)
        async with server.another(made.token) as viewer:
            assert (await viewer.whoami()).name == "dashboard"
            await admin.tokens.revoke(made.id)
            with pytest.raises(NotAuthenticated):
                await viewer.whoami()
        assert {token.name for token in await admin.tokens.list() if token.revoked_at is None} == {"a-admin"}


async def test_too_many_requests_carry_retry_after() -> None:
    async with (
        SqliteDatabase.in_memory() as database,
        served(database, rate=0.2) as server,
        server.another(tries=1) as client,
    ):
        await client.whoami()
        with pytest.raises(TooManyRequests) as caught:
            await client.whoami()
    assert caught.value.retry_after == 5


async def test_an_unknown_run_is_not_found(server: Served) -> None:
    with pytest.raises(NotFound) as caught:
        await server.client.runs.get("5f1e1d7a-93a5-4f0e-a4a0-0b6f6a0d9c11")
    assert caught.value.code == "no_such_run"


class Answers:
    """A server that gives one answer to everything."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self.tokens: list[Any] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.tokens.append(dict(scope["headers"]).get(b"authorization"))
        await self.response(scope, receive, send)


async def test_a_server_without_tls_is_recognized(server: Served) -> None:
    url = server.url.replace("http://", "https://")
    async with AsyncClient(url, retries=Retries(tries=1)) as client:
        with pytest.raises(ServerOutOfReach, match=r"does not speak TLS\); write http:// instead of https://\.$"):
            await client.whoami()


async def test_a_redirect_is_not_followed() -> None:
    other = Answers(JSONResponse({}))
    async with serve(other) as elsewhere:
        app = Answers(RedirectResponse(f"{elsewhere}/here"))
        async with serve(app) as url, AsyncClient(url, "hb_token") as client:
            with pytest.raises(ApiError, match="which is not followed; set HOURBELL_URL") as caught:
                await client.whoami()
    assert (caught.value.code, app.tokens, other.tokens) == ("redirected", [b"Bearer hb_token"], [])


@pytest.mark.parametrize(
    "response",
    [
        HTMLResponse("<p>welcome</p>"),
        JSONResponse([]),
        JSONResponse({"id": 1}),
        JSONResponse("x"),
        Response(),
        HTMLResponse("<p>File not found</p>", 404),
        JSONResponse({"code": "NotFound", "message": "no such bucket"}, 404),
        JSONResponse({"error": "unprocessable"}, 422),
        HTMLResponse("<p>Unsupported method</p>", 501),
    ],
    ids=["html", "list", "other", "text", "nothing", "html 404", "another api's 404", "another api's 422", "html 501"],
)
async def test_a_server_that_is_not_hourbell_is_recognized(response: Response) -> None:
    async with serve(Answers(response)) as url, AsyncClient(url, retries=Retries(tries=1)) as client:
        with pytest.raises(UnexpectedAnswer):
            await client.jobs.get("report")
        with pytest.raises(UnexpectedAnswer):
            [job async for job in client.jobs.list()]
        with pytest.raises(UnexpectedAnswer, match="is not Hourbell"):
            await client.ready()


@pytest.mark.parametrize("status", [200, 422, 500])
async def test_an_endlessly_nested_answer_is_refused(status: int) -> None:
    response = Response(b"[" * 200_000 + b"\n", status, media_type="application/json")
    async with serve(Answers(response)) as url, AsyncClient(url, retries=Retries(tries=1)) as client:
        with pytest.raises(ClientError):
            await client.jobs.get("report")
        with pytest.raises(ClientError):
            await client.ready()
        with pytest.raises(ClientError):
            [result async for result in client.jobs.import_jobs([{"name": "a"}])]


@pytest.mark.parametrize("status", [200, 500])
async def test_no_more_of_an_answer_is_read_than_a_server_sends(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hourbell.client.http_session.MAX_ANSWER_BYTES", 1_000_000)
    response = Response(b" " * 64_000_000, status)
    async with serve(Answers(response)) as url, AsyncClient(url, retries=Retries(tries=1)) as client:
        with pytest.raises(UnexpectedAnswer, match="more than 1,000,000 bytes"):
            await client.whoami()


async def test_an_endless_line_is_not_read_forever() -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 100_000

    with pytest.raises(UnexpectedAnswer, match="a line of more than"):
        [batch async for batch in line_batches(parts())]


@pytest.mark.parametrize("status", [401, 403, 413, 429, 500, 502, 520])
async def test_an_error_of_a_proxy_is_reported_as_such(status: int) -> None:
    app = Answers(HTMLResponse("<p>not through here</p>", status))
    async with serve(app) as url, AsyncClient(url, retries=Retries(tries=1)) as client:
        with pytest.raises(ApiError, match="not through here") as caught:
            await client.jobs.get("report")
    assert caught.value.status == status


async def test_environment_proxies_are_not_used(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")

    assert (await server.client.health()).status == "ok"
    assert (await server.client.ready()).is_ready


def test_unknown_fields_of_a_newer_server_are_ignored_and_missing_ones_get_defaults() -> None:
    raw = {
        "id": "5f1e1d7a-93a5-4f0e-a4a0-0b6f6a0d9c11",
        "name": "report",
        "schedule": "@daily",
        "target": {},
        "version": 1,
        "state": "hibernating",
        "colour": "green",
    }
    job = read(Job, raw)

    assert (job.state, job.overlap, job.totals, job.raw["colour"]) == ("hibernating", "allow", None, "green")


def test_the_server_url_comes_from_the_argument_or_the_environment(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hb_from_file\n")
    environment = {"HOURBELL_URL": "https://example.com/bell/", "HOURBELL_TOKEN_FILE": str(tmp_path / "token")}

    assert find_server(None, None, {}) == find_server("http://127.0.0.1:8080", None, {})
    found = find_server(None, None, environment)
    assert (found.url, found.token) == ("https://example.com/bell", "hb_from_file")
    assert "hb_from_file" not in repr(found)
    assert find_server("http://[::1]:1", "hb_x", {**environment, "HOURBELL_TOKEN": "hb_y"}).token == "hb_x"


@pytest.mark.parametrize(
    "url", ["example.com", "ftp://example.com", "http://", "http://a b", "http://h?x=1", "http://u:p@h", "http://h:x"]
)
def test_an_invalid_server_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match=r"HOURBELL_(URL|TOKEN)") as caught:
        AsyncClient(url)
    assert "u:p" not in str(caught.value)


def test_an_invalid_token_is_refused_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="copy it again") as caught:
        AsyncClient("http://127.0.0.1:1", "hb_a\nb")
    assert "hb_a" not in str(caught.value)
    with pytest.raises(ValueError, match="cannot be read"):
        find_server(None, None, {"HOURBELL_TOKEN_FILE": str(tmp_path / "none")})
