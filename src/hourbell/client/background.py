"""An event loop in a thread of its own, in which the sync front runs the async client.

It serves any number of threads, and also one that runs an event loop itself. The thread starts with the first call.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from hourbell.client.batches import Batches

T = TypeVar("T")
_CLOSED = "This client was closed; make another one."


class Background:
    def __init__(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._close_client = close
        self._lock = threading.RLock()  # the garbage collector may come in at any time, also under it
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._is_closed = False

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns or raises. Whoever is interrupted while waiting ends it."""
        try:
            future = self._submit(what)
        except BaseException:
            what.close()
            raise
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise RuntimeError(_CLOSED) from None
        finally:
            future.cancel()

    def iterate(self, source: AsyncIterator[T]) -> Iterator[T]:
        """The items as they come. Whoever leaves early ends the source."""
        try:
            while items := self.run(_next(source)):
                yield from items
        finally:
            end = _end(source)
            try:
                self._submit(end)  # not waited for: this may be the garbage collector, in any thread
            except RuntimeError:
                end.close()

    def close(self) -> None:
        """End the thread, after what it still has open is closed. Calls that wait in other threads are told so."""
        with self._lock:
            self._is_closed = True
            thread, loop, stop = self._thread, self._loop, self._stop
        if thread is None or loop is None or stop is None:
            return
        try:
            loop.call_soon_threadsafe(stop.set)
        except RuntimeError:
            return  # it has ended
        if thread is not threading.current_thread():
            thread.join()

    def _submit(self, what: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        with self._lock:
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
            return asyncio.run_coroutine_threadsafe(what, self._loop)

    def _start(self) -> None:
        is_up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(is_up)), name="hourbell", daemon=True)
        self._thread.start()
        is_up.wait()

    async def _serve(self, is_up: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        is_up.set()
        await self._stop.wait()
        await _cancel_others()
        await self._close_client()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _next(source: AsyncIterator[T]) -> Sequence[T]:
    """What comes next; empty at the end."""
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
