"""A receiver of webhooks that costs as little as Python can: it counts requests, and answers each with two bytes.

Started with a JSON object of settings, it tells the ports it listens on. It keeps id, attempt, time and peer of the
newest requests, and answers each line it reads: an empty one with the numbers of requests and of connections so far,
`repeats` with the requests that came more than once, `forget` by forgetting what it kept, and `write` with a path by
writing what it kept to that file.
"""

import asyncio
import json
import os
import ssl
import sys
import time
from collections import Counter, deque
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import uvloop

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
_END = b"\r\n\r\n"
_LENGTH = b"Content-Length: "
_BACKLOG = 4_096
_MAX_REQUESTS = 200_000  # requests
_ID, _ATTEMPT = b"webhook-id: ", b"hourbell-attempt: "
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000


KeptRequest = tuple[bytes, bytes, float, Any]  # id, attempt, seconds since the epoch, peer


class Hook(asyncio.Protocol):
    """A keep-alive connection; requests may arrive in pieces, and several at once."""

    answered = 0
    connections = 0
    kept: ClassVar[deque[KeptRequest]] = deque(maxlen=_MAX_REQUESTS)

    def connection_made(self, transport: Any) -> None:
        Hook.connections += 1
        self._peer = transport.get_extra_info("peername")
        self._write = transport.write
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        while (end := data.find(_END)) >= 0:
            at = data.find(_LENGTH, 0, end)
            size = 0 if at < 0 else int(data[at + len(_LENGTH) : data.index(b"\r", at)])
            whole = end + len(_END) + size
            if len(data) < whole:
                break
            Hook.answered += 1
            Hook.kept.append((_value(data, _ID, end), _value(data, _ATTEMPT, end), time.time(), self._peer))
            self._write(_ANSWER)
            data = data[whole:]
        self._rest = data


def _value(head: bytes, name: bytes, end: int) -> bytes:
    """The value of a header; nothing if there is none."""
    at = head.find(name, 0, end)
    return b"" if at < 0 else head[at + len(name) : head.index(b"\r", at)]


def lowest_ephemeral_port() -> int | None:
    """The first port that the system hands out by itself; None where that cannot be read."""
    return int(_RANGE.read_text("utf-8").split()[0]) if _RANGE.exists() else None


async def _listen(ports: int, tls: ssl.SSLContext | None) -> list[int]:
    """Listen on ports that no other program is given by chance, so that no stranger calls here by mistake."""
    ephemeral = lowest_ephemeral_port()
    if ephemeral is None or ephemeral <= _LOWEST + ports:
        return [await _listen_on(0, tls) for _ in range(ports)]
    taken: list[int] = []
    for port in count(Random().randrange(_LOWEST, ephemeral)):
        if len(taken) == ports:
            break
        try:
            taken.append(await _listen_on(_LOWEST + port % (ephemeral - _LOWEST), tls))
        except OSError:
            continue  # somebody listens there
    return taken


async def _listen_on(port: int, tls: ssl.SSLContext | None) -> int:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Hook, "127.0.0.1", port, ssl=tls, backlog=_BACKLOG)
    return int(server.sockets[0].getsockname()[1])


def _answer(line: str) -> Any:
    command, _, path = line.strip().partition(" ")
    match command:
        case "repeats":
            counted = Counter((run, attempt) for run, attempt, _, _ in Hook.kept)
            return [[run.decode(), attempt.decode(), times] for (run, attempt), times in counted.items() if times > 1]
        case "forget":
            Hook.kept.clear()
            return None
        case "write":
            lines = (
                json.dumps({"run": run.decode(), "attempt": attempt.decode(), "at": at, "peer": peer})
                for run, attempt, at, peer in Hook.kept
            )
            Path(path).write_text("".join(f"{line}\n" for line in lines), "utf-8")
            return len(Hook.kept)
        case _:
            return [Hook.answered, Hook.connections]


async def _main(ports: int, certificate: str) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    listening = {"http": await _listen(ports, None), "https": await _listen(ports, tls)}
    print(json.dumps(listening), flush=True)
    ended = asyncio.Event()

    def report() -> None:
        if line := os.read(sys.stdin.fileno(), 1_024):
            print(json.dumps(_answer(line.decode())), flush=True)
        else:
            ended.set()

    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), report)
    await ended.wait()


if __name__ == "__main__":
    uvloop.run(_main(**json.loads(sys.argv[1])))
