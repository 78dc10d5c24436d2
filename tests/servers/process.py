"""A web server as a real process with workers: its address, its log, its workers' ids, its end."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

_INHERITED_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR")  # of the environment; no setting of the developer's
_PATIENCE = 40.0  # seconds, on a busy machine


class WebServer:
    """A server in its folder. Leaving the context kills it and its workers, whatever the test did."""

    def __init__(self, folder: Path, command: Callable[[int], list[str]], **environment: str) -> None:
        self.port = free_port()
        self._log = folder / "web.log"
        kept = {variable: os.environ[variable] for variable in _INHERITED_VARIABLES if variable in os.environ}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *command(self.port)],
                cwd=folder,
                env={**kept, "PYTHONPATH": str(folder), **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(f"--- {self._log.name}\n{self.log[-8_000:]}")
        left = self.workers()
        self._process.kill()
        self._process.wait()
        for pid in left:
            kill(pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8", errors="replace")

    def workers(self) -> list[int]:
        """The ids of its children that serve; Python's resource tracker is none."""
        with suppress(FileNotFoundError):
            children = map(int, Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split())
            return [pid for pid in children if "resource_tracker" not in _command_of(pid)]
        return []

    def get(self, path: str) -> str:
        """The answer to a request on a connection of its own; asked again while a worker that had it is killed."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                answer = httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=20, trust_env=False)
            except httpx.TransportError:
                assert self._process.poll() is None, self.log
                assert time.monotonic() < end, self.log
                time.sleep(0.05)
            else:
                assert answer.status_code == 200, f"{answer.text}\n{self.log}"
                return str(answer.json())

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def stop(self) -> int:
        """Ask it to end, and its exit code."""
        self.signal(signal.SIGTERM)
        return self._process.wait(_PATIENCE)


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def _command_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""
