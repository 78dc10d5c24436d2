"""The service under test in virtual time: it advances the clock, and starts and crashes the node."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

from hourbell.engine.run_events import RunListener
from hourbell.store.sqlite.migrate import migrate
from hourbell.store.sqlite.writer import InlineExecutor
from hourbell.targets.base import Target
from hourbell.testing.horizon import LEAD
from hourbell.testing.inline import answer_of
from hourbell.testing.loop import VirtualLoop, outside_of_loops
from hourbell.testing.node import Node
from hourbell.testing.times import cut

_FIRST = datetime(2026, 1, 1, tzinfo=UTC)
_MAX_HORIZON = timedelta(days=3_650)  # beyond it, float seconds are too coarse
_BEFORE = timedelta(milliseconds=1)
_PATIENCE = 0.5  # virtual seconds in which work due at a moment is finished


@dataclass(frozen=True, slots=True)
class Outage(AbstractContextManager[None]):
    """A time range in which the service is down. As a context manager, it is down inside the block."""

    start: datetime
    end: datetime
    advance_to: Callable[[datetime], None]

    def __enter__(self) -> None:
        self.advance_to(self.start)

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            self.advance_to(self.end)


class Service:
    """The service under test. `reached` is the time a test advanced to; the clock may be milliseconds ahead."""

    def __init__(self, targets: Callable[[VirtualLoop], Sequence[Target]], listener: RunListener) -> None:
        self.database = InlineExecutor()
        answer_of(migrate(self.database))
        self.reached = _FIRST
        self._first = _FIRST
        self._loop = VirtualLoop()
        self._targets = targets
        self._listener = listener
        self._random = Random(0)
        self._outages: list[Outage] = []
        self._down_until: datetime | None = None
        self._node: Node | None = None
        self._lives = 0

    def begin_at(self, moment: datetime) -> None:
        self._first = self.reached = moment

    def now(self) -> datetime:
        """Return the virtual time in microseconds."""
        return self._first + timedelta(seconds=self._loop.time())

    def shown_now(self) -> datetime:
        """Return the virtual time as tests and their functions see it."""
        return cut(self.now()) if self._loop.is_running() else self.reached

    def advance_to(self, until: datetime) -> None:
        """Advance to a time, and run everything that is due until then and at that moment."""
        if self._loop.is_running():
            raise RuntimeError("time passes already; a function under test cannot advance it")
        if until - self._first > _MAX_HORIZON:
            raise ValueError(f"{until.isoformat()} is too far; a test may last ten years")
        with outside_of_loops():
            while self._pass_boundary(until):
                pass
            self._pass(until)
        self.reached = max(until, self.reached)

    def outage(self, start: datetime, end: datetime) -> Outage:
        if end <= start:
            raise ValueError("an outage ends after it begins")
        if start < self.reached:
            raise ValueError(f"it is {self.reached.isoformat()} already; say an outage before it begins")
        if any(start <= other.end and other.start <= end for other in self._outages):
            raise ValueError("the service is down at that time already; one outage ends before the next begins")
        outage = Outage(start, end, self.advance_to)
        self._outages = sorted([*self._outages, outage], key=lambda each: each.start)
        return outage

    def close(self) -> None:
        """Crash the node and release all resources."""
        with outside_of_loops():
            self._crash()
            answer_of(self.database.close())
            self._loop.close()

    def _pass_boundary(self, until: datetime) -> bool:
        """Advance through the next start or end of an outage; return False if there is none until then."""
        if self._down_until is not None:
            if self._down_until > until:
                return False
            self._jump(self._down_until)
            self._down_until = None
            return True
        if not self._outages or self._outages[0].start > until:
            return False
        outage = self._outages.pop(0)
        self._run(outage.start - _BEFORE)
        self._crash()
        self._jump(outage.start)
        self._down_until = outage.end
        return True

    def _pass(self, until: datetime) -> None:
        if self._down_until is None:
            self._run(until)
            self._loop.run_until_complete(self._finish())
        else:
            self._jump(until)

    def _run(self, until: datetime) -> None:
        if self._node is None:
            self._start()
        self._loop.run_until_complete(self._sleep_until(until))

    def _start(self) -> None:
        self._lives += 1
        self._node = Node(
            self._loop,
            self.database,
            self._targets(self._loop),
            node_id=UUID(int=self._lives),
            now=self.now,
            random=self._random.random,
            listener=self._listener,
        )
        self._node.start()

    def _crash(self) -> None:
        if self._node is not None:
            self._node.crash()
            self._node = None

    def _jump(self, moment: datetime) -> None:
        self._loop.jump((moment - self._first).total_seconds())

    async def _sleep_until(self, moment: datetime) -> None:
        for at in (moment - LEAD, moment):  # wake up before, so that the node has a working heartbeat
            seconds = (at - self._first).total_seconds() - self._loop.time()
            if seconds > 0:
                await asyncio.sleep(seconds)

    async def _finish(self) -> None:
        """Wait until due work is done, at most _PATIENCE (longer runs go on), and until the database is unlocked."""
        end = self._loop.time() + _PATIENCE
        node = self._node
        while node is not None and (node.has_lock or (not node.is_quiet and self._loop.time() < end)):
            await asyncio.sleep(0.01)
