"""Several nodes in one process, on one database in memory, under virtual time.

Every task of a node is driven through `_Step`, so that a node can be frozen between any two steps, as a stopped process
is, and thawed, or crash and never make another one. Nothing of the engine is replaced: its store is the real one on
SQLite, wrapped to tell virtual time, to be unreachable at will and to let a test act before or after a verb.
"""

import asyncio
import functools
import inspect
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, Protocol, TypeVar
from uuid import UUID

from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.target import lane_of
from hourbell.core.run.settle import Failed, Outcome, Succeeded, Unstarted
from hourbell.core.schedule import Schedule
from hourbell.engine.engine import Engine, EngineSettings
from hourbell.metrics import Metrics
from hourbell.store.base import Run, Wake
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import StoreUnavailable
from hourbell.store.sqlite.session import SqliteSessions
from hourbell.targets.base import Call, Target
from hourbell.targets.pool import Pool
from tests.engine.virtual import VirtualTime, run_virtually
from tests.sqlite_database import Row, SqliteDatabase

MICROSECOND, SECOND, MINUTE, HOUR, DAY = (
    timedelta(**{unit: 1}) for unit in ("microseconds", "seconds", "minutes", "hours", "days")
)
_DEFAULTS = EngineSettings()
LEASE, REAP = _DEFAULTS.lease, _DEFAULTS.reap_interval
WARM_UP = LEASE / 2  # what a reaper waits after trouble: two heartbeats
TAKEN_OVER = LEASE + REAP + SECOND  # by then a dead node's run runs again
TZDATA = "2040a"
BY = "test"
ENDED = ("succeeded", "failed", "cancelled")
_HEARTBEAT = frozenset({"sample_time", "heartbeat"})
_UNLIMITED = 1_000_000

Answer = TypeVar("Answer")
Behaviour = Callable[["Node", Call], Awaitable[Outcome]]
_NODE: ContextVar["Node | None"] = ContextVar("node", default=None)

INSERT = (
    "insert into hourbell.jobs (name, schedule, catch_up, target) "
    """values ('job', '* * * * *', 'all', '{"type":"task","name":"job"}')"""
)


class _Step(Coroutine[Any, Any, Any]):
    """A coroutine of a node: it makes no step while the node is frozen or dead."""

    def __init__(self, node: "Node", inner: Coroutine[Any, Any, Any]) -> None:
        self._node = node
        self._inner = inner
        self._thrown: BaseException | None = None

    def __await__(self) -> Any:
        raise NotImplementedError

    def send(self, value: Any) -> Any:
        if self._node.is_frozen:
            return self._node.wait_for_thaw()
        if self._thrown is not None:
            thrown, self._thrown = self._thrown, None
            return self._inner.throw(thrown)
        return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        if self._node.is_dead:
            self._inner.close()
            raise error[0]
        if self._node.is_frozen:
            self._thrown = error[0]
            return self._node.wait_for_thaw()
        return self._inner.throw(*error)

    def close(self) -> None:
        self._inner.close()


def _make_task(loop: Any, coroutine: Any, context: Context | None = None) -> asyncio.Task[Any]:
    node = context.get(_NODE) if context is not None else _NODE.get()
    if node is None:
        return asyncio.Task(coroutine, loop=loop, context=context)
    task = asyncio.Task(_Step(node, coroutine), loop=loop, context=context)
    node.tasks[task] = None
    task.add_done_callback(node.tasks.pop)
    return task


