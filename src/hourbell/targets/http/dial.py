"""Opening of webhook connections, only to addresses that the egress policy allows. No other module creates webhook
sockets.

Whichever resolver found an address, the egress policy checks it again right before its socket is created, and the
connection is used only if its peer address is the one that was checked.
"""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol

from hourbell.core.values.url import Url
from hourbell.targets.http import failures
from hourbell.targets.http.addresses import Address
from hourbell.targets.http.http_connection import HttpConnection
from hourbell.targets.http.phases import Stopwatch
from hourbell.targets.http.transport import Refused, TransportError

HANDSHAKE_SECONDS = 10.0
ADDRESS_SECONDS = 3.0  # at most, for each address but the last: a dead one must not use up the attempt's timeout


class EgressPolicy(Protocol):
    async def addresses_of(self, url: Url) -> tuple[Address, ...]:
        """Return the addresses of a URL's host, all of them allowed; else raise Refused or another TransportError."""

    def forbids(self, address: Address, port: int) -> str | None:
        """Return the reason why a connection to this address is forbidden, in one sentence; None if it is allowed."""


def tls_context(ca_file: Path | None = None, *, protocol: str | None = "http/1.1") -> ssl.SSLContext:
    """Create a TLS context that always verifies certificate and host name, with the system's CAs and those of the file.

    It requires TLS 1.2 or later, and offers `protocol` by ALPN.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if protocol is not None:
        context.set_alpn_protocols([protocol])
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context


class Dialler:
    def __init__(self, policy: EgressPolicy, tls: ssl.SSLContext) -> None:
        self._policy = policy
        self._tls = tls

    async def open(self, url: Url, addresses: Sequence[Address], watch: Stopwatch, *, seconds: float) -> HttpConnection:
        """Connect to the first of these addresses that accepts; raise a TransportError if none does.

        `seconds` is the attempt's timeout, which the caller enforces; here it is only divided among the addresses.
        """
        watch.start("connect")
        plain, address = await self._connect(addresses, url.port, seconds)
        is_tls = url.scheme == "https"
        if is_tls:
            watch.start("tls")
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(
                partial(HttpConnection, loop, url.origin, address),
                sock=plain,
                ssl=self._tls if is_tls else None,
                server_hostname=url.host if is_tls else None,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if is_tls else None,
            )
        except OSError as error:
            if is_tls:
                raise TransportError(failures.of_handshake(error, HANDSHAKE_SECONDS), begun=False) from error
            raise TransportError(failures.of_connecting(error, address, url.port), begun=False) from error
        return connection

    async def _connect(self, addresses: Sequence[Address], port: int, seconds: float) -> tuple[socket.socket, Address]:
        share = min(ADDRESS_SECONDS, seconds / max(len(addresses), 1))
        problems: list[str] = []
        for position, address in enumerate(addresses, start=1):
            if (why := self._policy.forbids(address, port)) is not None:
                raise Refused(why)
            try:
                async with asyncio.timeout(share if position < len(addresses) else None):
                    return await _connected(address, port), address
            except OSError as error:
                problems.append(failures.of_connecting(error, address, port))
        raise TransportError(failures.joined(problems), begun=False)


async def _connected(address: Address, port: int) -> socket.socket:
    plain = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_STREAM)
    try:
        plain.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plain, (str(address), port))
        host, its_port = plain.getpeername()[:2]
        if (ip_address(host), its_port) != (address, port):
            raise Refused(f"the connection to {address} port {port} ended at another address")
    except BaseException:
        plain.close()
        raise
    return plain
