"""Opens connections, and only to addresses the gate allows: this is the one place where the webhooks' sockets are made.

Whatever looked the addresses up, each is put to the gate once more right before its socket exists, and the connection
counts only if its other end is the address that was meant.
"""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol

from hourbell.core.url import Url
from hourbell.targets.http import failures
from hourbell.targets.http.addresses import Address
from hourbell.targets.http.phases import Stopwatch
from hourbell.targets.http.transport import Refused, TransportError
from hourbell.targets.http.wire import Wire

HANDSHAKE_SECONDS = 10.0
ADDRESS_SECONDS = 3.0  # for each address but the last, so that a dead one does not use up the attempt


class Gate(Protocol):
    async def addresses_of(self, url: Url) -> tuple[Address, ...]:
        """The addresses of this URL's host, all of them allowed; else raise Refused or another TransportError."""

    def forbids(self, address: Address, port: int) -> str | None:
        """Why there may be no connection to this address, in one sentence; None if there may."""


def tls_context(ca_file: Path | None = None) -> ssl.SSLContext:
    """Checks the certificate and its name, always, by this machine's authorities and those in the file."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context


class Dialler:
    def __init__(self, gate: Gate, tls: ssl.SSLContext) -> None:
        self._gate = gate
        self._tls = tls

    async def open(self, url: Url, addresses: Sequence[Address], watch: Stopwatch) -> Wire:
        """Connect to the first of these addresses that answers; else raise a TransportError."""
        watch.start("connect")
        plain, address = await self._connect(addresses, url.port)
        loop = asyncio.get_running_loop()
        make = partial(Wire, loop, url.origin, address)
        if url.scheme == "http":
            _, wire = await loop.create_connection(make, sock=plain)
            return wire
        watch.start("tls")
        try:
            _, wire = await loop.create_connection(
                make,
                sock=plain,
                ssl=self._tls,
                server_hostname=url.host,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except OSError as error:
            raise TransportError(failures.of_handshake(error, HANDSHAKE_SECONDS), begun=False) from error
        return wire

    async def _connect(self, addresses: Sequence[Address], port: int) -> tuple[socket.socket, Address]:
        loop = asyncio.get_running_loop()
        problems: list[str] = []
        for position, address in enumerate(addresses, start=1):
            plain = self._socket(address, port)
            try:
                async with asyncio.timeout(ADDRESS_SECONDS if position < len(addresses) else None):
                    await loop.sock_connect(plain, (str(address), port))
                _must_be(plain, address, port)
            except OSError as error:
                plain.close()
                problems.append(failures.of_connecting(error, address, port))
            except BaseException:
                plain.close()
                raise
            else:
                return plain, address
        raise TransportError(failures.joined(problems), begun=False)

    def _socket(self, address: Address, port: int) -> socket.socket:
        if (why := self._gate.forbids(address, port)) is not None:
            raise Refused(why)
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setblocking(False)
        return made


def _must_be(plain: socket.socket, address: Address, port: int) -> None:
    host, its_port = plain.getpeername()[:2]
    if (ip_address(host), its_port) != (address, port):
        raise Refused(f"the connection to {address} port {port} ended at another address")
