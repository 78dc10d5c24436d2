"""Recorded webhooks: the real target builds each request, and a script answers instead of a receiver."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hourbell.core.values.url import parse_url
from hourbell.targets.http.transport import MAX_RESPONSE_BYTES, NotBegun, Request, Response, TransportError
from hourbell.testing.times import cut


@dataclass(frozen=True, slots=True)
class WebhookRecord:
    """One request as it would have been sent."""

    at: datetime
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> object:
        return json.loads(self.body)


@dataclass(slots=True)
class Script:
    """The answer of a receiver. `left` is how many times it is still given; None for no limit."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...]
    seconds: float
    error: str | None
    left: int | None


@dataclass(slots=True)
class Receivers:
    """A transport that plays all receivers: it records requests, and answers 200 unless a script says otherwise."""

    now: Callable[[], datetime]
    records: list[WebhookRecord] = field(default_factory=list)
    scripts: dict[str, list[Script]] = field(default_factory=dict)

    def add(self, url: str, script: Script) -> None:
        """Add an answer for a URL, after the limited ones that are not used up. It replaces an unlimited one."""
        before = [each for each in self.scripts.get(_whole(url), []) if each.left]
        self.scripts[_whole(url)] = [*before, script]

    async def send(self, request: Request, begin: Callable[[], Awaitable[bool]]) -> Response:
        if not await begin():
            raise NotBegun
        url = str(request.url)
        self.records.append(
            WebhookRecord(cut(self.now()), request.method, url, dict(request.headers), bytes(request.body))
        )
        script = self._next(url)
        if script.seconds >= request.timeout:
            await asyncio.sleep(request.timeout)
            raise TransportError(f"no answer within {request.timeout:g} s", begun=True)
        await asyncio.sleep(script.seconds)
        if script.error is not None:
            raise TransportError(script.error, begun=True)
        return Response(
            script.status, script.headers, script.body[:MAX_RESPONSE_BYTES], len(script.body) <= MAX_RESPONSE_BYTES
        )

    async def close(self) -> None: ...

    def _next(self, url: str) -> Script:
        scripts = self.scripts.get(url, [])
        if not scripts:
            return _WELL
        script = scripts[0]
        if script.left is not None:
            script.left -= 1
            if script.left == 0:
                scripts.pop(0)
        return script


def _whole(url: str) -> str:
    return str(parse_url(url))


_WELL = Script(200, b"", (), 0.0, None, None)
