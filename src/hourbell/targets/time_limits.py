"""Timeouts of attempts. Nearly all attempts end long before their timeout, so only an attempt that is still running
when the next scan comes gets a timer."""

import asyncio
from collections.abc import Callable
from types import TracebackType

_SCAN_SECONDS = 1.0  # seconds between scans; a limit of at most two of them gets its timer at once
_GRACE = 5.0  # seconds from the timeout to `on_overrun`


class TimeLimits:
    """The time limits of one event loop that have no timer yet, and the scan that sets their timers."""

    def __init__(self) -> None:
        self._without_timer: set[TimeLimit] = set()
        self._scan: asyncio.TimerHandle | None = None

    def begin(self, limit: "TimeLimit", loop: asyncio.AbstractEventLoop) -> None:
        if limit.seconds <= 2 * _SCAN_SECONDS:
            limit.set_timer(loop)
            return
        self._without_timer.add(limit)
        if self._scan is None:
            self._scan = loop.call_later(_SCAN_SECONDS, self._set_timers, loop)

    def end(self, limit: "TimeLimit") -> None:
        self._without_timer.discard(limit)

    def close(self) -> None:
        if self._scan is not None:
            self._scan.cancel()

    def _set_timers(self, loop: asyncio.AbstractEventLoop) -> None:
        self._scan = None
        under_way, self._without_timer = self._without_timer, set()
        for limit in under_way:
            limit.set_timer(loop)


class TimeLimit:
    """A timeout that cancels the task which entered it and then raises TimeoutError.

    asyncio.timeout does the same at four times the cost. Calls `on_overrun` once if the task ignores cancellation.
    """

    __slots__ = ("_began", "_cancelling", "_limits", "_task", "_timer", "is_over", "loop", "on_overrun", "seconds")

    def __init__(self, limits: TimeLimits, seconds: float) -> None:
        self.seconds = seconds
        self.is_over = False
        self.on_overrun: Callable[[], None] | None = None
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self.loop = loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._began = loop.time()
        self._limits.begin(self, loop)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._limits.end(self)
        self.on_overrun = None  # its owner refers to this limit: the cycle would wait for the garbage collector
        if self._timer is not None:
            self._timer.cancel()
        # Another cancellation of the task takes precedence over the timeout.
        if self.is_over and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    @property
    def elapsed(self) -> float:
        """Seconds since the limit was entered."""
        return self.loop.time() - self._began

    def set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_at(self._began + self.seconds, self._end)

    def _end(self) -> None:
        self.is_over = True
        self._timer = None if self.on_overrun is None else self.loop.call_later(_GRACE, self.on_overrun)
        self._task.cancel()
