"""The scripts of the examples as real processes, and a connection to a receiver that can lose answers."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

EXAMPLES = Path(__file__).parents[2] / "examples"
_INHERITED_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH")
_START = 30.0  # seconds until it listens, on a busy machine


def run(folder: Path, *command: str | Path, **environment: str) -> str:
    """Run a command that must succeed; return its output."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=_environment(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Receiver:
    """A receiver script in its folder, from its start until it is left."""

    def __init__(self, folder: Path, script: Path, port: int, **environment: str) -> None:
        self.port = port
        self._log = folder / "receiver.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, script, "--port", str(port)],
                cwd=folder,
                env=_environment(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Self:
        try:
            until(self._is_listening, _START, lambda: self.log)
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(f"--- {self._log.name}\n{self.log[-4_000:]}")
        self._process.terminate()
        self._process.wait()

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8")

    def _is_listening(self) -> bool:
        assert self._process.poll() is None, self.log
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False


class Line:
    """A connection to a receiver. While it is mute, requests arrive and answers are lost."""

    def __init__(self, port: int) -> None:
        self._far_port = port
        self.is_mute = False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._far_port)
        await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer, answers=True))

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool = False) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                if not (answers and self.is_mute):
                    sink.write(data)
                    await sink.drain()
        sink.close()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def until(is_so: Callable[[], bool], seconds: float = 30, explain: Callable[[], object] = lambda: "") -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, explain()
        time.sleep(0.02)


def _environment(more: dict[str, str]) -> dict[str, str]:
    return {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ} | more
