"""While each attack of a cheap client runs, an every-second job of another owner begins as early as in quiet times."""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from hourbell.core.access.token_text import token_text
from tests.faults.process import Server

pytestmark = pytest.mark.full

SECONDS = 5.0  # of quiet, and of each attack
ADDED_SECONDS = 1.0  # that an attack may add to the largest lateness
ATTACKERS = 4
KEPT = 1_000  # connections that one attacker holds
TICKING = """
import time
from hourbell import Scheduler

scheduler = Scheduler(source="ticks")

@scheduler.job("* * * * * *")
async def tick(run):
    with open("ticks", "a") as ticks:
        ticks.write(f"{time.time() - run.scheduled_at.timestamp():.4f}\\n")
"""
HOST = "Host: localhost\r\n"
NDJSON = {"Content-Type": "application/x-ndjson"}


class Target:
    """The attacked server, and the attacker's tokens."""

    def __init__(self, server: Server, tokens: dict[str, str]) -> None:
        host, _, port = server.url.removeprefix("http://").partition(":")
        self.address = (host, int(port))
        self.tokens = tokens

    def raw(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=5)

    def bearer(self, role: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[role]}"}

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> int:
        connection = http.client.HTTPConnection(*self.address, timeout=5)
        with closing(connection):
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            return connection.getresponse().status


Attack = Callable[[Target, threading.Event], None]


@contextmanager
def keeping() -> Iterator[Callable[[socket.socket], socket.socket]]:
    """Keep sockets open, the last `KEPT` of them, so that the attacker has descriptors left itself."""
    kept: deque[socket.socket] = deque()

    def keep(raw: socket.socket) -> socket.socket:
        kept.append(raw)
        if len(kept) > KEPT:
            kept.popleft().close()
        return raw

    try:
        yield keep
    finally:
        for raw in kept:
            raw.close()


def half_open(target: Target, stop: threading.Event) -> None:
    with keeping() as keep:
        while not stop.is_set():
            with suppress(OSError):
                keep(target.raw())


def trickling_headers(target: Target, stop: threading.Event) -> None:
    with ExitStack() as stack:
        raws = [stack.enter_context(closing(target.raw())) for _ in range(40)]
        while not stop.is_set():
            for raw in raws:
                with suppress(OSError):
                    raw.sendall(b"X")
            time.sleep(0.01)


def trickling_bodies(target: Target, stop: threading.Event) -> None:
    with ExitStack() as stack:
        raws = [stack.enter_context(closing(target.raw())) for _ in range(40)]
        for raw in raws:
            raw.sendall(f"POST /api/v1/jobs HTTP/1.1\r\n{HOST}Content-Length: 1000000\r\n\r\n".encode())
        while not stop.is_set():
            for raw in raws:
                with suppress(OSError):
                    raw.sendall(b" ")
            time.sleep(0.01)


def tiny_chunks(target: Target, stop: threading.Event) -> None:
    head = f"POST /api/v1/jobs HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n".encode()
    while not stop.is_set():
        with suppress(OSError), closing(target.raw()) as raw:
            raw.sendall(head + b"1\r\n \r\n" * 100_000)


def delete_session(target: Target, stop: threading.Event) -> None:
    query = "&".join(f"take_ove{number}=" for number in range(1_500))
    flood(target, stop, lambda: target.ask("DELETE", f"/api/v1/jobs/session?{query}"))


def wrong_tokens(target: Target, stop: threading.Event) -> None:
    def guess() -> None:
        target.ask("GET", "/api/v1/jobs", Authorization=f"Bearer {token_text(os.urandom(32))}")

    flood(target, stop, guess)


def readiness(target: Target, stop: threading.Event) -> None:
    flood(target, stop, lambda: target.ask("GET", "/health/ready"))


def ambiguous_requests(target: Target, stop: threading.Event) -> None:
    shape = f"POST /api/v1/jobs HTTP/1.1\r\n{HOST}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"

    def send() -> None:
        with closing(target.raw()) as raw:
            raw.sendall(shape.encode())
            raw.recv(1_000)

    flood(target, stop, send)


def event_streams(target: Target, stop: threading.Event) -> None:
    head = f"GET /api/v1/events HTTP/1.1\r\n{HOST}Authorization: {target.bearer('viewer')['Authorization']}\r\n\r\n"
    with keeping() as keep:
        while not stop.is_set():
            with suppress(OSError):
                raw = keep(target.raw())
                raw.sendall(head.encode())
                raw.recv(1_000)


