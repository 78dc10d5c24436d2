"""Iteration over items that arrive in batches; the sync client takes a whole batch in one step."""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Generic, TypeVar

from hourbell.client.errors import UnexpectedAnswer

T = TypeVar("T")
MAX_LINE_BYTES = 4 * 1024 * 1024


class Batches(AsyncIterator[T], Generic[T]):
    def __init__(self, batches: AsyncGenerator[Sequence[T], None]) -> None:
        self._batches = batches
        self._ready: deque[T] = deque()

    async def __anext__(self) -> T:
        while not self._ready:
            self._ready.extend(await anext(self._batches))
        return self._ready.popleft()

    async def take(self) -> Sequence[T]:
        """Return the items that are buffered, or wait for the next batch; empty only at the end."""
        try:
            self._ready.appendleft(await anext(self))
        except StopAsyncIteration:
            return ()
        taken = tuple(self._ready)
        self._ready.clear()
        return taken

    async def aclose(self) -> None:
        await self._batches.aclose()


async def line_batches(parts: AsyncIterator[bytes]) -> AsyncGenerator[Sequence[bytes], None]:
    """Split a byte stream into lines without their line ends. An incomplete last line is dropped."""
    rest: list[bytes] = []
    size = 0  # of the rest, in bytes
    async for part in parts:
        first, *more = part.split(b"\n")
        rest.append(first)
        size += len(first)
        if size > MAX_LINE_BYTES:
            raise UnexpectedAnswer(f"The server sends a line of more than {MAX_LINE_BYTES:,} bytes.")
        if more:
            *whole, last = [b"".join(rest), *more]
            rest, size = [last], len(last)
            yield [line.removesuffix(b"\r") for line in whole]
