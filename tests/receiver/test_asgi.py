"""Webhooks over ASGI: as an application of its own, in Starlette, and under a real server's messages."""

import logging
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hourbell.receiver import Answer, InvalidWebhook, Verifier, Webhook
from hourbell.receiver.asgi import Receive, Scope, Send, WebhookReceiver, verified
from tests.receiver.signed import BODY, ID, OTHER_SECRET, SECRET, T0, just_now, signed

pytestmark = pytest.mark.anyio
VERIFIER = Verifier(SECRET)
App = object


async def post(app: App, headers: dict[str, str], body: object = BODY, method: str = "POST") -> httpx.Response:
    transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://receiver") as client:
        return await client.request(method, "/hook", headers=headers, content=body)  # type: ignore[arg-type]


def receiver(returns: object = None, **options: int) -> tuple[WebhookReceiver, list[Webhook]]:
    seen: list[Webhook] = []

    async def handler(webhook: Webhook) -> object:
        seen.append(webhook)
        if isinstance(returns, Exception):
            raise returns
        return returns

    return WebhookReceiver(VERIFIER, handler, **options), seen  # type: ignore[arg-type]


async def test_a_genuine_webhook_is_handed_on_and_answered_204() -> None:
    app, seen = receiver()

    answer = await post(app, just_now(hourbell_attempt="2"))

    assert (answer.status_code, answer.content, "content-length" in answer.headers) == (204, b"", False)
    assert [(webhook.id, webhook.attempt, webhook.payload) for webhook in seen] == [(ID, 2, {"days": 30})]


@pytest.mark.parametrize(
    ("headers", "status", "reason"),
    [
        ({}, 400, "missing_header"),
        (signed(), 401, "too_old"),
        (just_now(b"other"), 401, "wrong_signature"),
        (signed(secret=OTHER_SECRET), 401, "wrong_signature"),
        (just_now() | {"webhook-timestamp": "now"}, 400, "malformed_header"),
        (just_now() | {"content-length": "1e3"}, 400, "malformed_header"),
    ],
)
async def test_any_other_is_refused_with_a_problem(headers: dict[str, str], status: int, reason: str) -> None:
    app, seen = receiver()

    answer = await post(app, headers)

    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert (answer.json()["status"], answer.json()["reason"], seen) == (status, reason, [])


async def test_another_method_is_not_allowed() -> None:
    app, seen = receiver()

    answer = await post(app, just_now(), method="PUT")

    assert (answer.status_code, answer.headers["allow"], seen) == (405, "POST", [])


async def test_a_body_that_declares_itself_too_large_is_not_read() -> None:
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("read")
        yield b""

    app, seen = receiver(max_bytes=len(BODY))
    answer = await post(app, just_now() | {"content-length": str(len(BODY) + 1)}, never())

    assert (answer.status_code, answer.json()["reason"], seen) == (413, "body_too_large", [])
    assert (await post(app, just_now())).status_code == 204


async def test_a_body_without_a_length_is_read_up_to_the_limit() -> None:
    app, _ = receiver(max_bytes=2500)
    pieces = [b"x" * 1000] * 10

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": pieces.pop(), "more_body": len(pieces) > 0}

    assert [sent.get("status") for sent in await conversation(app, receive)] == [413, None]
    assert len(pieces) == 7


async def conversation(app: WebhookReceiver, receive: Receive) -> list[dict[str, object]]:
    sent: list[dict[str, object]] = []

    async def send(message: object) -> None:
        sent.append(dict(message))  # type: ignore[call-overload]

    headers = [(name.encode(), value.encode()) for name, value in just_now().items()]
    await app({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive, send)
    return sent


async def test_a_sender_that_disconnects_gets_no_answer() -> None:
    app, seen = receiver()
    messages = [{"type": "http.request", "body": BODY[:10], "more_body": True}, {"type": "http.disconnect"}]

    async def receive() -> dict[str, object]:
        return messages.pop(0)

    assert await conversation(app, receive) == []
    assert seen == []


async def test_a_body_may_come_in_pieces() -> None:
    app, seen = receiver()

    async def pieces() -> AsyncIterator[bytes]:
        for index in range(0, len(BODY), 7):
            yield BODY[index : index + 7]

    assert (await post(app, just_now(), pieces())).status_code == 204
    assert seen[0].body == BODY


@pytest.mark.parametrize(
    ("returned", "status"), [(200, 200), (410, 410), (Answer(503, {"Retry-After": "120"}, b"later"), 503)]
)
async def test_a_handler_may_choose_the_answer(returned: object, status: int) -> None:
    app, _ = receiver(returned)

    answer = await post(app, just_now())

    assert answer.status_code == status
    assert answer.headers.get("retry-after") == ("120" if status == 503 else None)
    assert answer.content == (b"later" if status == 503 else b"")


@pytest.mark.parametrize("returned", [RuntimeError("the password is hunter2"), "done", True, 42, {"ok": True}])
async def test_a_handler_that_fails_is_answered_500_and_logged(
    returned: object, caplog: pytest.LogCaptureFixture
) -> None:
    app, _ = receiver(returned)

    answer = await post(app, just_now())

    assert answer.status_code == 500
    assert answer.json() == {"title": "Internal Server Error", "status": 500}
    [record] = caplog.records
    assert (record.name, record.levelno, record.msg) == ("hourbell.receiver", logging.ERROR, "webhook_handler_failed")
    assert record.exc_info is not None


async def test_it_speaks_nothing_but_http() -> None:
    app, _ = receiver()

    with pytest.raises(ValueError, match="does not speak lifespan"):
        await app({"type": "lifespan"}, None, None)  # type: ignore[arg-type]


async def test_it_can_be_a_route_of_starlette() -> None:
    app, seen = receiver()

    assert (await post(Starlette(routes=[Route("/hook", app)]), just_now())).status_code == 204
    assert len(seen) == 1


async def take(request: Request) -> Response:
    webhook = await verified(VERIFIER, request, max_bytes=2000)
    return JSONResponse({"id": webhook.id, "days": webhook.payload["days"]})


async def refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, InvalidWebhook)
    return JSONResponse(error.problem(), error.status)


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [(None, BODY, 200), (signed(at=T0), BODY, 401), (None, b"x" * 2001, 413), ({}, BODY, 400)],
)
async def test_a_view_of_starlette_asks_for_the_webhook(
    headers: dict[str, str] | None, body: bytes, status: int
) -> None:
    app = Starlette(routes=[Route("/hook", take, methods=["POST"])], exception_handlers={InvalidWebhook: refuse})

    answer = await post(app, just_now() if headers is None else headers, body)

    assert answer.status_code == status
    assert answer.json() == {"id": ID, "days": 30} or answer.json()["status"] == status


async def test_the_request_of_starlette_is_read_up_to_the_limit() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        with pytest.raises(InvalidWebhook, match="more than the 10 bytes"):
            await verified(VERIFIER, Request(scope, receive), max_bytes=10)
        await Response()(scope, receive, send)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield b"xx"

    assert (await post(app, just_now(), pieces())).status_code == 200
