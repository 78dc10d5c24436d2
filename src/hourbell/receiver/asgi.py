"""Webhooks over ASGI: a standalone application, and a function for requests of Starlette and FastAPI."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol

from hourbell.receiver.exchange import (
    MAX_BYTES,
    Answer,
    Answerable,
    answer_of,
    check_declared_length,
    check_length,
    check_method,
    failure,
    refusal,
)
from hourbell.receiver.signature import Verifier
from hourbell.receiver.webhook import InvalidWebhook, Webhook

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Request(Protocol):
    """The interface that `verified` needs; requests of Starlette and FastAPI have it."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    def stream(self) -> AsyncIterator[bytes]: ...


async def verified(verifier: Verifier, request: Request, *, max_bytes: int = MAX_BYTES) -> Webhook:
    """Verify a request and return its webhook; raises InvalidWebhook. It consumes the body, which the webhook has."""
    check_declared_length(request.headers.get("content-length"), max_bytes)
    body = await _collect(request.stream(), max_bytes)
    return verifier.verify(request.headers, body)


class WebhookReceiver:
    """An ASGI application that verifies a webhook, passes it to an async function and answers.

    The answer is 204, or the handler's result; 500 if it raises.
    """

    def __init__(
        self,
        verifier: Verifier,
        handler: Callable[[Webhook], Awaitable[Answerable]],
        *,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._verifier = verifier
        self._handler = handler
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"webhooks come by HTTP; this application does not speak {scope['type']}")
        try:
            webhook = await self._received(scope, receive)
        except InvalidWebhook as error:
            await _send(send, refusal(error))
        except _Disconnected:
            return
        else:
            await _send(send, await self._answer(webhook))

    async def _received(self, scope: Scope, receive: Receive) -> Webhook:
        check_method(scope["method"])
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        for name, value in headers:
            if name.lower() == "content-length":
                check_declared_length(value, self._max_bytes)
        return self._verifier.verify(headers, await _collect(_chunks(receive), self._max_bytes))

    async def _answer(self, webhook: Webhook) -> Answer:
        try:
            return answer_of(await self._handler(webhook))
        except Exception:
            return failure(webhook)


class _Disconnected(Exception):
    """The sender disconnected: nobody waits for the answer."""


async def _chunks(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Disconnected
        yield message.get("body", b"")
        if not message.get("more_body", False):
            return


async def _collect(chunks: AsyncIterator[bytes], max_bytes: int) -> bytes:
    """Read the whole body, with little more than `max_bytes` in memory at any time."""
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        check_length(len(body), max_bytes)
    return bytes(body)


async def _send(send: Send, answer: Answer) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.all_headers().items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
