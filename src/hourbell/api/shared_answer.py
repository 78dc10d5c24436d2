"""A short-lived cache for one asynchronous call, so that frequent requests cost nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedAnswer(Generic[T]):
    """A cached call: one call runs at a time, and all callers share its result or error until it is `seconds` old."""

    def __init__(self, ask: Callable[[], Awaitable[T]], *, seconds: float, elapsed: Callable[[], float]) -> None:
        self._ask = ask
        self._seconds = seconds
        self._elapsed = elapsed
        self._asked_at = 0.0
        self._answer: asyncio.Future[T] | None = None

    async def get(self) -> T:
        answer = self._answer
        if answer is None or (answer.done() and self._elapsed() - self._asked_at >= self._seconds):
            self._asked_at = self._elapsed()
            answer = self._answer = asyncio.ensure_future(self._ask())
            answer.add_done_callback(_retrieve)
        return await asyncio.shield(answer)  # a cancelled caller must not cancel the call for the others


def _retrieve(answer: "asyncio.Future[T]") -> None:
    """Mark an error as retrieved, so that asyncio does not warn if no caller waits for it any more."""
    if not answer.cancelled():
        answer.exception()
