"""Every transport there is, and what a test needs to send something by it."""

import asyncio
import ssl
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

from hourbell import clock
from hourbell.core.values.url import Url
from hourbell.targets.http.addresses import Address
from hourbell.targets.http.client import HttpTransport
from hourbell.targets.http.dial import tls_context
from hourbell.targets.http.transport import Request, Transport, TransportError

NAME = "hook.example"
LOOPBACK = ip_address("127.0.0.1")
OTHER_LOOPBACK = ip_address("127.0.0.2")


class FakeEgressPolicy:
    """Knows one set of addresses for every name, and forbids what a test says; it counts the look-ups."""

    def __init__(self, *addresses: Address) -> None:
        self.addresses = addresses or (LOOPBACK,)
        self.forbidden: set[Address] = set()
        self.error: TransportError | None = None
        self.is_stuck = False
        self.look_ups = 0

    async def addresses_of(self, url: Url) -> tuple[Address, ...]:
        del url
        self.look_ups += 1
        if self.is_stuck:
            await asyncio.sleep(60)
        if self.error is not None:
            raise self.error
        return self.addresses

    def forbids(self, address: Address, port: int) -> str | None:
        return f"{address} port {port} is not allowed" if address in self.forbidden else None


def an_http_transport(policy: FakeEgressPolicy, tls: ssl.SSLContext) -> Transport:
    return HttpTransport(policy, tls, elapsed=clock.elapsed)


TRANSPORTS: dict[str, Callable[[FakeEgressPolicy, ssl.SSLContext], Transport]] = {"http": an_http_transport}


def make_transport(name: str, policy: FakeEgressPolicy, ca_file: Path | None = None) -> Transport:
    return TRANSPORTS[name](policy, tls_context(ca_file))


def a_request(
    port: int,
    method: str = "POST",
    *,
    host: str = NAME,
    scheme: str = "http",
    path: str = "/hook?token=s3cret",
    body: bytes = b'{"secret": "s3cret"}',
    timeout: float = 10,
) -> Request:
    return Request(method, Url(scheme, host, port, path), {"Authorization": "Bearer s3cret"}, body, timeout)


async def yes() -> bool:
    return True


async def no() -> bool:
    return False
