"""Callbacks for events of runs in a rehearsal: called at once, in virtual time, without a thread."""

import asyncio
import inspect
from collections.abc import Awaitable

from hourbell.engine.run_events import EventName, RunEvent
from hourbell.library.listeners import Listener, Listeners, report_failure


class RehearsedListeners:
    """The callbacks of all schedulers that a rehearsal has loaded."""

    def __init__(self) -> None:
        self._listeners: list[Listeners] = []
        self._calls: set[asyncio.Task[None]] = set()

    def add(self, listeners: Listeners) -> None:
        if listeners not in self._listeners:
            self._listeners.append(listeners)

    @property
    def is_listening(self) -> bool:
        return any(each.is_listening for each in self._listeners)

    def wants(self, name: EventName) -> bool:
        return any(each.wants(name) for each in self._listeners)

    def notify(self, event: RunEvent) -> None:
        for listener in [listener for each in self._listeners for listener in each.of(event.name)]:
            try:
                found = listener(event)
            except Exception:
                report_failure(listener, event)
                continue
            if inspect.isawaitable(found):
                call = asyncio.ensure_future(_finish(listener, event, found))
                self._calls.add(call)
                call.add_done_callback(self._calls.discard)


async def _finish(listener: Listener, event: RunEvent, found: Awaitable[object]) -> None:
    try:
        await found
    except Exception:
        report_failure(listener, event)