def triggers(target: Target, stop: threading.Event) -> None:
    flood(target, stop, lambda: target.ask("POST", "/api/v1/jobs/hung/trigger", **target.bearer("operator")))


def import_of_nothing(target: Target, stop: threading.Event) -> None:
    flood(
        target,
        stop,
        lambda: target.ask("POST", "/api/v1/jobs/import", b"\n" * 3_000_000, **NDJSON, **target.bearer("editor")),
    )


def import_of_jobs(target: Target, stop: threading.Event) -> None:
    job = {"schedule": "@yearly", "target": {"type": "http", "url": "http://127.0.0.1:9/"}}
    body = b"".join(json.dumps({"name": f"job-{number}", **job}).encode() + b"\n" for number in range(20_000))
    flood(
        target,
        stop,
        lambda: target.ask("POST", "/api/v1/jobs/import", body, **NDJSON, **target.bearer("editor")),
    )


def unknown_fields(target: Target, stop: threading.Event) -> None:
    body = json.dumps({f"schedul{number}": 1 for number in range(40_000)}).encode()
    headers = {"Content-Type": "application/json", **target.bearer("editor")}
    flood(target, stop, lambda: target.ask("POST", "/api/v1/jobs", body, **headers))


def flood(_target: Target, stop: threading.Event, ask: Callable[[], object]) -> None:
    while not stop.is_set():
        with suppress(OSError, http.client.HTTPException):
            ask()


ATTACKS: list[Attack] = [
    half_open,
    trickling_headers,
    trickling_bodies,
    tiny_chunks,
    delete_session,
    wrong_tokens,
    readiness,
    ambiguous_requests,
    event_streams,
    triggers,
    import_of_nothing,
    import_of_jobs,
    unknown_fields,
]


def test_no_attack_delays_the_job_of_another_owner(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(TICKING)
    tokens = {role: make_token(tmp_path, role) for role in ("viewer", "operator", "editor")}
    with Server(tmp_path, "--app", "app:scheduler", HOURBELL_ALLOW_NETWORKS="127.0.0.0/8") as server:
        target = Target(server.wait_until_serving(), tokens)
        job = {"name": "hung", "schedule": "@yearly", "target": {"type": "http", "url": "http://127.0.0.1:9/"}}
        made = target.ask("POST", "/api/v1/jobs", json.dumps(job).encode(), **as_json(target.bearer("editor")))
        assert made == 201
        time.sleep(2)  # the first ticks bring their own start-up
        quiet = lateness_during(tmp_path, lambda: time.sleep(SECONDS))
        measured = {}
        for attack in ATTACKS:
            with attacking(target, attack):
                time.sleep(0.5)
                measured[attack.__name__] = lateness_during(tmp_path, lambda: time.sleep(SECONDS))
            assert server.is_running

    print(f"quiet: {max(quiet):.3f} s, {len(quiet)} ticks")
    for name, seconds in measured.items():
        print(f"{name}: {max(seconds, default=-1):.3f} s, {len(seconds)} ticks")
    assert [name for name, seconds in measured.items() if len(seconds) < SECONDS - 2] == []
    assert {name: max(late) for name, late in measured.items() if max(late) > max(quiet) + ADDED_SECONDS} == {}


def make_token(folder: Path, role: str) -> str:
    command = [sys.executable, "-m", "hourbell", "token", "create", role, "--role", role, "--json"]
    made = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return str(json.loads(made.stdout)["token"])


def as_json(headers: dict[str, str]) -> dict[str, str]:
    return {"Content-Type": "application/json", **headers}


def lateness_during(folder: Path, wait: Callable[[], None]) -> list[float]:
    """The seconds by which each tick of that time was late."""
    before = len(ticks_of(folder))
    wait()
    return ticks_of(folder)[before:]


def ticks_of(folder: Path) -> list[float]:
    path = folder / "ticks"
    return [float(line) for line in path.read_text().splitlines()] if path.exists() else []


@contextmanager
def attacking(target: Target, attack: Attack) -> Iterator[None]:
    stop = threading.Event()
    threads = [threading.Thread(target=attack, args=(target, stop)) for _ in range(ATTACKERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