class _Store:
    """The real store of one node, into which a test injects faults.

    Its verbs share the connections of a pool, if the cluster has a limit; those of the heartbeat have one of their own.
    """

    def __init__(self, node: "Node", store: Any) -> None:
        self._node = node
        self._store = store
        self._connections = asyncio.Semaphore(node.cluster.connections or _UNLIMITED)
        self._of_heartbeat = asyncio.Semaphore(1)
        self.hooks: dict[tuple[str, str], Callable[[], Awaitable[None]]] = {}

    @property
    def hears_others(self) -> bool:
        return bool(self._store.hears_others)

    def wakes(self) -> Any:
        return self._store.wakes()

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        pool = self._of_heartbeat if verb in _HEARTBEAT else self._connections

        async def call(*arguments: Any, **named: Any) -> Any:
            async with pool:
                return await perform(*arguments, **named)

        async def perform(*arguments: Any, **named: Any) -> Any:
            cluster = self._node.cluster
            if cluster.latency:
                await asyncio.sleep(cluster.latency)
            if ("before", verb) in self.hooks:
                await self.hooks["before", verb]()
            if cluster.watch is not None:
                await cluster.watch.before(self._node, verb)
            if cluster.is_out or self._node.is_cut_off:
                raise StoreUnavailable("unreachable")
            cluster.verbs[self._node.number, verb] += 1
            if verb == "sample_time":
                answer: Any = cluster.now()
            else:
                answer = await getattr(self._store, verb)(*arguments, **named)
            if cluster.watch is not None:
                await cluster.watch.after(self._node, verb, answer)
            if ("after", verb) in self.hooks and (answer or verb != "claim"):
                await self.hooks["after", verb]()
            if cluster.is_out or self._node.is_cut_off:
                raise StoreUnavailable("the answer was lost")
            return answer

        return call


class Watch(Protocol):
    """Hook into every verb of every node, which may inject faults."""

    async def before(self, node: "Node", verb: str) -> None: ...

    async def after(self, node: "Node", verb: str, answer: Any) -> None:
        """The verb has been committed, and its answer is not back yet."""


@dataclass
class Called:
    """A call of the scripted target."""

    node: int
    job: str
    run_id: UUID
    attempt: int
    scheduled_at: datetime
    started_at: datetime
    ended_at: datetime | None = None

    @property
    def lateness(self) -> timedelta:
        return self.started_at - self.scheduled_at


class ScriptedTarget:
    """Does what the cluster's script says about the job of a call; without a word, it succeeds at once."""

    reads_secrets = False

    def __init__(self, node: "Node", lanes: tuple[str, ...], slots: dict[str, int], pools: dict[str, Pool]) -> None:
        self._node = node
        self._lanes = lanes
        self._slots = slots
        self._pools = pools
        self.pools = tuple(dict.fromkeys(pools.values()))

    def lanes(self) -> tuple[str, ...]:
        return self._lanes

    def slots(self, lane: str) -> int | None:
        return self._slots.get(lane)

    def pool(self, lane: str) -> Pool | None:
        return self._pools.get(lane)

    async def deliver(self, call: Call) -> Outcome:
        pool = self.pool(call.run.lane)
        if pool is None:
            return await self._deliver(call)
        if not pool.enter():
            self._node.cluster.without_slot.append(call.run.id)
            return Unstarted()
        try:
            return await self._deliver(call)
        finally:
            pool.leave(call)

    async def _deliver(self, call: Call) -> Outcome:
        node, cluster = self._node, self._node.cluster
        for prepare in cluster.before_begin:
            await prepare(node, call)
        if not await call.begin():
            return Unstarted()
        run, name = call.run, call.definition.name
        called = Called(node.number, name, run.id, run.attempt, run.scheduled_at, cluster.now())
        cluster.calls.append(called)
        cluster.running[name] += 1
        cluster.max_running[name] = max(cluster.max_running[name], cluster.running[name])
        try:
            behaviour = cluster.script.get(name) or cluster.script.get("*")
            return await behaviour(node, call) if behaviour else Succeeded()
        finally:
            cluster.running[name] -= 1
            called.ended_at = cluster.now()

    async def close(self) -> None: ...


