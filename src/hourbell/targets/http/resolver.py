"""Resolution of a URL to the addresses its connection may use: the DNS lookup, and the egress policy with its address
rules.

One forbidden address among a name's answers forbids the whole name. The policy's answer is valid for one attempt only:
the next attempt looks the name up and checks its addresses again, so that DNS rebinding cannot bypass the check.
"""

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from functools import lru_cache, partial
from ipaddress import ip_address
from threading import Thread
from typing import Any, Protocol

from hourbell.core.values.url import Url
from hourbell.targets.http.addresses import Address, AddressRules, Prohibition, Server, plain
from hourbell.targets.http.transport import Refused, TransportError

PATIENCE_SECONDS = 0.5  # to wait for a new answer when there is a cached one
STALE_SECONDS = 600.0  # for which a cached answer is used while there is no newer one
_MAX_CACHED_HOSTS = 10_000
_MINUTE = 60.0
_SOON = 5.0  # seconds until a failed lookup is retried
_NO_SUCH_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
_Name = tuple[str, int]  # host and port


class Resolver(Protocol):
    async def resolve(self, host: str, port: int, /) -> tuple[Address, ...]:
        """Return every address of a name, once, in the order to try them; none if there is no such name.

        Raises a TransportError if the lookup failed.
        """


class SystemResolver:
    """A resolver that uses the operating system's getaddrinfo.

    Its lookups need threads, of which there are few, and cannot be stopped. So there is one at a time for a name and
    port: concurrent callers share its answer, and a slow name blocks only one thread. Many slow names may block all
    threads. Then a name with a cached answer gets that answer, and its callers wait only for `patience` seconds.
    """

    def __init__(
        self, *, timeout: float, patience: float = PATIENCE_SECONDS, stale_seconds: float = STALE_SECONDS
    ) -> None:
        self._timeout = timeout
        self._patience = patience
        self._stale_seconds = stale_seconds
        self._open: dict[_Name, asyncio.Task[tuple[Address, ...]]] = {}
        self._cache: OrderedDict[_Name, tuple[float, tuple[Address, ...]]] = OrderedDict()

    async def resolve(self, host: str, port: int) -> tuple[Address, ...]:
        name = (host, port)
        task = self._open.get(name)
        if task is None:
            task = self._open[name] = asyncio.ensure_future(look_up(host, port))
            task.add_done_callback(partial(self._finish, name))
        try:
            async with asyncio.timeout(self._patience if self._older(name) else self._timeout):
                return await asyncio.shield(task)
        except TimeoutError:
            if older := self._older(name):
                return older
            raise TransportError(f"{host} could not be looked up within {self._timeout:g} s", begun=False) from None

    def _older(self, name: _Name) -> tuple[Address, ...]:
        """Return the addresses of a cached answer that is not too old; none if there is no such answer."""
        cached_at, addresses = self._cache.get(name, (0.0, ()))
        return addresses if addresses and asyncio.get_running_loop().time() - cached_at < self._stale_seconds else ()

    def _finish(self, name: _Name, task: "asyncio.Task[tuple[Address, ...]]") -> None:
        del self._open[name]
        if task.cancelled() or task.exception() is not None:  # retrieved, so that asyncio logs no warning
            return
        self._cache[name] = task.get_loop().time(), task.result()
        self._cache.move_to_end(name)
        if len(self._cache) > _MAX_CACHED_HOSTS:
            self._cache.popitem(last=False)


async def look_up(host: str, port: int, threads: Executor | None = None) -> tuple[Address, ...]:
    """Look up every address of a name with getaddrinfo, in one of `threads` or in the event loop's default executor."""
    loop, how = asyncio.get_running_loop(), {"type": socket.SOCK_STREAM, "proto": socket.IPPROTO_TCP}
    try:
        if threads is None:
            answers = await loop.getaddrinfo(host, port, **how)
        else:
            answers = await loop.run_in_executor(threads, partial(socket.getaddrinfo, host, port, **how))
    except socket.gaierror as error:
        if error.errno in _NO_SUCH_NAME:
            return ()
        raise TransportError(f"{host} could not be looked up: {error.strerror}", begun=False) from None
    except OSError as error:
        raise TransportError(f"{host} could not be looked up: {error.strerror}", begun=False) from None
    except UnicodeError:  # a host from the settings that is not a valid DNS name
        return ()
    return tuple(dict.fromkeys(plain(ip_address(answer[4][0])) for answer in answers))


