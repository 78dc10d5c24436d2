"""Opens connections to the server: to any of its addresses, with TLS, and through a proxy if asked for."""

import asyncio
import socket
import ssl
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from hourbell.client.http_connection import ConnectionBroken, HttpConnection

_NEXT_ADDRESS_SECONDS = 0.25  # then the next address is tried, too, while the others go on
_PORTS = {"http": 80, "https": 443}


class ProxyRefused(Exception):
    """The proxy does not connect to the server, or its URL is invalid; the message says why."""


@dataclass(frozen=True, slots=True)
class Proxy:
    url: SplitResult
    headers: Sequence[tuple[str, str]] = field(default=(), repr=False)


def port_of(url: SplitResult) -> int:
    return url.port or _PORTS[url.scheme]


def environment_proxy(server: SplitResult) -> Proxy | None:
    """Return the proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for this server; None if there is none."""
    from urllib.request import getproxies, proxy_bypass

    text = getproxies().get(server.scheme)
    if not text or proxy_bypass(f"{server.hostname}:{port_of(server)}"):
        return None
    url = urlsplit(text if "://" in text else f"http://{text}")
    if url.scheme not in _PORTS or not url.hostname:
        raise ProxyRefused(f"{server.scheme.upper()}_PROXY names no HTTP proxy; write it as in http://127.0.0.1:3128")
    if url.username is None:
        return Proxy(url)
    credentials = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
    return Proxy(url, [("Proxy-Authorization", f"Basic {b64encode(credentials).decode()}")])


async def connect(server: SplitResult, tls: ssl.SSLContext | None, proxy: Proxy | None) -> HttpConnection:
    """Connect to the server; for plain HTTP through a proxy, to the proxy. Raise OSError or ProxyRefused on failure."""
    if proxy is None:
        return await _open(server, tls)
    connection = await _open(proxy.url, tls)
    if server.scheme == "http":
        return connection
    try:
        return await _tunnel(connection, server, tls, proxy)
    except BaseException:
        connection.abort()
        raise


async def _open(url: SplitResult, tls: ssl.SSLContext | None) -> HttpConnection:
    host = url.hostname or ""
    plain = await _first_socket(host, port_of(url))
    is_tls = url.scheme == "https"
    try:
        _, connection = await asyncio.get_running_loop().create_connection(
            HttpConnection,
            sock=plain,
            ssl=tls if is_tls else None,
            server_hostname=host.rstrip(".") if is_tls else None,
        )
    except BaseException:
        plain.close()
        raise
    return connection


async def _tunnel(
    connection: HttpConnection, server: SplitResult, tls: ssl.SSLContext | None, proxy: Proxy
) -> HttpConnection:
    host = server.hostname or ""
    authority = f"[{host}]:{port_of(server)}" if ":" in host else f"{host}:{port_of(server)}"
    try:
        head = await connection.ask("CONNECT", authority, [("Host", authority), *proxy.headers])
    except ConnectionBroken as error:
        raise ProxyRefused(f"the proxy {proxy.url.hostname} broke off: {error}") from error
    if not 200 <= head.status < 300:
        raise ProxyRefused(f"the proxy {proxy.url.hostname} answers HTTP {head.status}")
    assert tls is not None
    inside = HttpConnection()
    transport = await asyncio.get_running_loop().start_tls(
        connection.leave(), inside, tls, server_hostname=host.rstrip(".")
    )
    assert transport is not None
    inside.connection_made(transport)
    return inside


async def _first_socket(host: str, port: int) -> socket.socket:
    """Connect to the first address that answers, with a head start for preferred ones; else raise the first error."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    waiting = [(family, address) for family, _, _, _, address in found]
    trying: set[asyncio.Task[socket.socket]] = set()
    errors: list[BaseException] = []
    try:
        while waiting or trying:
            if waiting:
                trying.add(asyncio.create_task(_connected(*waiting.pop(0))))
            timeout = _NEXT_ADDRESS_SECONDS if waiting else None
            done, _ = await asyncio.wait(trying, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                trying.remove(each)
                error = each.exception()
                if error is None:
                    return each.result()
                errors.append(error)
    finally:
        for each in trying:
            each.cancel()
            each.add_done_callback(_close_socket)
    raise errors[0] if errors else OSError("it has no address")


async def _connected(family: int, address: Any) -> socket.socket:
    plain = socket.socket(family, socket.SOCK_STREAM)
    try:
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(plain, address)
    except BaseException:
        plain.close()
        raise
    return plain


def _close_socket(late: asyncio.Task[socket.socket]) -> None:
    if not late.cancelled() and late.exception() is None:
        late.result().close()
