"""Cheap hostile requests do no harm: raw sockets against a real `hourbell serve`, and the responses."""

import re
import resource
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import httpx
import pytest

from tests.faults.process import Server

LONG = 30.0  # seconds for what takes one or two, on a busy machine
HOST = b"Host: localhost\r\n"
TICKING = """
from hourbell import Scheduler

scheduler = Scheduler(source="ticks")

@scheduler.job("* * * * * *")
async def tick(run):
    with open("ticks", "a") as ticks:
        ticks.write("x")
"""


class Raw:
    """A raw connection that sends given bytes and records the response."""

    def __init__(self, server: Server) -> None:
        host, _, port = server.url.removeprefix("http://").partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=LONG)

    def send(self, data: bytes) -> "Raw":
        self.socket.sendall(data)
        return self

    def trickle(self, data: bytes, seconds: float) -> bytes:
        """Send a byte at intervals until the other side responds; return the response."""
        for byte in data:
            if select.select([self.socket], [], [], seconds)[0]:
                break
            self.send(bytes([byte]))
        return self.answer()

    def answer(self) -> bytes:
        """Read until the other side closes the connection."""
        found = b""
        try:
            while part := self.socket.recv(65_536):
                found += part
        except ConnectionResetError:
            pass
        return found

    def close(self) -> None:
        self.socket.close()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """A server with short timeouts and few connections per address."""
    settings = {
        "HOURBELL_HTTP_HEADER_TIMEOUT": "1s",
        "HOURBELL_HTTP_BODY_TIMEOUT": "1s",
        "HOURBELL_HTTP_CONNECTIONS_PER_ADDRESS": "40",
    }
    with Server(folder, **settings) as made:
        yield made.wait_until_serving()


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[[], Raw]]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(Raw(server)))


def test_a_connection_that_sends_nothing_is_closed(connect: Callable[[], Raw]) -> None:
    assert status_of(connect().answer()) == 408


def test_headers_that_trickle_are_answered_408(connect: Callable[[], Raw]) -> None:
    assert status_of(connect().trickle(b"GET /health HTTP/1.1\r\n" + b"X-More: y\r\n" * 1_000, 0.05)) == 408


def test_the_second_request_of_a_connection_has_a_timeout_too(connect: Callable[[], Raw]) -> None:
    answers = connect().send(b"GET /health HTTP/1.1\r\n" + HOST + b"\r\nGET /health HTT").trickle(b"P" * 1_000, 0.05)

    assert answers.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408" in answers


def test_a_body_that_trickles_is_answered_408(connect: Callable[[], Raw]) -> None:
    head = b"POST /api/v1/jobs HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n"

    assert status_of(connect().send(head + HOST + b"\r\n").trickle(b" " * 1_000, 0.05)) == 408


def test_a_chunked_body_that_trickles_is_answered_408(connect: Callable[[], Raw]) -> None:
    head = b"POST /api/v1/jobs HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"

    assert status_of(connect().send(head + HOST + b"\r\n").trickle(b"1\r\n \r\n" * 1_000, 0.05)) == 408


def test_a_body_that_continues_after_its_answer_is_cut_off(connect: Callable[[], Raw]) -> None:
    head = b"GET /health HTTP/1.1\r\nContent-Length: 100000\r\n"
    began = time.monotonic()

    assert status_of(connect().send(head + HOST + b"\r\n").trickle(b" " * 1_000, 0.05)) == 200
    assert time.monotonic() - began < LONG


POST = b"POST /api/v1/preview HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
AMBIGUOUS = {
    "content-length with transfer-encoding": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "transfer-encoding with content-length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two equal lengths": POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "a list of equal lengths": POST + b"Content-Length: 2, 2\r\n\r\n{}",
    "two different lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a signed length": POST + b"Content-Length: +2\r\n\r\n{}",
    "a folded header": b"GET /health HTTP/1.1\r\nX-One: a\r\n b\r\n" + HOST + b"\r\n",
    "a folded length": POST + b"Content-Length:\r\n 2\r\n\r\n{}",
    "a fold before the first header": b"GET /health HTTP/1.1\r\n X-One: a\r\n" + HOST + b"\r\n",
    "bare line feeds": b"GET /health HTTP/1.1\nHost: localhost\n\n",
    "one bare line feed": b"GET /health HTTP/1.1\r\nX-One: a\nHost: localhost\r\n\r\n",
    "a bare carriage return": b"GET /health HTTP/1.1\r\nX-One: a\rb\r\n" + HOST + b"\r\n",
    "a space before the colon": POST + b"Content-Length : 2\r\n\r\n{}",
    "another coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "an obfuscated coding": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunked by HTTP/1.0": POST.replace(b"1.1", b"1.0", 1) + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two hosts": b"GET /health HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "another version": b"GET /health HTTP/2.0\r\n" + HOST + b"\r\n",
    "a blank line before the request": b"\r\nGET /health HTTP/1.1\r\n" + HOST + b"\r\n",
    "a signed chunk": CHUNKED + b"+2\r\n{}\r\n0\r\n\r\n",
    "a chunk that is longer than it says": CHUNKED + b"1\r\n{}\r\n0\r\n\r\n",
    "an end of chunks by a bare line feed": CHUNKED + b"2\r\n{}\r\n0\r\n\n",
    "trailers": CHUNKED + b"2\r\n{}\r\n0\r\nContent-Length: 7\r\n\r\n",
    "trailers with bare line feeds": CHUNKED + b"2\r\n{}\r\n0\r\nX-One: a\n\n",
    "too many headers": b"GET /health HTTP/1.1\r\n" + HOST + b"X-More: y\r\n" * 10_000 + b"\r\n",
}