class DaemonThreads(Executor):
    """An executor with one daemon thread per call, so that a call that hangs does not delay the process's exit."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # a caller that gives up does not break the thread
        Thread(target=_finish, args=(future, partial(call, *args, **kwargs)), daemon=True).start()
        return future


def _finish(future: "Future[Any]", call: Callable[[], Any]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # the caller that waits for the future gets it
        future.set_exception(error)


class OwnServers:
    """The database and the broker, by their hosts and ports in the settings, which no webhook may reach.

    A name stands for every address of its last lookup. It is looked up again at most once a minute, and the older
    answer is valid while there is no newer one.
    """

    def __init__(self, hosts: Iterable[tuple[str, int]], resolver: Resolver, *, elapsed: Callable[[], float]) -> None:
        self._hosts = tuple((host.strip("[]").lower().removesuffix("."), port) for host, port in hosts)
        self._resolver = resolver
        self._elapsed = elapsed
        self._found: dict[str, tuple[Address, ...]] = {}
        self._asked_at: dict[str, float] = {}

    def __call__(self) -> list[Server]:
        return [Server(address, port) for host, port in self._hosts for address in self._found.get(host, ())]

    async def look_up(self) -> None:
        """Update the addresses of every host whose last lookup is too old; a failed lookup is ignored."""
        for host, port in self._hosts:
            asked_at = self._asked_at.get(host)
            if asked_at is None or self._elapsed() - asked_at >= _MINUTE:
                await self._look_up(host, port)

    async def _look_up(self, host: str, port: int) -> None:
        now = self._elapsed()
        if host in self._found:
            self._asked_at[host] = now  # set before the lookup, so that concurrent callers use the older answer
        try:
            found = await _addresses(host, port, self._resolver)
        except TransportError:
            # The known addresses stay forbidden, and the failed lookup fails no webhook.
            found, now = (), now - _MINUTE + _SOON
        self._asked_at[host] = now
        self._found[host] = found or self._found.get(host, ())

    def learn(self, host: str, addresses: tuple[Address, ...]) -> None:
        """Add addresses that a webhook's lookup found for an own server: DNS may answer differently each time."""
        if host in self._found:
            self._found[host] = tuple(dict.fromkeys(self._found[host] + addresses))


class Unrestricted:
    """The egress policy of a command whose caller names every URL: any address may be connected to."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def addresses_of(self, url: Url) -> tuple[Address, ...]:
        addresses = await _addresses(url.host, url.port, self._resolver)
        if not addresses:
            raise TransportError(f"{url.host} has no address; check the host in the URL", begun=False)
        return addresses

    def forbids(self, address: Address, port: int) -> None:
        """Return None: nothing is forbidden."""


class EgressPolicy:
    """The check between a webhook's URL and its socket: it resolves the host and applies the address rules."""

    def __init__(self, resolver: Resolver, rules: AddressRules, own_servers: OwnServers) -> None:
        self._resolver = resolver
        self._rules = rules
        self._own_servers = own_servers

    async def addresses_of(self, url: Url) -> tuple[Address, ...]:
        """Return the addresses that one connection to the URL may use, at least one, in the order to try them.

        Raises Refused if any of them is forbidden, and a TransportError if there is none or the lookup failed.
        """
        await self._own_servers.look_up()
        addresses = await _addresses(url.host, url.port, self._resolver)
        self._own_servers.learn(url.host, addresses)
        for address in addresses:
            if (reason := self._rules.forbids(address, url.port)) is not None:
                raise Refused(reason if _literal(url.host) else f"{url.host} is refused: {reason}")
        if not addresses:
            raise TransportError(f"{url.host} has no address; check the host in the URL", begun=False)
        return addresses

    def forbids(self, address: Address, port: int) -> str | None:
        """Return the reason why a connection to this address is forbidden; None if it is allowed."""
        return self._rules.forbids(address, port)

    def prohibits(self, address: Address, port: int) -> Prohibition | None:
        """Return the same as a `Prohibition`, for messages that must not name the address."""
        return self._rules.prohibits(address, port)


async def _addresses(host: str, port: int, resolver: Resolver) -> tuple[Address, ...]:
    literal = _literal(host)
    found = await resolver.resolve(host, port) if literal is None else (literal,)
    return tuple(dict.fromkeys(plain(address) for address in found))


@lru_cache(4_096)
def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
