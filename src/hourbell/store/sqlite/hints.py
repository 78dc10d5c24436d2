"""Hints inside one process: whoever commits tells whoever listens, from any thread and any event loop."""

import asyncio
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress

from hourbell.store.base import Wake


class Listener:
    """Collects hints until they are asked for; the same hint twice is one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._heard: set[Wake] = set(Wake)  # whatever happened before it listened

    async def next(self, patience: float | None) -> list[Wake]:
        """The hints since the last call, at the latest after `patience` seconds, then perhaps none."""
        if not self._heard:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):  # wait_for may lose a cancellation that comes with its end
                    await self._event.wait()
        heard, self._heard = self._heard, set()
        self._event.clear()
        return [wake for wake in Wake if wake in heard]

    def tell(self, wakes: Iterable[Wake]) -> None:
        with suppress(RuntimeError):  # its event loop is closed
            self._loop.call_soon_threadsafe(self._hear, frozenset(wakes))

    def _hear(self, wakes: frozenset[Wake]) -> None:
        self._heard |= wakes
        self._event.set()


class Hints:
    """Everybody in this process who wants to know about commits to one database."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()  # a new one for each change: other threads go through it

    @contextmanager
    def listener(self) -> Iterator[Listener]:
        listener = Listener()
        self._listeners += (listener,)
        try:
            yield listener
        finally:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

    def announce(self, wakes: Collection[Wake]) -> None:
        if wakes:  # silence must not wake anybody
            for listener in self._listeners:
                listener.tell(wakes)
