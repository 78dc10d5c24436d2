"""Warning for a job definition whose host name resolves to an address that webhooks may not reach.

The check only warns and refuses nothing: the name may resolve differently tomorrow, and the egress policy checks every
connection again. Whoever defines jobs reads the warning, so it names the kind of address and never the address.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial

from hourbell.core.values.url import Url
from hourbell.targets.http.addresses import Address, Prohibition
from hourbell.targets.http.transport import TransportError

MAX_SECONDS = 2.0  # that a definition waits for DNS lookups
MAX_LOOKUPS = 4  # at a time, for all definitions together
MAX_HOSTS = 20  # looked up for one request
_CACHE_SECONDS = 60.0
_MAX_CACHED_HOSTS = 1_000

Host = tuple[str, int]  # a name and a port


class HostCheck:
    """A check that resolves a few hosts at a time. While slow names occupy all lookups, no caller waits for another.

    A lookup cannot be stopped: one that takes longer than a definition waits goes on, and its answer is cached for the
    next definition. The cache stores answers and failures for a minute.
    """

    def __init__(
        self,
        look_up: Callable[[str, int], Awaitable[tuple[Address, ...]]],
        prohibits: Callable[[Address, int], Prohibition | None],
        *,
        elapsed: Callable[[], float],
    ) -> None:
        self._look_up = look_up
        self._prohibits = prohibits
        self._elapsed = elapsed
        self._open: dict[Host, asyncio.Task[tuple[Address, ...]]] = {}
        self._cache: OrderedDict[Host, tuple[float, tuple[Address, ...]]] = OrderedDict()

    async def __call__(self, urls: Iterable[Url]) -> dict[str, str]:
        """Return a warning for each origin that webhooks may not reach, as far as lookups end in time."""
        hosts = {(url.host, url.port): url.origin for url in urls if not url.is_address}
        unknown = [host for host in hosts if not self._is_known(host)][:MAX_HOSTS]
        workers = min(len(unknown), MAX_LOOKUPS - len(self._open))
        if workers > 0:
            await self._ask(iter(unknown), workers)
        found = ((origin, self._warning(host)) for host, origin in hosts.items())
        return {origin: warning for origin, warning in found if warning is not None}

    async def _ask(self, hosts: Iterator[Host], workers: int) -> None:
        tasks = [asyncio.ensure_future(self._ask_each(hosts)) for _ in range(workers)]
        try:
            await asyncio.wait(tasks, timeout=MAX_SECONDS)
        finally:
            for task in tasks:
                task.cancel()

    async def _ask_each(self, hosts: Iterator[Host]) -> None:
        for host in hosts:
            task = self._open.get(host)
            if task is None:
                if len(self._open) >= MAX_LOOKUPS:
                    return
                task = self._open[host] = asyncio.ensure_future(self._addresses(host))
                task.add_done_callback(partial(self._keep, host))
            await asyncio.shield(task)

    async def _addresses(self, host: Host) -> tuple[Address, ...]:
        try:
            return await self._look_up(*host)
        except TransportError:
            return ()

    def _keep(self, host: Host, task: "asyncio.Task[tuple[Address, ...]]") -> None:
        del self._open[host]
        if task.cancelled() or task.exception() is not None:
            return
        self._cache[host] = self._elapsed(), task.result()
        self._cache.move_to_end(host)
        while len(self._cache) > _MAX_CACHED_HOSTS:
            self._cache.popitem(last=False)

    def _is_known(self, host: Host) -> bool:
        cached = self._cache.get(host)
        return cached is not None and self._elapsed() - cached[0] < _CACHE_SECONDS

    def _warning(self, host: Host) -> str | None:
        _, addresses = self._cache.get(host, (0.0, ()))
        name, port = host
        found = (self._prohibits(address, port) for address in addresses)
        return next((_message(name, each) for each in found if each is not None), None)


def _message(name: str, prohibition: Prohibition) -> str:
    if prohibition.kind is None:
        return prohibition.reason
    allow = "" if prohibition.setting is None else f"; an operator can allow its network with {prohibition.setting}"
    return f"{name} resolves to an address that webhooks may not reach ({prohibition.kind}){allow}"