class Node:
    """A node. It has a new engine, and so a new id, each time it starts."""

    def __init__(self, cluster: "Cluster", number: int, settings: EngineSettings, targets: list[Target] | None) -> None:
        self.cluster = cluster
        self.number = number
        self.tasks: dict[asyncio.Task[Any], None] = {}  # in a fixed order
        self.is_frozen = self.is_dead = self.is_cut_off = False
        self._waiting: list[asyncio.Future[None]] = []
        self._context = copy_context()
        self._context.run(_NODE.set, self)
        self.id = UUID(int=number)
        self.store: Any = _Store(self, cluster.database.engine())
        self.alerts: Any = _Store(self, cluster.database.alerts()) if cluster.has_alerts else None
        self.metrics = Metrics()
        random = Random(number)
        self.engine = Engine(
            self.store,
            targets if targets is not None else [self.scripted(cluster)],
            settings,
            node_id=self.id,
            host="here",
            tzdata=TZDATA,
            metrics=self.metrics,
            elapsed=cluster.clock_of(number),
            random=random.random,
            alerts=self.alerts,
            audit_chain=_Store(self, cluster.database.audit_chain()) if cluster.has_audit_chain else None,  # type: ignore[arg-type]
        )

    def scripted(self, cluster: "Cluster") -> ScriptedTarget:
        """A target with pools of its own: what is limited is limited on each node."""
        pools = {size: Pool(f"pool-{size}", size) for size in cluster.lane_pools.values()}
        of_lanes = {lane: pools[size] for lane, size in cluster.lane_pools.items()}
        return ScriptedTarget(self, cluster.lanes, cluster.lane_slots, of_lanes)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Let the node do something, as a task of its own."""
        return asyncio.get_running_loop().create_task(coroutine, context=self._context)

    async def stop(self) -> None:
        """Stop as on SIGTERM."""
        await self.spawn(self.engine.stop())
        await self.spawn(self.engine.retire())
        self.cluster.alive.remove(self)

    def crash(self) -> None:
        """Die as by kill -9: between two steps, silently."""
        self.is_dead = self.is_frozen = True
        self.cluster.alive.remove(self)
        for task in list(self.tasks):
            task.cancel()

    def freeze(self) -> None:
        self.is_frozen = True

    def thaw(self) -> None:
        self.is_frozen = False
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    def wait_for_thaw(self) -> asyncio.Future[None]:
        """A replacement for a task's next step that blocks; each belongs to one task, which may be cancelled."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        waiting._asyncio_future_blocking = True
        return waiting

    def before(self, verb: str, act: Callable[[], Awaitable[None]]) -> None:
        self.store.hooks["before", verb] = act

    def after(self, verb: str, act: Callable[[], Awaitable[None]]) -> None:
        """Act when a verb has been committed and its answer is not back yet; a claim, if it claimed anything."""
        self.store.hooks["after", verb] = act

    def counted(self, verb: str) -> int:
        return self.cluster.verbs[self.number, verb]


@dataclass
class _Period:
    """The instants a job has from a moment on."""

    schedule: Schedule | None
    since: datetime


