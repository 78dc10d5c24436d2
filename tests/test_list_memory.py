"""Clients that request large lists and do not read the answers cost the service almost no memory."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.faults.process import Server

LARGE = {"text": "x" * 1_000_000}
LISTS = ("/runs?limit=500", "/jobs?limit=500", "/jobs/large/versions?limit=500", "/audit?limit=500")
READERS = 6
RUNS = 150


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path, HOURBELL_API_RATE="0") as made:
        yield made.wait_until_serving()


def test_150_runs_with_a_payload_of_a_megabyte_and_six_readers_that_do_not_read(server: Server) -> None:
    api = f"{server.url}/api/v1"
    with httpx.Client(timeout=60, trust_env=False) as client:
        fill(client, api)
        for path in LISTS:
            assert client.get(api + path).status_code == 200
    before = peak_bytes(server.pid)

    with ExitStack() as stack:
        asked = [stack.enter_context(ask(server.url, f"/api/v1{path}")) for path in LISTS for _ in range(READERS)]
        for connection in asked:
            connection.recv(1, socket.MSG_PEEK)  # its answer has been made
        peak = peak_bytes(server.pid)
    assert peak / before < 1.25, f"{before / 2**20:.0f} MiB, and {peak / 2**20:.0f} MiB with readers"


def fill(client: httpx.Client, api: str) -> None:
    """150 runs that wait, half of them with a payload of their own, and a job whose payload changed 20 times."""
    target = {"type": "task", "name": "nobody-serves-it"}
    job = {"name": "large", "schedule": "@yearly", "target": target, "payload": LARGE}
    assert client.post(f"{api}/jobs", json=job).status_code == 201
    for number in range(20):
        assert client.patch(f"{api}/jobs/large", json={"payload": {**LARGE, "number": number}}).status_code == 200
    own = json.dumps({"payload": LARGE}).encode()
    for number in range(RUNS):
        content = own if number % 2 else b"{}"
        answer = client.post(f"{api}/jobs/large/trigger", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 201


def ask(url: str, path: str) -> socket.socket:
    """A connection that asked for something and reads nothing."""
    host, port = urlsplit(url).hostname, urlsplit(url).port
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.settimeout(60)
    connection.connect((host, port))
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {url.removeprefix('http://')}\r\n\r\n".encode())
    return connection


def peak_bytes(pid: int) -> int:
    """The most memory that the process ever had at once."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [peak] = [line for line in lines if line.startswith("VmHWM:")]
    return int(peak.split()[1]) * 1024
