"""An event loop in a background thread, in which the sync client runs the async one.

Any number of threads may call it, including one that runs an event loop. The thread starts with the first call.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from hourbell.client.batches import Batches

T = TypeVar("T")
_CLOSED = "This client was closed; make another one."


class Background:
    def __init__(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._close_client = close
        self._lock = threading.RLock()  # reentrant: the garbage collector may call in while it is held
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._is_closed = False

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; an interrupt of the caller, such as Ctrl+C, cancels it."""
        future = self._submit(what)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise RuntimeError(_CLOSED) from None
        finally:
            future.cancel()

    def iterate(self, source: AsyncIterator[T]) -> Iterator[T]:
        """Yield the items as they arrive; close the source if the caller stops early."""
        try:
            while items := self.run(_next(source)):
                yield from items
        finally:
            with contextlib.suppress(RuntimeError):
                self._submit(_end(source))  # without waiting: the garbage collector may run this, in any thread

    def close(self) -> None:
        """Close the connections and end the thread; calls that wait in other threads raise RuntimeError."""
        with self._lock:
            self._is_closed = True
            thread, loop, stop = self._thread, self._loop, self._stop
        if thread is None or loop is None or stop is None:
            return
        try:
            loop.call_soon_threadsafe(stop.set)
        except RuntimeError:
            return  # the thread has ended
        if thread is not threading.current_thread():
            thread.join()

    def _submit(self, what: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        with self._lock:
            try:
                loop = self._running_loop()
            except BaseException:
                what.close()
                raise
            return asyncio.run_coroutine_threadsafe(what, loop)  # the loop owns it now, also if we are interrupted

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._is_closed:
            raise RuntimeError(_CLOSED)
        if self._loop is None:
            self._start()
        assert self._loop is not None
        assert self._thread is not None
        if not self._thread.is_alive():
            raise RuntimeError("A client is of no use after a fork; make one in each process.")
        if self._thread is threading.current_thread():
            raise RuntimeError("A sync client cannot be called from its own event loop.")
        return self._loop

    def _start(self) -> None:
        """Start the thread. If the start is interrupted, the thread ends, and a later call starts another one."""
        loop, stop = asyncio.new_event_loop(), asyncio.Event()

        def work() -> None:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._serve(stop))

        thread = threading.Thread(target=work, name="hourbell", daemon=True)
        try:
            thread.start()
            self._thread, self._loop, self._stop = thread, loop, stop
        except BaseException:
            loop.call_soon_threadsafe(stop.set)
            raise

    async def _serve(self, stop: asyncio.Event) -> None:
        await stop.wait()
        if stop is not self._stop:
            return
        await _cancel_others()
        await self._close_client()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _next(source: AsyncIterator[T]) -> Sequence[T]:
    """Return the next items; empty at the end."""
    if isinstance(source, Batches):
        return await source.take()
    try:
        return (await anext(source),)
    except StopAsyncIteration:
        return ()


async def _end(source: AsyncIterator[Any]) -> None:
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()