class Cluster:
    """A database, the nodes on it, and what they called."""

    def __init__(self, time: VirtualTime, database: SqliteDatabase) -> None:
        self.time = time
        self.database = database
        self._runner: Any = database.runner()
        self.control = ControlStore(SqliteSessions(self._runner))
        self.settings = EngineSettings()
        self.lanes: tuple[str, ...] = ("task:*",)
        self.lane_slots: dict[str, int] = {}
        self.lane_pools: dict[str, int] = {}  # places: lanes with the same number share them, on each node
        self.without_slot: list[UUID] = []  # runs that found none, although they were claimed
        self.latency = 0.0  # seconds that each verb takes on its way
        self.connections: int | None = None  # that the verbs of a node share; None for any number
        self.is_out = False  # the database is unreachable
        self.has_alerts = False  # nodes watch for incidents
        self.has_audit_chain = False  # whether nodes chain the audit
        self.watch: Watch | None = None
        self.clock_of: Callable[[int], Callable[[], float]] = lambda number: time.elapsed  # noqa: ARG005
        self.script: dict[str, Behaviour] = {}
        self.before_begin: list[Callable[[Node, Call], Awaitable[None]]] = []
        self.calls: list[Called] = []
        self.running: Counter[str] = Counter()
        self.max_running: Counter[str] = Counter()
        self.verbs: Counter[tuple[int, str]] = Counter()
        self.alive: list[Node] = []
        self.made: list[Job] = []
        self._numbers = itertools.count(1)
        self._job_numbers = itertools.count(1_000)
        self._periods: dict[UUID, list[_Period]] = {}
        asyncio.get_running_loop().set_task_factory(_make_task)

    def now(self) -> datetime:
        """The database's time."""
        return self.time.now()

    def step(self, by: timedelta) -> None:
        """Put the database's clock forward or back."""
        self.time.offset += by

    async def advance(self, by: timedelta | float) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(by.total_seconds() if isinstance(by, timedelta) else by)

    async def advance_to(self, moment: datetime) -> None:
        await self.advance(max(timedelta(0), moment - self.now()))

    def node(self, targets: list[Target] | None = None, **settings: Any) -> Node:
        """A node that has not started."""
        return Node(self, next(self._numbers), replace(self.settings, **settings), targets)

    async def start(self, targets: list[Target] | None = None, **settings: Any) -> Node:
        node = self.node(targets, **settings)
        self.alive.append(node)
        await node.spawn(node.engine.start())
        return node

    async def start_many(self, count: int, *, apart: float = 1.7) -> list[Node]:
        """Start nodes whose heartbeats do not coincide."""
        nodes = []
        for _ in range(count):
            nodes.append(await self.start())
            await self.advance(apart)
        return nodes

    async def plan_only(self) -> None:
        """Let a node that serves no lane plan what is due."""
        lanes, self.lanes = self.lanes, ("task:of-nobody",)
        node = await self.start()
        await self.advance(2 * SECOND)
        await node.stop()
        self.lanes = lanes

    async def close(self) -> None:
        for node in list(self.alive):
            node.crash()
        await self.advance(0)

    async def add_job(
        self,
        name: str = "job",
        schedule: str = "* * * * *",
        lane: str | None = None,
        target: dict[str, Any] | None = None,
        **more: Any,
    ) -> Job:
        """A job from now on; a task of its own name unless it shares a lane or has a target."""
        target = target or {"type": "task", "name": lane or name}
        definition = Definition(name, schedule, target, lane=lane_of(target), **more)
        job = (await self.control.create_job(definition, UUID(int=next(self._job_numbers)), Actor(BY, self.now()))).job
        self._periods[job.id] = [_Period(definition.parsed(), self.now())]
        self.made.append(job)
        return job

    async def edit(self, job: Job, **changes: Any) -> Job:
        edited = (
            await self.control.edit_job(
                job.id, lambda found: replace(found.definition, **changes), Actor(BY, self.now()), drop_backlog=True
            )
        ).job
        self.begin_period(job.id, edited.definition.parsed(), edited.cursor_at)
        return edited

    def begin_period(self, job_id: UUID, schedule: Schedule | None, since: datetime | None = None) -> None:
        """From now on, or from the old version's last instant, the job has other instants, or none."""
        self._periods.setdefault(job_id, []).append(_Period(schedule, since or self.now()))

    async def pause(self, job: Job, **more: Any) -> None:
        options: dict[str, Any] = {"note": "", "until": None, "cancel_waiting": False} | more
        await self.control.pause_job(job.id, Actor(BY, self.now()), **options)

    async def resume(self, job: Job, *, catch_up: bool = False) -> None:
        await self.control.resume_job(job.id, Actor(BY, self.now()), catch_up=catch_up)

    async def trigger(self, job: Job, payload: object = None) -> Run:
        return await self.control.trigger_job(job.id, UUID(int=next(self._job_numbers)), Actor(BY, self.now()), payload)

    async def cancel(self, run_id: UUID) -> None:
        await self.control.cancel_run(run_id, Actor(BY, self.now()))

    async def sql(self, statement: str) -> None:
        """Execute SQL as a user with a SQL prompt would; a node notices the commit of another process."""
        await self.database.set_clock(self.now())
        await self.database.sql(statement)
        self._runner.hints.announce(set(Wake))

    async def rows(self, table: str, **where: Any) -> list[Row]:
        found = await self.database.rows(table)
        return [row for row in found if all(row[name] == value for name, value in where.items())]

    async def runs(self, job: Job | None = None, **where: Any) -> list[Row]:
        """Runs, the oldest instant first."""
        wanted = where if job is None else {**where, "job_id": job.id}
        return sorted(await self.rows("runs", **wanted), key=lambda row: (row["scheduled_at"], row["id"]))

    async def states(self, job: Job | None = None) -> list[str]:
        return [row["state"] for row in await self.runs(job)]

    async def attempts(self, run_id: UUID) -> list[Row]:
        return sorted(await self.rows("attempts", run_id=run_id), key=lambda row: row["number"])

    async def job_row(self, job: Job) -> Row:
        [row] = await self.rows("jobs", id=job.id)
        return row

    def calls_of(self, name: str) -> list[Called]:
        return [called for called in self.calls if called.job == name]

    def started(self, name: str = "job") -> list[datetime]:
        """Return when the target was called for a job."""
        return [called.started_at for called in self.calls_of(name)]

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Make the database unreachable for all nodes."""
        self.is_out = True
        try:
            yield
        finally:
            self.is_out = False

    async def assert_accounted(self) -> None:
        """Every instant of every job up to its cursor is one run or lies in exactly one skip, and there is no other."""
        runs: dict[bytes, list[int]] = {}
        query = "select job_id, scheduled_at from hourbell_runs where kind = 'scheduled'"
        for job_id, scheduled_at in self.database.connection.execute(query):
            runs.setdefault(job_id, []).append(scheduled_at)
        skips: dict[UUID, list[Row]] = {}
        for row in await self.rows("skips"):
            skips.setdefault(row["job_id"], []).append(row)
        for row in await self.rows("jobs"):
            periods = self._periods.get(row["id"])
            if periods is not None:
                _assert_accounted(row, periods, runs.get(row["id"].bytes, []), skips.get(row["id"], []))


def _assert_accounted(job: Row, periods: list[_Period], runs: list[int], skips: list[Row]) -> None:
    ends = [*(period.since for period in periods[1:]), job["cursor_at"] or periods[-1].since]
    due = Counter(
        _microseconds(instant)
        for period, end in zip(periods, ends, strict=True)
        if period.schedule is not None
        for instant in period.schedule.between(period.since, end)
    )
    accounted = Counter(runs)
    for skip in skips:
        first, last = _microseconds(skip["first_at"]), _microseconds(skip["last_at"])
        inside = [instant for instant in due if first <= instant <= last]
        assert len(inside) == skip["count"], f"{job['name']}: {skip}"
        accounted.update(inside)
    assert not accounted - due, f"{job['name']}: {(accounted - due).most_common(3)} too often"
    assert not due - accounted, f"{job['name']}: {(due - accounted).most_common(3)} not at all"


def _microseconds(instant: datetime) -> int:
    return int(instant.timestamp()) * 1_000_000 + instant.microsecond


def virtually(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test's coroutine under virtual time, on a database of its own."""

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        async def main(time: VirtualTime) -> None:
            async with SqliteDatabase.in_memory() as database:
                cluster = Cluster(time, database)
                try:
                    await test(cluster, **arguments)
                finally:
                    await cluster.close()

        run_virtually(main)

    parameters = list(inspect.signature(test).parameters.values())[1:]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def takes(duration: timedelta) -> Behaviour:
    """Succeed after a while."""

    async def behave(node: Node, call: Call) -> Outcome:  # noqa: ARG001
        await asyncio.sleep(duration.total_seconds())
        return Succeeded()

    return behave


