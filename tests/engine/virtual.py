"""Virtual time: an event loop that jumps to the next timer instead of waiting for it."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

Answer = TypeVar("Answer")

# Past the clock of any machine that runs this, so that what SQLite writes by itself is never in the future. A Monday.
START = datetime(2040, 1, 2, tzinfo=UTC)

MOMENT = 1e-7  # so that a timer that is early by a rounding does not fire for ever


class _JumpingSelector(selectors.SelectSelector):
    """A selector that never waits: timeouts are added to the virtual time, plus a moment for the work in between."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if timeout is None and not ready:
            raise RuntimeError("nothing is left to happen")
        self.seconds += max(MOMENT, 0.0 if ready or timeout is None else timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self._clock_resolution = MOMENT  # less than a microsecond, and more than the rounding of a year in seconds

    def time(self) -> float:
        return self._jumping.seconds

    def block(self, seconds: float) -> None:
        self._jumping.seconds += seconds


def run_virtually(main: Callable[["VirtualTime"], Coroutine[Any, Any, Answer]]) -> Answer:
    """Run a coroutine under virtual time to its end."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main(VirtualTime(loop)))
    finally:
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        if pending:
            loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        loop.close()


class JumpingLoop(Protocol):
    def time(self) -> float: ...

    def block(self, seconds: float) -> None: ...


class VirtualTime:
    """The engine's clocks. `offset` is the database's clock error, which a test may change."""

    def __init__(self, loop: JumpingLoop) -> None:
        self._loop = loop
        self.offset = timedelta(0)

    def elapsed(self) -> float:
        return self._loop.time()

    def block(self, seconds: float) -> None:
        """Let time pass while the event loop does nothing, as a busy task does."""
        self._loop.block(seconds)

    def now(self) -> datetime:
        return START + timedelta(seconds=self._loop.time()) + self.offset
