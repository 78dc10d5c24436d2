"""An event loop under virtual time: no sockets, no threads, no waiting.

Time jumps to the next timer, and advances by MOMENT in every iteration. An idle node still polls twice a second:
`is_housekeeping` marks such timers, and `idle_until` returns how far time may jump past them. Work that a task submits
to a thread runs at once, on the calling thread.
"""

import asyncio
import heapq
from asyncio.events import _get_running_loop, _set_running_loop
from asyncio.tasks import _enter_task, _leave_task
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import Any, NoReturn

MOMENT = 1e-7  # below 1 µs, and above the float rounding error of ten years in seconds
_MAX_LOOP_TURNS = 100_000  # per second of virtual time

is_housekeeping: ContextVar[bool] = ContextVar("is_housekeeping", default=False)


class Standstill(RuntimeError):
    """Virtual time cannot advance: a task loops without sleeping, or everything waits."""


class _Housekeeping(asyncio.TimerHandle):
    """A timer of the engine, which may fire late while there is nothing to do."""

    __slots__ = ()


class VirtualLoop(asyncio.BaseEventLoop):
    # Attributes of the base class that its type stubs lack.
    _scheduled: list[Any]
    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self._clock_resolution = MOMENT
        self._seconds = 0.0
        self._second, self._turns = 0, 0
        self.idle_until: Callable[[], float] | None = None  # in seconds of this loop; now, if there is work
        self.on_jump: Callable[[], None] | None = None  # called after a jump past housekeeping timers

    def time(self) -> float:
        return self._seconds

    def jump(self, seconds: float) -> None:
        """Advance the time without running any timer."""
        self._seconds = max(self._seconds, seconds)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        kind = _Housekeeping if is_housekeeping.get() else asyncio.TimerHandle
        timer: Any = kind(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer  # type: ignore[no-any-return]

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]  # noqa: ARG002
        """Call a sync function at once, as if no event loop ran in this thread."""
        future = self.create_future()
        try:
            with outside_of_loops():
                future.set_result(func(*args))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            future.set_exception(error)
        return future

    def _write_to_self(self) -> None:
        """Do nothing: the loop has only one thread and need not be woken up."""

    def _run_once(self) -> None:
        timers, ready = self._scheduled, self._ready
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)._scheduled = False
        if not ready and not self._stopping:
            if not timers:
                raise Standstill("everything waits for something that cannot happen under virtual time")
            self._seconds = max(self._seconds, self._next_time())
        self._seconds += MOMENT
        self._check_standstill()
        while timers and timers[0]._when <= self._seconds:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _next_time(self) -> float:
        first: asyncio.TimerHandle = self._scheduled[0]
        if self.idle_until is None or not isinstance(first, _Housekeeping):
            return first.when()
        others = (
            timer.when() for timer in self._scheduled if not isinstance(timer, _Housekeeping) and not timer.cancelled()
        )
        until = min(self.idle_until(), min(others, default=float("inf")))
        if until <= first.when():
            return first.when()
        self._seconds = until
        if self.on_jump is not None:
            self.on_jump()
        return until

    def _check_standstill(self) -> None:
        if int(self._seconds) > self._second:
            self._second, self._turns = int(self._seconds), 0
        self._turns += 1
        if self._turns > _MAX_LOOP_TURNS:
            self._turns = 0  # reset, so that the remaining tasks can be cancelled
            raise Standstill("a task runs for ever while no time passes; let it sleep in its loop")

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise RuntimeError(
            "a coroutine under virtual time cannot open connections or start processes; "
            "give the task a stand-in for what it talks to, or an ordinary function"
        )

    getaddrinfo = getnameinfo = _refuse
    create_connection = create_unix_connection = create_datagram_endpoint = _refuse
    create_server = create_unix_server = subprocess_exec = subprocess_shell = _refuse
    sock_connect = sock_accept = sock_recv = sock_sendall = _refuse
    add_reader = add_writer = _refuse  # type: ignore[assignment]


@contextmanager
def outside_of_loops() -> Iterator[None]:
    """Run a block as if this thread had no event loop, so that it may run another one, without a warning."""
    loop = _get_running_loop()
    if loop is None:
        yield
        return
    task = asyncio.current_task(loop)
    if task is not None:
        _leave_task(loop, task)
    _set_running_loop(None)
    try:
        yield
    finally:
        _set_running_loop(loop)
        if task is not None:
            _enter_task(loop, task)
