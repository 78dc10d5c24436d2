"""`hourbell watch`: it tells a receiver that no node is ready, once, and that one is again."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import pytest

PATIENCE = 30


@dataclass
class Outside:
    """A node that answers as notified, and a receiver of messages that may refuse them, on one port."""

    status: int = 200
    reasons: tuple[str, ...] = ()
    is_refusing: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list)
    refused: int = 0
    changed: Condition = field(default_factory=Condition)
    port: int = 0

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.messages) >= count, PATIENCE), self.messages

    def wait_for_refusals(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.refused >= count, PATIENCE)

    @property
    def events(self) -> list[str]:
        return [message["type"] for message in self.messages]


@pytest.fixture
def outside() -> Iterator[Outside]:
    found = Outside()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/health/ready"
            self._answer(found.status, json.dumps({"reasons": found.reasons}).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with found.changed:
                if found.is_refusing:
                    found.refused += 1
                else:
                    found.messages.append(body)
                found.changed.notify_all()
            self._answer(503 if found.is_refusing else 204)

        def _answer(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.port = server.server_address[1]
        Thread(target=server.serve_forever, daemon=True).start()
        yield found
        server.shutdown()


def arguments(outside: Outside, *more: str) -> list[str]:
    node, receiver = f"http://127.0.0.1:{outside.port}", f"http://127.0.0.1:{outside.port}/alerts"
    return [sys.executable, "-m", "hourbell", "watch", "--url", node, "--notify", receiver, *more]


def once(outside: Outside, *more: str) -> int:
    return subprocess.run(arguments(outside, "--once", *more), timeout=PATIENCE, check=False).returncode


@contextmanager
def watching(outside: Outside, *more: str) -> Iterator[None]:
    process = subprocess.Popen(arguments(outside, "--interval", "1s", "--after", "1s", *more))
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0


def test_a_silence_is_notified_once_with_its_reason_and_so_is_its_end(outside: Outside) -> None:
    outside.status, outside.reasons = 503, ("the planner last succeeded 99 s ago",)
    with watching(outside):
        outside.wait_for(1)
        outside.status = 200
        outside.wait_for(2)

    assert outside.events == ["incident.opened", "incident.resolved"]
    opened, resolved = (message["incident"] for message in outside.messages)
    assert opened["error"].endswith("HTTP 503 (the planner last succeeded 99 s ago)")
    assert opened["id"] == resolved["id"]


def test_a_message_that_is_refused_is_sent_again_with_the_same_id(outside: Outside) -> None:
    outside.status, outside.is_refusing = 500, True
    with watching(outside):
        outside.wait_for_refusals(2)
        outside.is_refusing = False
        outside.wait_for(1)

    assert outside.events == ["incident.opened"]


def test_one_ready_node_is_enough(outside: Outside) -> None:
    assert once(outside, "--url", "http://127.0.0.1:9") == 0
    assert outside.messages == []


def test_from_cron_a_state_file_remembers_notifications(outside: Outside, tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "watch.json"), "--after", "1s")
    outside.status = 503
    first = once(outside, *state)
    for _ in range(20):  # until the silence has lasted a second, and once more
        is_notified = bool(outside.messages)
        assert once(outside, *state) == 1
        if is_notified:
            break
    outside.status = 200

    assert (first, once(outside, *state), once(outside, *state)) == (1, 0, 0)
    assert outside.events == ["incident.opened", "incident.resolved"]


def test_from_cron_without_state_each_look_notifies(outside: Outside) -> None:
    outside.status = 503

    assert (once(outside), once(outside)) == (1, 1)
    assert outside.events == ["incident.opened"] * 2


def test_a_state_that_cannot_be_written_keeps_nobody_from_being_notified(outside: Outside, tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "gone" / "watch.json"))
    codes, said = [], ""
    for outside.status in (503, 503, 200):
        done = subprocess.run(
            arguments(outside, "--once", *state), capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        codes.append(done.returncode)
        said = done.stderr

    assert outside.events == ["incident.opened"] * 2
    assert codes == [1, 1, 2]
    assert "cannot be written: No such file or directory" in " ".join(said.split())
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--notify", "nobody"), "is not a mail address"),
        (("--notify", '{"type": "pigeon"}'), "no such type of channel; write one of alertmanager"),
        (("--notify", '{"type": "slack", "url": "env:HOURBELL_NO_SUCH"}'), "env:HOURBELL_NO_SUCH is not set"),
        (("--notify", "{"), "--notify: "),
        (("--url", "ftp://one"), "--url 'ftp://one'"),
        (("--after", "soon"), "write one such as 30s, 2m or 4h"),
        (("--state", "README.md"), "is not a state of `hourbell watch`"),
    ],
)
def test_wrong_options_are_refused_with_what_to_write(outside: Outside, more: tuple[str, ...], said: str) -> None:
    done = subprocess.run(
        arguments(outside, "--once", *more), capture_output=True, text=True, timeout=PATIENCE, check=False
    )

    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
