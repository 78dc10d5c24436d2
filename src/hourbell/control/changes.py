"""The change feed of jobs and runs: the database is polled once a second, and only while there are listeners.

Recent events are stored in a ring buffer, so that a disconnected listener can resume where it stopped, within limits.
The notifications of the database are not used: they say that something changed, not what.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hourbell.store.errors import StoreUnavailable
from hourbell.store.lists.query import ChangedIncident, ChangedJob, ChangedRun, ChangeMark, Changes
from hourbell.store.lists.reader import ListStore

_SECONDS = 1.0
_SILENCE_SECONDS = 15.0
_MAX_POLL_CHANGES = 500
_MAX_EVENTS = 300
_OVERLAP = timedelta(seconds=2)  # a commit may become visible later than the times it wrote
_AUDIT_POLLS = 4  # polls that report a deletion: at least as many as still find the versions of the deleted job


@dataclass(frozen=True, slots=True)
class Event:
    """The changes within a second; None if listeners may have missed some and should list everything again."""

    id: str
    changes: Changes | None


@dataclass(frozen=True, slots=True)
class Quiet:
    """A keep-alive without changes. A disconnected listener resumes from its id."""

    id: str


class Watch:
    """The change feed of a process. `epoch` identifies its ring buffer, so that event ids of others are rejected."""

    def __init__(self, lists: ListStore, *, now: Callable[[], datetime], epoch: str) -> None:
        self._lists = lists
        self._now = now
        self._epoch = epoch
        self._ring: deque[Event] = deque(maxlen=_MAX_EVENTS)
        self._count = 0
        self._mark: ChangeMark | None = None
        self._audit_ids: deque[int] = deque(maxlen=_AUDIT_POLLS)
        self._reported: frozenset[ChangedJob | ChangedRun | ChangedIncident] = frozenset()
        self._listeners = 0
        self._polling: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()
        self._is_closed = False
        self._missed = False

    async def listen(self, last_id: str | None = None) -> AsyncGenerator[Event | Quiet, None]:
        """Yield events after `last_id` as they happen, until the feed is closed.

        Yields `Quiet` at the beginning if there is no `last_id`, and after every fifteen seconds without changes.
        """
        self._listeners += 1
        try:
            if self._polling is None or self._polling.done():
                self._begin()
            position = self._count if last_id is None else self._position_of(last_id)
            if last_id is None:
                yield Quiet(self._id(self._count))
            while not self._is_closed:
                if position is None or self._count - position > len(self._ring):
                    position = self._count
                    yield Event(self._id(position), None)
                elif position < self._count:
                    position += 1
                    yield self._ring[position - self._count - 1]
                elif not await self._hear(position):
                    yield Quiet(self._id(position))
        finally:
            self._listeners -= 1

    @property
    def listeners(self) -> int:
        """The number of current listeners."""
        return self._listeners

    async def close(self) -> None:
        """Stop polling and end every listener."""
        self._is_closed = True
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        async with self._news:
            self._news.notify_all()

    def _begin(self) -> None:
        """Start polling. Changes while nobody listened are unknown, so earlier event ids become invalid."""
        self._mark, self._reported = None, frozenset()
        self._audit_ids.clear()
        self._ring.clear()
        self._count += 1
        if not self._is_closed:
            self._polling = asyncio.create_task(self._poll())

    async def _hear(self, position: int) -> bool:
        """Wait for an event or the end of the feed; return False after fifteen seconds without either."""
        try:
            async with asyncio.timeout(_SILENCE_SECONDS), self._news:
                return await self._news.wait_for(lambda: self._count > position or self._is_closed)
        except TimeoutError:
            return False

    async def _poll(self) -> None:
        while self._listeners:
            try:
                await self._poll_once()
            except StoreUnavailable:
                self._missed = True  # runs that end meanwhile may be written later than their timestamps
            await asyncio.sleep(_SECONDS)

    async def _poll_once(self) -> None:
        """Poll for changes once.

        Polls overlap, because a later commit may have an earlier timestamp; changes already reported are dropped.
        """
        is_first = self._mark is None
        found = await self._lists.changes(self._mark, self._now(), _MAX_POLL_CHANGES)
        jobs = [each for each in found.jobs if each not in self._reported]
        runs = [each for each in found.runs if each not in self._reported]
        incidents = [each for each in found.incidents if each not in self._reported]
        if not found.is_whole:
            self._audit_ids.clear()  # listeners list everything again, so deletions need no repeat
        self._audit_ids.append(found.mark.audit_id)
        self._mark = ChangeMark(found.mark.at - _OVERLAP, self._audit_ids[0])
        self._reported = frozenset([*found.jobs, *found.runs, *found.incidents])
        is_whole, self._missed = found.is_whole and not self._missed, False
        if not is_first and (jobs or runs or incidents or not is_whole):
            await self._publish(replace(found, jobs=jobs, runs=runs, incidents=incidents) if is_whole else None)

    async def _publish(self, changes: Changes | None) -> None:
        self._count += 1
        self._ring.append(Event(self._id(self._count), changes))
        async with self._news:
            self._news.notify_all()

    def _id(self, number: int) -> str:
        return f"{self._epoch}-{number}"

    def _position_of(self, event_id: str) -> int | None:
        """Return the number of an event that the ring still covers, or None if the id is unknown."""
        epoch, _, number = event_id.rpartition("-")
        if epoch != self._epoch or not number.isdecimal() or len(number) > 15:
            return None
        return int(number) if self._count - len(self._ring) <= int(number) <= self._count else None
