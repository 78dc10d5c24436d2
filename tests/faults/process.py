"""A real `hourbell serve` process: its log, its address, its end."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

_INHERITED_VARIABLES = (
    "PATH",
    "HOME",
    "LANG",
    "TMPDIR",
    "PYTHONPATH",
)  # of the environment; no setting of the developer's
_START = 30.0  # seconds until it serves, on a busy machine


class Server:
    """A server process in its folder. Leaving the context kills it, whatever the test did."""

    def __init__(
        self, folder: Path, *arguments: str, name: str = "server", wrapper: Sequence[str] = (), **environment: str
    ) -> None:
        self._folder = folder
        self._log = folder / f"{name}.log"
        command = [*wrapper, sys.executable, "-m", "hourbell", "serve", *arguments]
        kept = {variable: os.environ[variable] for variable in _INHERITED_VARIABLES if variable in os.environ}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={"HTTP_ADDR": "127.0.0.1:0", **kept, **environment},
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
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8", errors="replace")

    @property
    def events(self) -> list[dict[str, Any]]:
        """The log so far; a line that is not JSON, or not yet whole, is left out."""
        return [json.loads(line) for line in self.log.splitlines() if line.startswith("{") and line.endswith("}")]

    @property
    def names(self) -> list[str]:
        return [event["event"] for event in self.events]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_status(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def wait_for(self, event: str, seconds: float = _START) -> dict[str, Any]:
        """The first line of this name, once it is written."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            is_running = self.is_running  # asked first: what it wrote last is then in the log
            for found in self.events:
                if found["event"] == event:
                    return found
            if not is_running:
                break
            time.sleep(0.02)
        raise AssertionError(f"no {event} in {self._log.name}:\n{self.log[-8_000:]}")

    def wait_until_serving(self) -> Self:
        self.wait_for("serving")
        return self

    @property
    def node(self) -> str:
        return str(self.wait_for("engine_started")["node"])

    @property
    def url(self) -> str:
        return str(self.wait_for("serving")["http"])

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=10, trust_env=False)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self, seconds: float) -> int:
        """Its exit code."""
        return self._process.wait(seconds)
