"""A receiver of webhooks that costs as little as Python can: it counts requests, and answers each with two bytes.

Started with a JSON object of settings, it tells the ports it listens on, and then for each line it reads how many
requests it has answered and how many connections it has taken.
"""

import asyncio
import json
import os
import ssl
import sys
from typing import Any

import uvloop

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
_END = b"\r\n\r\n"
_LENGTH = b"Content-Length: "
_BACKLOG = 4_096


class Hook(asyncio.Protocol):
    """One connection, kept alive; requests may come in pieces, and several at once."""

    answered = 0
    connections = 0

    def connection_made(self, transport: Any) -> None:
        Hook.connections += 1
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
            self._write(_ANSWER)
            data = data[whole:]
        self._rest = data


async def _listen(ports: int, tls: ssl.SSLContext | None) -> list[int]:
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Hook, "127.0.0.1", 0, ssl=tls, backlog=_BACKLOG) for _ in range(ports)]
    return [server.sockets[0].getsockname()[1] for server in servers]


async def _main(ports: int, certificate: str) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    listening = {"http": await _listen(ports, None), "https": await _listen(ports, tls)}
    print(json.dumps(listening), flush=True)
    ended = asyncio.Event()

    def tell() -> None:
        if os.read(sys.stdin.fileno(), 1_024):
            print(json.dumps([Hook.answered, Hook.connections]), flush=True)
        else:
            ended.set()

    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), tell)
    await ended.wait()


if __name__ == "__main__":
    uvloop.run(_main(**json.loads(sys.argv[1])))
