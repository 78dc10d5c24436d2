"""A real Redis for the tests (Debian's `redis-server`), which can be killed and started again on its port."""

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.examples.processes import free_port

PASSWORD = "xyzzy-plugh"
_PATIENCE_SECONDS = 20.0


class RedisServer:
    def __init__(self, folder: Path, *more: str) -> None:
        self.port = free_port()
        self.url = f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"
        self._folder = folder
        self._more = more
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, with what it had stored; return once it answers."""
        program = shutil.which("redis-server")
        assert program, "redis-server is missing; install it with `make redis`"
        settings = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "requirepass": PASSWORD,
            "dir": str(self._folder),
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
        }
        options = [text for name, value in settings.items() for text in (f"--{name}", value)]
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen([program, *options, *self._more], stdout=log, stderr=log)
        end = time.monotonic() + _PATIENCE_SECONDS
        while not self.answers():
            assert time.monotonic() < end, (self._folder / "redis.log").read_text()
            assert self._process.poll() is None, (self._folder / "redis.log").read_text()
            time.sleep(0.05)

    def answers(self) -> bool:
        return self.cli("ping").strip() == "PONG"

    def cli(self, *arguments: str) -> str:
        """The answer to a command, from Redis's own client."""
        command = ["redis-cli", "-p", str(self.port), "--no-auth-warning", "-a", PASSWORD, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def kill(self) -> None:
        """End it as a crash does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def redis_server(folder: Path, *more: str) -> Iterator[RedisServer]:
    server = RedisServer(folder, *more)
    server.start()
    try:
        yield server
    finally:
        server.thaw()
        server.kill()
