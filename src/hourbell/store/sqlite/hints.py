"""Hints inside one process: a commit notifies all listeners, across threads and event loops."""

import asyncio
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress

from hourbell.store.base import Wake


class Listener:
    """Collects hints until `next` returns them; repeated hints are merged."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._heard: set[Wake] = set(Wake)  # every hint: commits before now are unknown

    async def next(self, patience: float | None) -> list[Wake]:
        """Return the hints since the last call. Wait at most `patience` seconds for one; there may be none."""
        if not self._heard:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):  # wait_for may lose a cancellation that arrives as it ends
                    await self._event.wait()
        heard, self._heard = self._heard, set()
        self._event.clear()
        return [wake for wake in Wake if wake in heard]

    def notify(self, wakes: Iterable[Wake]) -> None:
        with suppress(RuntimeError):  # its event loop is closed
            self._loop.call_soon_threadsafe(self._hear, frozenset(wakes))

    def _hear(self, wakes: frozenset[Wake]) -> None:
        self._heard |= wakes
        self._event.set()


class Hints:
    """The listeners in this process for commits to one database."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()  # replaced on each change, because other threads iterate over it

    @contextmanager
    def listener(self) -> Iterator[Listener]:
        listener = Listener()
        self._listeners += (listener,)
        try:
            yield listener
        finally:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

    def announce(self, wakes: Collection[Wake]) -> None:
        if wakes:  # an empty set must not wake a listener
            for listener in self._listeners:
                listener.notify(wakes)
