"""A webhook receiver in a process of its own, with every request in a file that only grows.

A request is on disk before it is answered, so the file shows what really happened, independent of the database. How a
request is answered stands in its URL, which `Hooks.url` writes. A run is told by the id its requests carry. Messages of
a webhook channel come to paths of their own (`Hooks.messages`), and so do pings of a monitor (`Hooks.pings`).
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode
from uuid import UUID

import uvloop
from aiohttp import web

from hourbell import clock
from tests.faults.receiver import Line

_ROOT = Path(__file__).parents[2]
_BACKLOG = 1_024
_EVERY = 1_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """A received request. `at` is in elapsed seconds of this machine, `clock` is this machine's time."""

    run_id: UUID
    attempt: int
    job: str
    scheduled_at: datetime
    member: str  # the process that sent it, by its own words
    at: float
    clock: datetime
    headers: Mapping[str, str]  # those that sign it
    body: bytes
    status: int | None = None  # of the answer, if there was one
    answered_at: float | None = None
    dropped_at: float | None = None  # when the sender hung up before there was an answer

    @property
    def key(self) -> tuple[UUID, int]:
        return self.run_id, self.attempt


@dataclass(frozen=True, slots=True)
class Delivered:
    """A received message of a webhook channel. `member` is the process that sent it."""

    id: str
    type: str
    at: float
    member: str
    facts: Mapping[str, Any]
    body: bytes
    is_answered: bool

    @property
    def incident(self) -> Mapping[str, Any]:
        return self.facts["incident"] or {}


@dataclass(frozen=True, slots=True)
class Ping:
    """A received ping: `path` has its suffix, such as `/fail`."""

    path: str
    at: float
    text: str


class Hooks:
    """The receiver, which listens from the first moment on. Leaving the context ends it."""

    def __init__(self, folder: Path, name: str = "hooks") -> None:
        self._log = folder / f"{name}.requests"
        with socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG) as listening:
            self._port = listening.getsockname()[1]
            command = [sys.executable, "-m", "tests.faults.hooks", str(listening.fileno()), str(self._log)]
            self._process = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, pass_fds=[listening.fileno()])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()

    def url(self, *, after: float = 0, held: int = _EVERY, fails: int = 0, path: str = "/") -> str:
        """A path whose requests are answered after this many seconds; `inf` means never.

        Only the first `held` requests of a run have to wait, and the first `fails` of them are answered with 500.
        """
        query = urlencode({"after": after, "held": held, "fails": fails})
        return f"http://127.0.0.1:{self._port}{path}?{query}"

    def ping_url(self, path: str = "/ping") -> str:
        return f"http://127.0.0.1:{self._port}{path}"

    def requests(self) -> list[Request]:
        """Every request of a run so far, in the order they came."""
        return [_request(entry) for entry in self._entries("/")]

    def messages(self, path: str) -> list[Delivered]:
        """Every message to a channel with this path so far, in the order they came."""
        return [_delivered(entry) for entry in self._entries(path)]

    def pings(self, path: str = "/ping") -> list[Ping]:
        """Every ping so far, in the order they came."""
        found = self._entries(path, f"{path}/start", f"{path}/fail")
        return [Ping(entry["path"], entry["at"], entry["body"]) for entry in found]

    def _entries(self, *paths: str) -> list[dict[str, Any]]:
        if not self._log.exists():
            return []
        found: dict[int, dict[str, Any]] = {}
        for line in self._log.read_text().rpartition("\n")[0].splitlines():
            entry = json.loads(line)
            found.setdefault(entry.pop("number"), {}).update(entry)
        return [entry for entry in found.values() if entry.get("path") in paths]


def deliveries(requests: Iterable[Request], jobs: Mapping[str, UUID]) -> list[Line]:
    """Return the requests as deliveries: they began on arrival and ended with a successful answer."""
    lines = []
    for request in requests:
        job_id = jobs[request.job]
        facts = (request.run_id, job_id, request.scheduled_at, request.attempt, 0, request.member)
        lines.append(Line("begun", *facts, request.at))
        if request.answered_at is not None and request.status == 200:
            lines.append(Line("ended", *facts, request.answered_at))
    return lines


def _request(entry: Mapping[str, Any]) -> Request:
    body = entry["body"].encode()
    facts, headers = json.loads(body), entry["headers"]
    return Request(
        run_id=UUID(headers["webhook-id"]),
        attempt=int(headers["hourbell-attempt"]),
        job=facts["job"],
        scheduled_at=datetime.fromisoformat(headers["hourbell-scheduled-at"]),
        member=headers["user-agent"].partition("(")[2].rstrip(")"),
        at=entry["at"],
        clock=datetime.fromisoformat(entry["clock"]),
        headers=headers,
        body=body,
        status=entry.get("status"),
        answered_at=entry.get("answered_at"),
        dropped_at=entry.get("dropped_at"),
    )


def _delivered(entry: Mapping[str, Any]) -> Delivered:
    body, headers = entry["body"].encode(), entry["headers"]
    facts = json.loads(body)
    member = headers["user-agent"].partition("(")[2].rstrip(")")
    is_answered = "answered_at" in entry
    return Delivered(headers["webhook-id"], facts["type"], entry["at"], member, facts, body, is_answered)


_LOGGED_HEADERS = (
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
    "idempotency-key",
    "hourbell-attempt",
    "hourbell-scheduled-at",
    "user-agent",
)


class _Log:
    """Lines on disk. Those that come while it is busy go together."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    def add(self, **facts: object) -> asyncio.Future[None]:
        """Write a line, whether or not anybody waits until it is on disk."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((json.dumps(facts).encode() + b"\n", written))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        return written

    async def _write(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            await asyncio.to_thread(self._sync, b"".join(line for line, _ in waiting))
            for _, written in waiting:
                if not written.done():
                    written.set_result(None)

    def _sync(self, lines: bytes) -> None:
        os.write(self._file, lines)
        os.fdatasync(self._file)


class _Receiver:
    def __init__(self, log: _Log) -> None:
        self._log = log
        self._numbers = count()
        self._seen: Counter[str] = Counter()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        at, came_at, number = clock.elapsed(), clock.now(), next(self._numbers)
        body = (await request.read()).decode()
        headers = {name: request.headers[name] for name in _LOGGED_HEADERS if name in request.headers}
        run = headers.get("webhook-id", f"request {number}")
        self._seen[run] += 1
        times = self._seen[run]
        facts = {"path": request.path, "clock": came_at.isoformat(), "headers": headers, "body": body}
        received = self._log.add(number=number, at=at, **facts)
        try:
            await received
            if times <= int(request.query.get("held", 0)):
                await _pause(float(request.query["after"]))
            status = 500 if times <= int(request.query.get("fails", 0)) else 200
            await self._log.add(number=number, status=status, answered_at=clock.elapsed())
        except asyncio.CancelledError:
            self._log.add(number=number, dropped_at=clock.elapsed())
            raise
        return web.Response(status=status)


async def _pause(seconds: float) -> None:
    await (asyncio.Event().wait() if seconds == inf else asyncio.sleep(seconds))


async def _serve(listening: socket.socket, log: str) -> None:
    """Receive until the parent process has ended."""
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), gone.set)
    server = web.Server(_Receiver(_Log(log)).answer, handler_cancellation=True)
    await loop.create_server(server, sock=listening, backlog=_BACKLOG)
    await gone.wait()


if __name__ == "__main__":
    uvloop.run(_serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2]))
