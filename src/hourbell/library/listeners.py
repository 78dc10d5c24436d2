"""Callbacks of a program for events of the runs that its process executes: hints, not deliveries.

A queue of limited length separates them from the engine, so a slow callback delays other callbacks and never a run.
"""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable

from hourbell.engine.run_events import EVENT_NAMES, EventName, RunEvent

log = logging.getLogger("hourbell.library")

Listener = Callable[[RunEvent], Awaitable[object] | object]

_MAX_WAITING_EVENTS = 1_000
_MAX_SECONDS = 60.0  # for one async callback
_LAST_SECONDS = 5.0  # for callbacks that wait when the scheduler stops


class Listeners:
    def __init__(self) -> None:
        self._by_event: dict[str, list[Listener]] = {}
        self._queue: asyncio.Queue[RunEvent] | None = None
        self._calling: asyncio.Task[None] | None = None
        self._dropped = 0

    def add(self, event: str, callback: Listener) -> None:
        """Add a callback; raise ValueError for an unknown event."""
        if event not in EVENT_NAMES:
            raise ValueError(f"there is no event {event!r}; use one of {', '.join(EVENT_NAMES)}")
        if not callable(callback):
            raise ValueError(f"{callback!r} is not a function; write scheduler.on({event!r}, f)")
        self._by_event.setdefault(event, []).append(callback)

    def of(self, event: str) -> tuple[Listener, ...]:
        return tuple(self._by_event.get(event, ()))

    @property
    def is_listening(self) -> bool:
        return bool(self._by_event)

    def wants(self, name: EventName) -> bool:
        return name in self._by_event

    def notify(self, event: RunEvent) -> None:
        """Queue an event; drop it if too many wait, or if the scheduler stops."""
        if self._queue is None:
            return
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self._dropped += 1

    def start(self) -> None:
        """Call the callbacks on the running event loop from now on."""
        self._dropped = 0
        self._queue = asyncio.Queue(_MAX_WAITING_EVENTS)
        self._calling = asyncio.create_task(self._call_all(self._queue), name="hourbell-listeners")

    async def stop(self) -> None:
        """Call the callbacks of waiting events, for at most a few seconds."""
        queue, self._queue = self._queue, None
        calling, self._calling = self._calling, None
        if queue is None or calling is None:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(queue.join(), _LAST_SECONDS)
        calling.cancel()
        await asyncio.wait([calling], timeout=_LAST_SECONDS)
        self._report_dropped(queue.qsize())

    async def _call_all(self, queue: asyncio.Queue[RunEvent]) -> None:
        while True:
            event = await queue.get()
            for listener in self.of(event.name):
                try:
                    async with asyncio.timeout(_MAX_SECONDS):
                        await _call(listener, event)
                except asyncio.CancelledError:
                    if _is_stopping():
                        raise
                    report_failure(listener, event)
                except (Exception, SystemExit):
                    report_failure(listener, event)
            queue.task_done()
            if queue.empty():
                self._report_dropped()

    def _report_dropped(self, more: int = 0) -> None:
        count, self._dropped = self._dropped + more, 0
        if count:
            log.warning("listener_events_dropped", extra={"count": count})


def _is_stopping() -> bool:
    """Return True if the current task was cancelled, not only something that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _call(listener: Listener, event: RunEvent) -> None:
    """Call a callback: a coroutine function on the event loop, an ordinary function in a thread."""
    called = listener if inspect.isroutine(listener) else type(listener).__call__
    if inspect.iscoroutinefunction(called):
        found = listener(event)
    else:
        found = await asyncio.to_thread(listener, event)
    if inspect.isawaitable(found):
        await found


def report_failure(listener: Listener, event: RunEvent) -> None:
    """Log the exception of a callback."""
    name = getattr(listener, "__qualname__", repr(listener))
    log.exception("listener_failed", extra={"listener": name, "event_name": event.name, "run": str(event.run_id)})
