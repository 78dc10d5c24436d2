"""Planning many jobs on SQLite: read and decide them before the transaction that writes them.

SQLite has one write transaction and no row locks. So while one batch is written, the next one is read and decided; a
write states the version, plan time and cursor of each job that it is based on. If a job has changed, or the batch has
errors or changes by plain SQL, none of it is written, and one transaction reads and plans the first due jobs instead.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from hourbell.core.job.definition import Job
from hourbell.core.run.plan import Plan
from hourbell.store.base import Planned
from hourbell.store.engine.batch import Batch
from hourbell.store.engine.due import Due
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.planning import (
    FIRST,
    REFUSED,
    DueCursor,
    DueRows,
    decided,
    find_due,
    next_plan_at,
    plan_due,
    planned,
)
from hourbell.store.sqlite.write_params import Changed, StatementParams
from hourbell.store.sqlite.writer import Executor


class PlanningAhead:
    """Plans batches concurrently. They have no job in common: each begins after the last job of the previous one."""

    def __init__(self, runner: Executor) -> None:
        self._runner = runner
        self._reading = asyncio.Lock()
        self._under_way = 0
        self._taken = FIRST  # the last job of the batches in progress

    async def plan_due(self, now: datetime, limit: int, decide: Callable[[Job, datetime], Plan]) -> Planned:
        async with self._reading:
            after = self._taken
            found, next_at = await self._runner.read(lambda session: _found(session, now, limit, after))
            if not found.count:
                return Planned(0, 0, {}, (), frozenset(), next_at)
            rows = found.rows()
            self._under_way += 1
            self._taken = DueCursor.of(rows[-1])
        try:
            await asyncio.sleep(0)  # so that the next batch is read meanwhile
            return await self._decide_and_write(found.due(rows), now, limit, decide)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._taken = FIRST

    async def _decide_and_write(
        self, due: Due, now: datetime, limit: int, decide: Callable[[Job, datetime], Plan]
    ) -> Planned:
        plans, broken = decided(due, now, decide)
        if not broken and not due.has_changes:
            with suppress(Changed, *REFUSED):  # the transaction was rolled back
                return await self._write(Batch(tuple(plans)), due, now, is_full=len(due) == limit)
        return await self._runner.write(lambda session: plan_due(session, now, limit, decide))

    async def _write(self, batch: Batch, due: Due, now: datetime, *, is_full: bool) -> Planned:
        params = StatementParams.of(batch, due.unsaved, now)

        def write(session: Session) -> Planned:
            lanes = params.write(session, by="engine", if_unchanged=True)
            return planned(session, batch, lanes, (), now, is_full=is_full)

        return await self._runner.write(write)


def _found(session: Session, now: datetime, limit: int, after: DueCursor) -> tuple[DueRows, datetime | None]:
    """Return due jobs; if there are none, also the time at which the next one is due."""
    found = find_due(session, now, limit, after)
    return found, None if found.count else next_plan_at(session)