@pytest.mark.parametrize("shape", AMBIGUOUS)
def test_ambiguous_requests_are_refused(connect: Callable[[], Raw], shape: str) -> None:
    answer = connect().send(AMBIGUOUS[shape]).answer()

    assert status_of(answer) == 400
    assert len(re.findall(rb"HTTP/1.1 \d{3} ", answer)) == 1  # nothing behind it is taken for a request


def test_an_ordinary_chunked_body_is_read(connect: Callable[[], Raw]) -> None:
    body = b'{"schedule": "@daily"}'
    sent = CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:5], body[5:])) + b"0\r\n\r\n"
    last = b"GET /health HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n"

    assert connect().send(sent + last).answer().count(b"HTTP/1.1 200") == 2


def test_a_body_of_tiny_chunks_is_refused(connect: Callable[[], Raw]) -> None:
    raw = connect()
    with suppress(BrokenPipeError, ConnectionResetError):  # it may be refused before it has come whole
        raw.send(CHUNKED + b"1\r\n \r\n" * 100_000)

    assert status_of(raw.answer()) in (400, 0)  # a reset may overtake the answer


def test_an_upgrade_request_does_not_change_the_protocol(connect: Callable[[], Raw]) -> None:
    upgrade = (
        b"Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"
    )

    assert status_of(connect().send(b"GET /health HTTP/1.1\r\n" + HOST + upgrade + b"\r\n").answer()) == 200


def test_connections_over_the_limit_of_an_address_are_answered_503(server: Server) -> None:
    with ExitStack() as stack:
        raws = [stack.enter_context(closing(Raw(server))) for _ in range(60)]
        refused = [raw for raw in raws if select.select([raw.socket], [], [], 0.1)[0]][-20:]
        statuses = [status_of(raw.answer()) for raw in refused]

    assert statuses == [503] * 20
    assert server.wait_for("connections_refused")["setting"] == "HOURBELL_HTTP_CONNECTIONS_PER_ADDRESS"
    answered = False
    end = time.monotonic() + LONG
    while not answered and time.monotonic() < end:
        try:
            answered = server.get("/health").status_code == 200
        except httpx.HTTPError:
            time.sleep(0.05)
    assert answered


def test_hostile_requests_write_no_traceback(server: Server) -> None:
    assert "Traceback" not in server.log
    assert {event["event"] for event in server.events if event["level"] != "info"} == {
        "connections_refused",
        "request_refused",
    }
    assert server.names.count("request_refused") < 5  # of some dozen


def test_1100_half_open_connections_under_ulimit_1024_block_no_delivery(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(TICKING)
    with (
        Server(tmp_path, "--app", "app:scheduler", wrapper=limited_by("ulimit -n 1024")) as server,
        ExitStack() as stack,
    ):
        server.wait_until_serving()
        _raise_own_limit()
        wait_for_ticks(tmp_path, 1)
        for _ in range(1_100):
            stack.enter_context(closing(Raw(server)))
        ticks = wait_for_ticks(tmp_path, count_ticks(tmp_path) + 3)

        assert ticks
        assert len(list(Path(f"/proc/{server.pid}/fd").iterdir())) < 700
        assert server.wait_for("descriptor_limit_low")["limit"] == 1_024


def test_the_descriptor_limit_is_raised_at_start(tmp_path: Path) -> None:
    with Server(tmp_path, wrapper=limited_by("ulimit -Sn 512; ulimit -Hn 4096")) as server:
        server.wait_until_serving()
        limits = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)

    assert limits == (4_096, 4_096)


def limited_by(command: str) -> list[str]:
    """A shell that runs this command, and becomes the server."""
    return ["sh", "-c", f'{command}; exec "$0" "$@"']


def _raise_own_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def count_ticks(folder: Path) -> int:
    return len((folder / "ticks").read_text()) if (folder / "ticks").exists() else 0


def wait_for_ticks(folder: Path, least: int) -> bool:
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        if count_ticks(folder) >= least:
            return True
        time.sleep(0.1)
    return False
