"""The planner: it turns due scheduled times into runs, and sleeps until the next job is due.

A pass is one transaction, and each of its jobs may have a backlog to plan. So the first pass after a pause takes few
jobs, and each further pass at most as many as make a short transaction.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from hourbell.core.job.definition import Job
from hourbell.core.run.plan import Plan, plan
from hourbell.engine.events import EngineEvents
from hourbell.engine.loop import NotAsked
from hourbell.engine.time import DatabaseClock
from hourbell.engine.zone_data import CHECK_EVERY, ZoneData
from hourbell.store.base import EngineStore, Planned

MAX_PASS_JOBS = 1_000
_FIRST_JOBS = 20
_MAX_PASS_RUNS = 2_000
_LINES = 3  # concurrent chains of passes, so that one is read and one decided while one is written
_IN_A_ROW = 5  # full passes in a chain, before the loop can check for shutdown
_LOCKED_ELSEWHERE = 0.1  # seconds to leave a due job to the node that holds its lock
_NOTHING = timedelta(0)
_EARLY = timedelta(milliseconds=2)  # that the planner wakes before a job is due
_MOMENT = 0.0002  # seconds; event loops with millisecond timers round it to zero
_MAX_MOMENTS = 1_000
_LONG = timedelta(seconds=1)  # a long wait for the database
_ALONE = timedelta(seconds=1)  # the max sleep while wake-ups from other processes do not arrive


class _Asked(NamedTuple):
    """The time at which a pass was requested: the database's time, and the elapsed seconds."""

    at: datetime
    elapsed: float


class _Decisions:
    """The plan function of one pass, which plans all jobs for the same time.

    That is the time of the request, or the time at which the database let the pass begin, if that is much later: a job
    that wants only the newest of its missed times must not get one run for the time before the wait and another for the
    time after it. The wait is measured in elapsed seconds, because the clock may have stepped meanwhile, and no pass
    uses a step that no second sample has confirmed.
    """

    def __init__(self, asked: _Asked, elapsed: Callable[[], float]) -> None:
        self._asked = asked
        self._elapsed = elapsed
        self._at: datetime | None = None

    def __call__(self, job: Job, _: datetime) -> Plan:
        if self._at is None:
            waited = timedelta(seconds=self._elapsed() - self._asked.elapsed)
            self._at = self._asked.at + waited if waited > _LONG else self._asked.at
        return plan(job, self._at)


class Planner:
    name = "planner"

    def __init__(
        self,
        store: EngineStore,
        clock: DatabaseClock,
        *,
        events: EngineEvents,
        on_runs: Callable[[frozenset[str]], None],
        tzdata: str,
        max_sleep: timedelta,
    ) -> None:
        self._store = store
        self._clock = clock
        self._events = events
        self._on_runs = on_runs
        self._zone_data = ZoneData(store, tzdata)
        self._max_sleep = max_sleep
        self._limit = _FIRST_JOBS
        self._next_plan_at: datetime | None = None

    async def tick(self) -> float:
        """Plan due jobs; return the seconds until the next job is due, or 0 if there are more."""
        if self._clock.confirmations < 1:
            return NotAsked(0.1)  # time has stepped: wait for a sample that confirms it
        asked = await self._instant()
        now = asked.at
        if not await self._zone_data.may_plan(now):
            return CHECK_EVERY.total_seconds()
        passes = await self._passes(asked)
        least = min(passes, key=lambda planned: planned.jobs)
        is_full = least.jobs == self._limit
        self._limit = self._limit_after(least)
        if is_full or self._zone_data.is_refreshing:
            return 0
        longest = self._max_sleep if self._store.hears_others else min(_ALONE, self._max_sleep)
        next_plan_at = min((each.next_plan_at for each in passes if each.next_plan_at is not None), default=None)
        self._next_plan_at = next_plan_at
        if next_plan_at is None:
            return longest.total_seconds()
        if next_plan_at <= now and not any(planned.jobs for planned in passes):
            return _LOCKED_ELSEWHERE
        return max(0.0, min(longest, next_plan_at - self._clock.now() - _EARLY).total_seconds())

    async def _instant(self) -> _Asked:
        """Return the current time; if the next job is due within 2 ms, wait for it: timers are late by 1 to 2 ms."""
        for _ in range(_MAX_MOMENTS):
            now = self._clock.now()
            if self._next_plan_at is None or not _NOTHING < self._next_plan_at - now <= _EARLY:
                break
            await asyncio.sleep(_MOMENT)
        return _Asked(now, self._clock.elapsed())

    async def _passes(self, asked: _Asked) -> list[Planned]:
        """Run one pass, or three concurrent chains of up to five while passes are full; return the last of each chain.

        One chain decides while the database works for the others.
        """
        lines, length = (_LINES, _IN_A_ROW) if self._limit == MAX_PASS_JOBS else (1, 1)
        ended = await asyncio.gather(*(self._line(asked, length) for _ in range(lines)), return_exceptions=True)
        passes = []
        for each in ended:
            if isinstance(each, BaseException):
                raise each
            passes.append(each)
        return passes

    async def _line(self, asked: _Asked, length: int) -> Planned:
        """Run up to `length` passes in sequence, while they are full, and return the last."""
        planned = await self._pass(asked)
        while length > 1 and planned.jobs == self._limit and planned.runs <= _MAX_PASS_RUNS:
            length -= 1
            planned = await self._pass(asked)
        return planned

    async def _pass(self, asked: _Asked) -> Planned:
        decide = _Decisions(asked, self._clock.elapsed)
        planned = await self._store.plan_due(asked.at, self._limit, decide)
        self._events.planned(planned, asked.at)
        if planned.lanes:
            self._on_runs(planned.lanes)
        return planned

    def _limit_after(self, planned: Planned) -> int:
        """Return the max number of jobs of the next pass."""
        if planned.jobs < self._limit:
            return _FIRST_JOBS
        fitting = self._limit * _MAX_PASS_RUNS // max(1, planned.runs)
        return max(1, min(MAX_PASS_JOBS, 2 * self._limit, fitting))
