"""An event loop without threads or sockets: time jumps to the next timer, and a seed decides who goes first."""

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from tests.engine.virtual import MOMENT, VirtualTime

Answer = TypeVar("Answer")


_MAX_STEPS = 20_000  # within a second of virtual time


class Standstill(Exception):
    """A task runs for ever while no virtual time passes."""


class SeededLoop(asyncio.BaseEventLoop):
    """Tasks that are ready together take their next step in an order drawn from the seed."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self._seconds = 0.0
        self._clock_resolution = MOMENT
        self._second, self._steps = 0, 0

    def time(self) -> float:
        return self._seconds

    def block(self, seconds: float) -> None:
        self._seconds += seconds

    def _write_to_self(self) -> None:
        """Do nothing: the only thread is awake."""

    def _run_once(self) -> None:
        timers, ready = self._scheduled, self._ready
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)._scheduled = False
        if not ready and not self._stopping:
            if not timers:
                raise RuntimeError("nothing is left to happen")
            self._seconds = max(self._seconds, timers[0]._when)
        self._seconds += MOMENT
        self._check_standstill()
        while timers and timers[0]._when <= self._seconds:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            ready.append(timer)
        batch = self._permuted(list(ready))
        ready.clear()
        for handle in batch:
            if not handle._cancelled:
                handle._run()

    def _check_standstill(self) -> None:
        if int(self._seconds) > self._second:
            self._second, self._steps = int(self._seconds), 0
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise Standstill(f"no time passes after {self._seconds:.3f} s")

    def _permuted(self, batch: list[asyncio.Handle]) -> list[asyncio.Handle]:
        """The steps of tasks in another order; what is not a task's step keeps its place."""
        indexes = [index for index, handle in enumerate(batch) if _is_step(handle)]
        if len(indexes) > 1:
            shuffled = indexes.copy()
            self._random.shuffle(shuffled)
            steps = [batch[index] for index in shuffled]
            for index, step in zip(indexes, steps, strict=True):
                batch[index] = step
        return batch


def _is_step(handle: asyncio.Handle) -> bool:
    return isinstance(getattr(handle._callback, "__self__", None), asyncio.Task)


def run_seeded(random: Random, main: Callable[[VirtualTime], Coroutine[Any, Any, Answer]]) -> Answer:
    """Run a coroutine to its end; what is left of its tasks makes no further step."""
    loop = SeededLoop(random)
    try:
        return loop.run_until_complete(main(VirtualTime(loop)))
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()
