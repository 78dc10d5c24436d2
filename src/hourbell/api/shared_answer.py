"""One answer for all who ask the same at about the same time: how often they ask costs nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedAnswer(Generic[T]):
    """Asks once at a time, and gives the answer, or the error, to everybody until it is `seconds` old."""

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
        return await asyncio.shield(answer)  # whoever stops waiting takes the answer from nobody else


def _retrieve(answer: "asyncio.Future[T]") -> None:
    """Mark an error as seen: those who wait for the answer get it, and there may be none."""
    if not answer.cancelled():
        answer.exception()