def keeps_on(duration: timedelta) -> Behaviour:
    """Succeed after a while and ignore cancellation, as a function in a thread does."""

    async def behave(node: Node, call: Call) -> Outcome:  # noqa: ARG001
        await to_its_end(asyncio.sleep(duration.total_seconds()))
        return Succeeded()

    return behave


async def to_its_end(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Await work that ignores cancellation; the cancellation is raised when the work has ended."""
    working = asyncio.create_task(work)
    stopped: asyncio.CancelledError | None = None
    while not working.done():
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError as error:
            stopped = error
    if stopped is not None:
        raise stopped
    return working.result()


async def hang(node: Node, call: Call) -> Outcome:  # noqa: ARG001
    """Never end."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError


async def kill(node: Node, call: Call) -> Outcome:
    """Take the whole node down."""
    node.crash()
    return await hang(node, call)


async def fail(node: Node, call: Call) -> Outcome:  # noqa: ARG001
    return Failed("no")


async def refuse(node: Node, call: Call) -> Outcome:  # noqa: ARG001
    return Failed("never", retryable=False)


@dataclass
class Fails:
    """Fail so many times, then succeed."""

    times: int
    by_run: Counter[UUID] = field(default_factory=Counter)

    async def __call__(self, node: Node, call: Call) -> Outcome:  # noqa: ARG002
        self.by_run[call.run.id] += 1
        return Failed("not yet") if self.by_run[call.run.id] <= self.times else Succeeded()
