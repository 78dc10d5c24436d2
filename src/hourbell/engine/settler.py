"""The settler: it writes outcomes in batches, while the runner claims the next runs.

Outcomes wait here until they are written, however long the database is unavailable. Their number is bounded: a node
holds at most twice as many runs as it has slots, and it holds a run until its settlement is written.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from hourbell.core.job.definition import Definition
from hourbell.core.run.settle import Answer, Failed, Succeeded
from hourbell.engine.events import EngineEvents
from hourbell.engine.loop import NotAsked
from hourbell.store.base import EngineStore, LeaseKey, Saved, SettledAttempt
from hourbell.store.errors import StoreUnavailable

log = logging.getLogger("hourbell.engine")

BATCH = 1_000
_IDLE = 60.0
_SUMMARY_SECONDS = 1.0  # until the runs that got no log line are summed up
_ENOUGH = 200  # outcomes that are written without waiting for more
_GATHER = 0.005
_MAX_PAUSE_SECONDS = 2.0  # seconds


_Waiting = tuple[SettledAttempt, Definition, Any]  # the settlement, its job, and the owner's object for `on_written`


class _Gone(NamedTuple):
    """A job whose receiver is permanently gone (410 Gone)."""

    job_id: UUID
    version: int
    at: datetime
    note: str
    name: str


class Settler:
    name = "settler"

    def __init__(
        self,
        store: EngineStore,
        *,
        events: EngineEvents,
        on_slots: Callable[[], None],
        on_written: Callable[[Iterable[Any]], None],
    ) -> None:
        self.wake: Callable[[], None] = lambda: None
        self._store = store
        self._events = events
        self._on_slots = on_slots
        self._on_written = on_written
        self._waiting: list[_Waiting] = []
        self._given_up: set[LeaseKey] = set()
        self._gathered = False

    def add(self, settled: SettledAttempt, definition: Definition, active: object) -> None:
        """Queue an outcome of this job; `on_written` gets `active` once it is written."""
        self._waiting.append((settled, definition, active))
        if len(self._waiting) == 1 or len(self._waiting) == BATCH:
            self.wake()

    @property
    def is_idle(self) -> bool:
        return not self._waiting

    @property
    def given_up(self) -> frozenset[LeaseKey]:
        """Attempts whose outcome could not be written. Safe to read from another thread."""
        return frozenset(self._given_up.copy())

    async def tick(self) -> float:
        """Write a batch of waiting outcomes; return 0 if there are more."""
        if not self._waiting:
            self._events.flush()
            return NotAsked(_IDLE)
        if len(self._waiting) < _ENOUGH and not self._gathered:
            self._gathered = True
            return NotAsked(_GATHER)  # a short delay, so that more outcomes join the batch
        self._on_slots()  # the runner claims for the slots of the batch while it is written
        batch = self._waiting[:BATCH]
        saved = await self._write(batch)
        self._gathered = False
        del self._waiting[: len(batch)]
        self._on_written([active for _, _, active in batch])
        self._events.settled(batch, saved)
        self._on_slots()
        for gone in _gone_of(batch, saved):
            await self._pause(gone)
        return 0 if self._waiting else _SUMMARY_SECONDS if self._events.has_summary else _IDLE

    async def _pause(self, gone: _Gone) -> None:
        """Pause a job whose receiver is permanently gone. Errors are only logged: the next 410 tries again."""
        try:
            async with asyncio.timeout(_MAX_PAUSE_SECONDS):
                is_paused = await self._store.pause_gone(gone.job_id, gone.version, gone.at, gone.note)
        except Exception as error:
            log.warning("job_not_paused", extra={"job": gone.name, "error": str(error) or type(error).__name__})
            return
        if is_paused:
            log.warning("job_paused", extra={"job": gone.name, "note": gone.note})

    async def _write(self, batch: Sequence[_Waiting]) -> list[Saved]:
        """Write a batch of outcomes; on an error, bisect the batch to isolate the outcome that cannot be written."""
        try:
            return await self._store.settle([settled for settled, _, _ in batch])
        except StoreUnavailable:
            raise
        except Exception as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                return await self._write(batch[:middle]) + await self._write(batch[middle:])
            [(settled, _, _)] = batch
            log.exception("outcome_cannot_be_written", extra={"run": str(settled.settlement.run.id)})
            return [await self._write_plainly(settled, f"the outcome cannot be written: {error!r}")]

    async def _write_plainly(self, settled: SettledAttempt, error: str) -> Saved:
        """Write one outcome without the target's texts; if that fails, too, let its lease expire for the reaper."""
        try:
            return (await self._store.settle([_plain(settled, error)]))[0]
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("outcome_dropped", extra={"run": str(settled.settlement.run.id)})
            self._given_up.add(LeaseKey(settled.settlement.run.id, settled.settlement.attempt))
            return Saved.SUPERSEDED


def _gone_of(batch: Sequence[_Waiting], saved: Sequence[Saved]) -> list[_Gone]:
    """Return the jobs to pause, once each."""
    gone = {}
    for ((settlement, *_), definition, _), answer in zip(batch, saved, strict=True):
        note = settlement.outcome.pauses_job if isinstance(settlement.outcome, Failed) else None
        if note is not None and answer is not Saved.SUPERSEDED:
            run = settlement.run
            gone[run.job_id] = _Gone(run.job_id, run.job_version, settlement.at, note, definition.name)
    return list(gone.values())


def _plain(settled: SettledAttempt, error: str) -> SettledAttempt:
    """Return the same settlement without the result, error text and excerpt of the target."""
    outcome = settled.settlement.outcome
    if isinstance(outcome, (Succeeded, Failed)):
        answer = None if outcome.answer is None else Answer(outcome.answer.status_code)
        plain = Succeeded(answer=answer) if isinstance(outcome, Succeeded) else Failed(error, answer=answer)
        settled = settled._replace(settlement=settled.settlement._replace(outcome=plain))
    return settled._replace(error=error)
