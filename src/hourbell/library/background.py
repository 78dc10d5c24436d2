"""A scheduler in a background thread, for programs without an event loop.

Many servers load a program and then fork their workers. So the thread waits a moment before it starts to work; if the
process forks before that, only the children work. Each child has its own connections. A child of `multiprocessing` or
`subprocess` does not work, and its fork does not stop the parent from working.
"""

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from hourbell.library.helpers import a_helper_is_forked, is_isolated_call
from hourbell.store.errors import StoreReadOnly, StoreUnavailable

if TYPE_CHECKING:
    from hourbell.library.scheduler import Scheduler

log = logging.getLogger("hourbell.library")

T = TypeVar("T")
SETTLES = 1.0  # seconds; most servers have forked their workers by then
_TRY_AGAIN = 5.0
_MAX_STOP_SECONDS = 60.0
_MAX_WAIT_SECONDS = 15.0  # seconds for the scheduler to start; bounded, because requests wait for it


class Background:
    def __init__(self, scheduler: "Scheduler") -> None:
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._thread: _Thread | None = None
        _all.add(self)

    def start(self) -> None:
        """Start the thread, unless it runs already; it starts to work a moment later."""
        with self._lock:
            if self._thread is None or self._thread.has_ended:
                self._thread = _Thread(self._scheduler)

    def stop(self) -> None:
        """Stop the scheduler and wait for its thread, at most 60 seconds."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()
            thread.join(_MAX_STOP_SECONDS)

    @property
    def is_elsewhere(self) -> bool:
        """True if the scheduler runs in another thread than the caller's."""
        thread = self._thread
        return thread is not None and not thread.has_ended and not thread.is_current

    @property
    def has_thread(self) -> bool:
        """True from `start` to `stop`; the thread may still be connecting to the database."""
        thread = self._thread
        return thread is not None and not thread.has_ended

    def wait_for(self, what: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the scheduler's thread and return its result; raise RuntimeError if that does not run."""
        thread = self._thread
        if thread is None or thread.has_ended:
            what.close()
            raise RuntimeError("the scheduler does not run in this process; call scheduler.start() first")
        return thread.wait_for(what)

    def before_fork(self) -> None:
        self._lock.acquire()
        if self._thread is not None and not self._thread.works and not a_helper_is_forked():
            self._thread.end()  # the children will work instead

    def after_fork_in_parent(self) -> None:
        self._lock.release()

    def after_fork_in_child(self) -> None:
        self._lock = threading.Lock()
        if self._thread is None:
            return
        _inherited.append((self._thread, self._scheduler._embedded))
        self._thread = self._scheduler._embedded = None
        if not a_helper_is_forked():
            self.start()


class _Thread:
    """One thread with one event loop. It cannot be restarted."""

    def __init__(self, scheduler: "Scheduler") -> None:
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._started = threading.Event()  # set when the scheduler runs, or never will
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._reason = "it is still connecting to the database"
        self._thread = threading.Thread(target=self._work, name="hourbell", daemon=True)
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set() or not self._thread.is_alive()

    @property
    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    @property
    def works(self) -> bool:
        return self._loop is not None

    def end(self) -> None:
        """Ask the thread to end. If it does not work yet, it never will."""
        with self._lock:
            self._ended.set()
            if self._loop is not None and self._stop is not None:
                with contextlib.suppress(RuntimeError):  # the loop is closed already
                    self._loop.call_soon_threadsafe(self._stop.set)

    def join(self, timeout: float) -> None:
        if not self.is_current:
            self._thread.join(timeout)

    def wait_for(self, what: Coroutine[Any, Any, T]) -> T:
        if (why := self._why_not()) is not None:
            what.close()
            raise RuntimeError(why)
        loop = self._loop
        assert loop is not None
        future = asyncio.run_coroutine_threadsafe(what, loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise RuntimeError("the scheduler was stopped; call scheduler.start() again") from None

    def _why_not(self) -> str | None:
        """Wait until the scheduler runs; return None then, or else the reason why it cannot be called."""
        if self.is_current:
            return "async code would wait for itself; write await scheduler.trigger(…), without blocking"
        if not self._started.wait(_MAX_WAIT_SECONDS):
            return f"the scheduler has not started yet; {self._reason}"
        if self._loop is None or self.has_ended:
            return "the scheduler was stopped; call scheduler.start() again"
        return None

    def _work(self) -> None:
        try:
            if not self._ended.wait(SETTLES) and not is_isolated_call():
                self._work_and_report()
        finally:
            self._ended.set()
            self._started.set()

    def _work_and_report(self) -> None:
        from hourbell.logs import readable_messages

        with readable_messages():
            try:
                asyncio.run(self._run())
            except Exception:
                log.exception("scheduler_failed")

    async def _run(self) -> None:
        with self._lock:
            if self._ended.is_set():
                return
            self._stop = asyncio.Event()
            self._loop = asyncio.get_running_loop()
        if not await self._enter():
            return
        self._started.set()
        try:
            await self._stop.wait()
        finally:
            await self._scheduler.__aexit__(None, None, None)

    async def _enter(self) -> bool:
        """Start the scheduler as soon as the database is reachable; return False if it was stopped before that."""
        assert self._stop is not None
        while not self._stop.is_set():
            try:
                await self._scheduler.__aenter__()
            except StoreUnavailable as error:
                is_read_only = isinstance(error, StoreReadOnly)
                self._reason = str(error) if is_read_only else f"the database is unreachable: {error}"
                log.warning("scheduler_waits", extra={"reason": str(error)})
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), _TRY_AGAIN)
            else:
                return True
        return False


_all: weakref.WeakSet[Background] = weakref.WeakSet()
_inherited: list[object] = []  # connections of the parent, kept referenced: closing them here would harm it


def _each(act: Callable[[Background], None]) -> None:
    for background in list(_all):
        act(background)


def _stop_all() -> None:
    _each(Background.stop)


os.register_at_fork(
    before=lambda: _each(Background.before_fork),
    after_in_parent=lambda: _each(Background.after_fork_in_parent),
    after_in_child=lambda: _each(Background.after_fork_in_child),
)
# If Python has this hook, stop before it shuts down thread pools: running tasks need them to finish.
getattr(threading, "_register_atexit", atexit.register)(_stop_all)
