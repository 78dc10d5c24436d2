"""The whole API behind a real socket, and network faults."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hourbell.api.middleware import RequestMiddleware
from hourbell.client import AsyncClient, Retries
from tests.api.whole import Whole, whole_api
from tests.database import Database


@dataclass
class Seen:
    """A request as it came in."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class Weather:
    """Faults for the next requests, one each; none once the list is empty."""

    app: ASGIApp
    coming: list[str] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.seen.append(Seen(scope["method"], scope["path"], headers))
        trouble = self.coming.pop(0) if self.coming else "none"
        match trouble.split():
            case ["none"]:
                await self.app(scope, receive, send)
            case ["drop"]:
                await _hang_up(send)
            case ["drop-the-answer"]:
                await self.app(scope, receive, _nowhere)
                await _hang_up(send)
            case ["cut", count]:
                await self.app(scope, receive, _cut(send, int(count)))
            case [status, *after]:
                await _answer(send, int(status), after)

    @property
    def keys(self) -> list[str | None]:
        return [each.headers.get("idempotency-key") for each in self.seen]


async def _nowhere(message: Message) -> None: ...


async def _hang_up(send: Send) -> None:
    """End the connection as a cut cable does; uvicorn has no other way to it."""
    send.__self__.transport.abort()  # type: ignore[attr-defined]
    await asyncio.sleep(0.01)


def _cut(send: Send, count: int) -> Send:
    """Let so many parts of the body through, and then end the connection."""
    passed = 0

    async def through(message: Message) -> None:
        nonlocal passed
        if message["type"] == "http.response.body":
            passed += 1
            if passed > count:
                await _hang_up(send)
                return
        await send(message)

    return through


async def _answer(send: Send, status: int, after: list[str]) -> None:
    headers = [(b"content-type", b"text/plain"), *((b"retry-after", each.encode()) for each in after)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"from a proxy"})


@dataclass
class Pauses:
    """Waits that take no time, and a clock that they move."""

    waits: list[float] = field(default_factory=list)
    now: float = 0.0

    async def pause(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def retries(self, **more: Any) -> Retries:
        return Retries(pause=self.pause, elapsed=lambda: self.now, random_bytes=_Numbers(), **more)


class _Numbers:
    """Deterministic bytes that never repeat, in place of random ones."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, size: int) -> bytes:
        self._count += 1
        return self._count.to_bytes(size, "big")


@dataclass
class Served:
    api: Whole
    url: str
    weather: Weather
    pauses: Pauses
    client: AsyncClient

    def another(self, token: str | None = None, **more: Any) -> AsyncClient:
        return AsyncClient(self.url, token, retries=self.pauses.retries(**more))


@asynccontextmanager
async def serve(app: ASGIApp) -> AsyncIterator[str]:
    """The app on a socket of this machine, in this event loop."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        serving = asyncio.create_task(server._serve([listening]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


@asynccontextmanager
async def served(database: Database, **more: Any) -> AsyncIterator[Served]:
    async with whole_api(database, **more) as api:
        middleware = RequestMiddleware(api.app, new_id=lambda: "made-id", elapsed=api.time.elapsed)
        weather, pauses = Weather(middleware), Pauses()
        async with serve(weather) as url, AsyncClient(url, retries=pauses.retries()) as client:
            yield Served(api, url, weather, pauses, client)
