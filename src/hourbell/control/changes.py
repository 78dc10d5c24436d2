"""Which jobs and runs change, as it happens: asked of the database once a second, and only while somebody listens.

What was found is kept in a ring, so that a listener who was cut off goes on where it was, within limits. The hints of
the database are not used for that: they say that something changed, not what.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hourbell.store.base import StoreUnavailable
from hourbell.store.lists import ChangedJob, ChangedRun, ChangeMark, Changes, ListStore

_SECONDS = 1.0
_SILENCE_SECONDS = 15.0
_MOST = 500
_KEPT = 300
_OVERLAP = timedelta(seconds=2)  # a commit may become visible later than the times it wrote


@dataclass(frozen=True, slots=True)
class Event:
    """What changed within a second. None if listeners may have missed something, and should look again at all of it."""

    id: str
    changes: Changes | None


class Watch:
    """`epoch` tells the rings of processes apart: an id of another one is not known here."""

    def __init__(self, lists: ListStore, *, now: Callable[[], datetime], epoch: str) -> None:
        self._lists = lists
        self._now = now
        self._epoch = epoch
        self._ring: deque[Event] = deque(maxlen=_KEPT)
        self._count = 0
        self._mark: ChangeMark | None = None
        self._told: frozenset[ChangedJob | ChangedRun] = frozenset()
        self._listeners = 0
        self._polling: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()

    async def listen(self, last_id: str | None = None) -> AsyncIterator[Event | None]:
        """Events after the one given, as they come; None after every fifteen seconds in which nothing changed."""
        self._listeners += 1
        try:
            if self._polling is None or self._polling.done():
                self._polling = asyncio.create_task(self._poll())
            told = self._count if last_id is None else self._place_of(last_id)
            if told is None:
                told = self._count
                yield Event(self._id(told), None)
            while True:
                for event in self._after(told):
                    yield event
                told = self._count
                if not await self._hear(told):
                    yield None
        finally:
            self._listeners -= 1

    async def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)

    async def _hear(self, told: int) -> bool:
        """Wait for news; False if none came for a while."""
        try:
            async with asyncio.timeout(_SILENCE_SECONDS), self._news:
                return await self._news.wait_for(lambda: self._count > told)
        except TimeoutError:
            return False

    async def _poll(self) -> None:
        self._mark, self._told = None, frozenset()  # what happened while nobody listened is not told
        while self._listeners:
            with contextlib.suppress(StoreUnavailable):  # the next look finds what this one missed
                await self._look()
            await asyncio.sleep(_SECONDS)

    async def _look(self) -> None:
        """Looks overlap, because what is committed later may be dated earlier; nothing is told twice all the same."""
        is_first = self._mark is None
        found = await self._lists.changes(self._mark, self._now(), _MOST)
        jobs = [each for each in found.jobs if each not in self._told]
        runs = [each for each in found.runs if each not in self._told]
        self._mark = replace(found.mark, at=found.mark.at - _OVERLAP)
        self._told = frozenset([*found.jobs, *found.runs])
        if not is_first and (jobs or runs or not found.is_whole):
            await self._tell(replace(found, jobs=jobs, runs=runs) if found.is_whole else None)

    async def _tell(self, changes: Changes | None) -> None:
        self._count += 1
        self._ring.append(Event(self._id(self._count), changes))
        async with self._news:
            self._news.notify_all()

    def _id(self, number: int) -> str:
        return f"{self._epoch}-{number}"

    def _place_of(self, event_id: str) -> int | None:
        """The number of an event that is still in the ring, or was the last one; None if it is not known."""
        epoch, _, number = event_id.rpartition("-")
        if epoch != self._epoch or not number.isdecimal() or len(number) > 15:
            return None
        return int(number) if self._count - len(self._ring) <= int(number) <= self._count else None

    def _after(self, told: int) -> list[Event]:
        missing = self._count - told
        return list(self._ring)[-missing:] if missing else []
