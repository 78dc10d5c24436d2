"""The command line beside a real node and a receiver, piped and on a terminal."""

import json
import os
import pty
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from hourbell.cli.main import hourbell
from tests.examples.processes import free_port, until
from tests.faults.process import Server

PATIENCE = 60.0  # seconds for a command, on a busy machine


@dataclass(frozen=True)
class Live:
    url: str
    receiver: str  # answers GET with 200 and POST with 501

    def run(self, *arguments: str, given: str | None = None, **environment: str) -> Result:
        """A command as a script calls it."""
        settings = {"HOURBELL_URL": self.url, "HOURBELL_TOKEN": None, **environment}
        return CliRunner().invoke(hourbell, arguments, input=given, env=settings)

    def ok(self, *arguments: str, given: str | None = None) -> str:
        """Run a command that must succeed; return its output."""
        done = self.run(*arguments, given=given)
        assert done.exit_code == 0, (arguments, done.output, done.exception)
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "--json"))

    def create(self, name: str, *more: str, method: str = "GET") -> str:
        """A job that succeeds, or with POST fails at once; its id."""
        target = ["--url", self.receiver, "--method", method, "--retry", "none"]
        return self.ok("job", "create", name, "--schedule", "@yearly", *target, *more, "-q").strip()

    def failed_run(self, job: str) -> str:
        """The id of a run of a job that fails, after it did."""
        run = self.ok("job", "trigger", job, "-q").strip()
        assert self.run("run", "watch", run).exit_code == 7
        return run

    def terminal(self, *arguments: str, typed: str = "", **environment: str) -> tuple[int, str]:
        """Run a command on a terminal; return its exit code and output."""
        kept = {"PATH": os.environ["PATH"], "HOURBELL_URL": self.url}
        return on_terminal([sys.executable, "-m", "hourbell", *arguments], typed, {**kept, **environment})


def on_terminal(command: list[str], typed: str, environment: dict[str, str]) -> tuple[int, str]:
    """Run a process on a terminal; return its exit code and output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={"TERM": "xterm", "COLUMNS": "160", "LINES": "50", **environment},
        close_fds=True,
    )
    os.close(theirs)
    try:
        os.write(ours, typed.encode())
        return _read(ours, process)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read(terminal: int, process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Read everything until the process ends."""
    seen, end = b"", time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                seen += os.read(terminal, 65_536)
            except OSError:  # Linux raises this when the other end is closed
                break
    return process.wait(PATIENCE), seen.decode()


@contextmanager
def live(folder: Path, **settings: str) -> Iterator[Live]:
    with receiver(folder) as there, Server(folder, **settings) as server:
        yield Live(server.wait_until_serving().url, there)


@contextmanager
def receiver(folder: Path) -> Iterator[str]:
    port, empty = free_port(), folder / "receiver"
    empty.mkdir()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=empty, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        until(lambda: _answers(port))
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
