"""Clients alone: the same requests as ours, prepared and signed beforehand, sent by so many coroutines at once.

`transport` is our own transport behind its egress policy; `aiohttp` is an ordinary session's `post`.
"""

import asyncio
import gc
import json
import ssl
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from pathlib import Path
from uuid import UUID, uuid4

import aiohttp
import uvloop

from hourbell import clock
from hourbell.core.access.signing import new_secret
from hourbell.core.job.definition import Definition
from hourbell.core.job.secret_headers import SIGNING
from hourbell.core.run.run import Run
from hourbell.core.run.states import Kind, RunState
from hourbell.core.values.networks import LOOPBACK
from hourbell.sealing import KeyRing, Plain
from hourbell.targets.base import Call
from hourbell.targets.http.addresses import AddressRules, cached_for_a_minute, own_addresses
from hourbell.targets.http.client import HttpTransport
from hourbell.targets.http.dial import tls_context
from hourbell.targets.http.resolver import EgressPolicy, OwnServers, SystemResolver
from hourbell.targets.http.target import HttpTarget
from hourbell.targets.http.transport import NotBegun, Request, Response

Send = Callable[[Request], Awaitable[int]]


class _Keeper:
    """Records requests instead of sending them."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def send(self, request: Request, begin: Callable[[], Awaitable[bool]]) -> Response:  # noqa: ARG002
        self.requests.append(request)
        raise NotBegun

    async def close(self) -> None:
        """Do nothing: the client holds no connection."""


async def _prepared(urls: list[str], count: int) -> list[Request]:
    """The requests our target makes of runs, over all the URLs in turn."""
    keeper, keys = _Keeper(), KeyRing([bytes(32)], lambda size: bytes(size))
    target = HttpTarget(keeper, keys=keys, user_agent="Hourbell", slots=1, elapsed=clock.elapsed)
    secret = keys.seal(Plain(new_secret(bytes(32))), UUID(int=0), UUID(int=0), SIGNING)
    now = datetime.now(UTC)
    for index, url in enumerate(islice(cycle(urls), count)):
        job = Definition(f"job-{index:06}", "0 3 * * *", {"type": "http", "url": url})
        run = Run(uuid4(), uuid4(), 1, Kind.SCHEDULED, now, now, now + timedelta(days=1), RunState.RUNNING, "", 1, 0, 0)
        await target.deliver(Call(run, job, now, secrets=(secret,)))
    return keeper.requests


async def _may_begin() -> bool:
    return True


def _transport(tls: ssl.SSLContext) -> HttpTransport:
    """The transport as a node on loopback has it."""
    resolver = SystemResolver(timeout=10)
    servers = OwnServers([("127.0.0.1", 0)], resolver, elapsed=clock.elapsed)
    rules = AddressRules(
        allow_networks=LOOPBACK,
        own_servers=servers,
        own_addresses=cached_for_a_minute(own_addresses, clock.elapsed),
    )
    return HttpTransport(EgressPolicy(resolver, rules, servers), tls, elapsed=clock.elapsed)


async def _send_all(requests: list[Request], at_once: int, send: Send) -> None:
    async def work(line: Iterator[Request]) -> None:
        for request in line:
            status = await send(request)
            assert status == 200, status

    line = iter(requests)
    await asyncio.gather(*(work(line) for _ in range(at_once)))


async def _main(client: str, urls: list[str], count: int, at_once: int, warm_up: int, ca_file: str) -> None:
    requests = await _prepared(urls, count + warm_up)
    tls = tls_context(Path(ca_file))
    transport = _transport(tls)
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=at_once, ssl=tls))

    async def by_transport(request: Request) -> int:
        return (await transport.send(request, _may_begin)).status

    async def by_session(request: Request) -> int:
        async with session.post(str(request.url), data=request.body, headers=request.headers) as answer:
            await answer.read()
            return answer.status

    send = by_session if client == "aiohttp" else by_transport
    await _send_all(requests[:warm_up], warm_up, send)
    gc.collect()
    gc.freeze()  # the garbage collector skips what is prepared
    print(json.dumps("ready"), flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    await _send_all(requests[warm_up:], at_once, send)
    print(json.dumps(time.perf_counter() - start), flush=True)
    sys.stdin.readline()
    await session.close()
    await transport.close()


if __name__ == "__main__":
    uvloop.run(_main(**json.loads(sys.argv[1])))
