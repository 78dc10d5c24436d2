"""The engine of one node: it builds, starts and stops the loops.

Graceful shutdown: the planner, the reaper and the background loops stop, then the runner claims nothing more, attempts
that have begun end or are interrupted and all others are handed back, every outcome is written, and only then the
heartbeat stops.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.core.access.audit_chain import SealKeys
from hourbell.core.run.settle import POISON_AFTER, Cancelled, suspect_after
from hourbell.engine.attempts import ActiveAttempt, Attempts
from hourbell.engine.audit_chain import AuditChainer
from hourbell.engine.events import EngineEvents, OnEnded
from hourbell.engine.heartbeat import Heartbeat, HeartbeatResult, Pulse
from hourbell.engine.janitor import Janitor
from hourbell.engine.leases import Leases
from hourbell.engine.loop import Loop, LoopRunner
from hourbell.engine.outages import DatabaseReach, OutageRecorder
from hourbell.engine.planner import Planner
from hourbell.engine.reaper import Reaper
from hourbell.engine.run_events import RunListener
from hourbell.engine.runner import Runner
from hourbell.engine.settler import Settler
from hourbell.engine.shares import Probation
from hourbell.engine.time import DatabaseClock
from hourbell.engine.watcher import Watcher
from hourbell.metrics import Metrics
from hourbell.store.alerts.watching import AlertStore
from hourbell.store.base import EngineStore, Node, TransactionStore, Wake
from hourbell.store.control.audit_chain import AuditChainStore
from hourbell.store.errors import StoreUnavailable
from hourbell.targets.base import Target
from hourbell.targets.pool import Pool

log = logging.getLogger("hourbell.engine")

_NOTICED = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    lease: timedelta = timedelta(seconds=60)
    reap_interval: timedelta = timedelta(seconds=5)
    tick_interval: timedelta = timedelta(seconds=30)
    drain_timeout: timedelta = timedelta(seconds=30)
    retention: timedelta = timedelta(days=30)
    keep_runs: int = 20
    prune_interval: timedelta = timedelta(minutes=5)
    stuck_after: timedelta = timedelta(minutes=10)
    slots: int = 1_000
    poison_after: int = POISON_AFTER


class Engine:
    """One node. The caller passes the clock, the random numbers and the ids, so that a simulation can control them."""

    def __init__(
        self,
        store: EngineStore,
        targets: Sequence[Target],
        settings: EngineSettings,
        *,
        node_id: UUID,
        host: str,
        tzdata: str,
        metrics: Metrics,
        elapsed: Callable[[], float],
        random: Callable[[], float],
        heartbeat_store: EngineStore | None = None,
        transactions: TransactionStore | None = None,
        audit_chain: AuditChainStore | None = None,
        seals: SealKeys | None = None,
        alerts: AlertStore | None = None,
        listener: RunListener | None = None,
        on_ended: OnEnded | None = None,
    ) -> None:
        self._store = store
        self._targets = tuple(targets)
        self._settings = settings
        self._elapsed = elapsed
        self._node_id = node_id
        self._host = host
        self._tzdata = tzdata
        self._started_at: datetime | None = None
        self.clock = DatabaseClock(elapsed)
        self.pulse = Pulse(elapsed)
        self._leases = leases = Leases(settings.lease, elapsed)
        self._events = events = EngineEvents(metrics, elapsed, listener, on_ended)
        self.settler = Settler(store, events=events, on_slots=self._wake_runner, on_written=self._on_written)
        probation = Probation(elapsed)
        self.attempts = Attempts(
            store,
            self.clock,
            node=node_id,
            leases=leases,
            settler=self.settler,
            events=events,
            random=random,
            transactions=transactions,
            probation=probation,
        )
        self.runner = Runner(
            store,
            self.clock,
            self._targets,
            self.attempts,
            node=node_id,
            leases=leases,
            events=events,
            elapsed=elapsed,
            slots=settings.slots,
            probation=probation,
            suspect_after=suspect_after(settings.poison_after),
        )
        self._reach = reach = DatabaseReach(elapsed)
        self._outages = OutageRecorder(self.clock, reach, node_id=node_id, live_for=leases.live_for)
        self.heartbeat = Heartbeat(
            heartbeat_store or store,
            self.clock,
            node=self._node,
            leases=leases,
            held=self.attempts.held,
            given_up=lambda: self.settler.given_up,
            pulse=self.pulse,
            on_beat=self.on_beat,
            outages=self._outages,
            elapsed=elapsed,
        )
        planner = Planner(
            store,
            self.clock,
            events=events,
            on_runs=self._on_runs,
            tzdata=tzdata,
            max_sleep=settings.tick_interval,
        )
        reaper = Reaper(
            store,
            self.clock,
            events=events,
            may_reap=lambda: self.heartbeat.has_settled,
            on_runs=self._on_runs,
            interval=settings.reap_interval,
            live_for=leases.live_for,
            poison_after=settings.poison_after,
        )
        janitor = Janitor(
            store,
            self.clock,
            metrics=metrics,
            retention=settings.retention,
            keep=settings.keep_runs,
            interval=settings.prune_interval,
            stuck_after=settings.stuck_after,
            live_for=leases.live_for,
        )

        def count_database_error(loop: str) -> None:
            metrics.database_errors.labels(loop).inc()

        def looped(loop: Loop) -> LoopRunner:
            return LoopRunner(loop, elapsed=elapsed, random=random, reach=reach, on_database_error=count_database_error)

        self._planner, self._reaper = looped(planner), looped(reaper)
        self._tidying = [looped(janitor)]  # background loops that no run waits for
        if audit_chain is not None:
            chainer = AuditChainer(audit_chain, self.clock, metrics=metrics, seals=seals or SealKeys())
            self._tidying.append(looped(chainer))
        if alerts is not None:
            watcher = Watcher(
                alerts,
                store,
                self.clock,
                metrics=metrics,
                live_for=leases.live_for,
                retention=settings.retention,
                elapsed=elapsed,
            )
            self._tidying.append(looped(watcher))
        self._runner, self._settler, self.heartbeat_loop = (
            looped(self.runner),
            looped(self.settler),
            LoopRunner(
                self.heartbeat,
                elapsed=elapsed,
                random=random,
                max_backoff=self.heartbeat.max_backoff,
                reach=reach,
                on_database_error=count_database_error,
            ),
        )
        self.settler.wake = self._settler.wake.set
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_stopping = False

    @property
    def is_stopping(self) -> bool:
        """True during shutdown: the node finishes attempts that have begun, and claims nothing new."""
        return self._is_stopping

    @property
    def node_id(self) -> UUID:
        return self._node_id

    @property
    def live_for(self) -> timedelta:
        """The time after its last heartbeat for which a node counts as alive."""
        return self._leases.live_for

    @property
    def stuck_after(self) -> timedelta:
        """The time that a run may wait before it counts as stuck."""
        return self._settings.stuck_after

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The limited resources of its targets."""
        return tuple(pool for target in self._targets for pool in target.pools)

    @property
    def loops(self) -> tuple[LoopRunner, ...]:
        return (self._planner, self._runner, self._settler, self.heartbeat_loop, self._reaper, *self._tidying)

    async def start(self, *, with_heartbeat: bool = True) -> None:
        """Start the loops once two samples of the database's time agree.

        Without `with_heartbeat` the caller runs the heartbeat loop elsewhere, and has already started it.
        """
        while with_heartbeat and self.clock.confirmations < 2:
            await self.heartbeat.tick()
        while self.clock.confirmations < 2:
            await asyncio.sleep(0.01)
        started = [self._planner, self._runner, self._settler, self._reaper, *self._tidying]
        if with_heartbeat:
            started.append(self.heartbeat_loop)
        for loop in started:
            self._tasks[loop.name] = asyncio.create_task(loop.run(), name=f"hourbell-{loop.name}")
        self._tasks["pulse"] = asyncio.create_task(self._beat_pulse(), name="hourbell-pulse")
        self._tasks["wakes"] = asyncio.create_task(self._listen(), name="hourbell-wakes")
        log.info("engine_started", extra={"node": str(self._node_id), "lanes": list(self._node().lanes)})

    async def stop(self) -> None:
        """Shut down gracefully, with the drain timeout for attempts; no run is lost whatever fails meanwhile."""
        self._is_stopping = True
        log.info("engine_stopping", extra={"node": str(self._node_id)})
        for loop in (self._planner, self._reaper, *self._tidying):
            await self._end(loop)
        self._tasks["wakes"].cancel()
        self.attempts.take_no_more()
        await self._end(self._runner)
        await self.attempts.drain(self._settings.drain_timeout)
        await self._write_the_rest()
        await self._end(self._settler)
        await self._end(self.heartbeat_loop)
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=5)
        log.info("engine_stopped", extra={"node": str(self._node_id)})

    async def announce(self, now: datetime) -> None:
        """Register the node before it starts. `now` is the database's time."""
        await self._outages.before_first_beat(self._store, now)
        await self._store.heartbeat(self._node(now), now, now + self._leases.duration, ())

    async def retire(self) -> None:
        """Remove the node's registration, after its last heartbeat."""
        try:
            await self._store.retire(self._node_id)
        except StoreUnavailable:
            log.warning("node_not_retired", extra={"node": str(self._node_id)})

    def on_beat(self, result: HeartbeatResult) -> None:
        """Apply the result of a heartbeat. Runs on the engine's event loop."""
        self._leases.renewed(result.trusted_until)
        self.attempts.trust(result.renewed, result.trusted_until)
        self.attempts.stop_lost(result.lost)
        self.attempts.stop_runs(result.cancels, Cancelled())
        if result.handed_back:
            self._events.handed_back(result.handed_back)
            self.runner.rescan()
            self._wake_runner()
        if abs(result.drift) > _NOTICED:
            self._planner.wake.set()  # the time it sleeps until may be due by the corrected clock

    def _node(self, now: datetime | None = None) -> Node:
        if self._started_at is None:
            self._started_at = now or self.clock.now()
        lanes = tuple(lane for target in self._targets for lane in target.lanes())
        return Node(self._node_id, self._host, self._started_at, lanes, self._tzdata)

    def _on_runs(self, lanes: frozenset[str]) -> None:
        self.runner.hint(lanes)
        self._wake_runner()

    def _on_written(self, written: Iterable[ActiveAttempt]) -> None:
        if lanes := self.attempts.release(written):
            self.runner.hint(lanes)

    def _wake_runner(self) -> None:
        self._runner.wake.set()

    async def _listen(self) -> None:
        async for wake in self._store.wakes():
            if wake is Wake.JOBS:
                self._planner.wake.set()
            else:
                self.runner.rescan()
                self._wake_runner()

    async def _beat_pulse(self) -> None:
        while True:
            self.pulse.beat()
            await asyncio.sleep(0.5)

    async def _end(self, loop: LoopRunner) -> None:
        """Stop a loop that this engine started; a caller that runs it on another event loop stops it there."""
        task = self._tasks.pop(loop.name, None)
        if task is None:
            return
        loop.stop()
        _, unfinished = await asyncio.wait([task], timeout=5)
        if unfinished:
            task.cancel()
            await asyncio.wait([task], timeout=1)

    async def _write_the_rest(self) -> None:
        """Wait until every outcome is written, for at most five seconds."""
        end = self._elapsed() + 5.0
        while not (self.settler.is_idle and self.attempts.is_idle) and self._elapsed() < end:
            self._settler.wake.set()
            await asyncio.sleep(0.01)
