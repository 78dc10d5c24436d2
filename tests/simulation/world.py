"""Run a scenario with real engines on a real database in memory, and return its history."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import blake2b
from random import Random
from typing import Any
from uuid import UUID

from hourbell.core.access.audit_chain import SealKeys
from hourbell.core.job.definition import Definition
from hourbell.core.job.target import lane_of
from hourbell.core.run.policies import CatchUp, Delivery, Overlap, Priority, RetryPolicy
from hourbell.core.run.settle import Failed, Outcome, Succeeded
from hourbell.engine.engine import EngineSettings
from hourbell.store.control.actor import Actor
from hourbell.store.control.audit_chain import verify_chain
from hourbell.store.doctor import Expectations, examine
from hourbell.store.errors import StoreUnavailable
from hourbell.store.migrations import load_migrations
from hourbell.store.sqlite.doctor import SqliteDoctorStore
from hourbell.targets.base import Call
from tests.engine.nodes import TZDATA, Cluster, Node, hang, to_its_end
from tests.engine.virtual import START, VirtualTime
from tests.simulation.changes import Changed, Changes
from tests.simulation.ledger import ENDED, SECOND, Commit, Ledger, Violation
from tests.simulation.liveness import POLL_SECONDS, SETTLED_SECONDS, STUCK_SECONDS, Liveness, NodeView
from tests.simulation.loop import Standstill, run_seeded
from tests.simulation.oracle import microseconds
from tests.simulation.scenario import CROWDED_SLOTS, LEASE, THREADED, TROUBLE, Act, JobSpec, Scenario
from tests.sqlite_database import SqliteDatabase

BY = "simulation"
CALM = 4 * LEASE  # at most, for the last lease to run out, the reapers to warm up and the rest to be done
PLANNED = 8.0  # seconds after which no job is behind: longer than any loop backs off
STUCK_FINDINGS = frozenset({"runs_stuck", "lane_unserved", "runs_unattended", "no_live_node"})
EXPECTED = Expectations(
    migrations=load_migrations("hourbell.store.sqlite"),
    tzdata=TZDATA,
    retention=timedelta(days=1),
    lease=timedelta(seconds=LEASE),
    stuck_after=timedelta(seconds=STUCK_SECONDS - 1),
)
_READS = frozenset({"sample_time", "lanes", "definitions", "backlog"})


@dataclass
class SimulationReport:
    """The end of a simulation, and its statistics."""

    scenario: Scenario
    broken: str | None = None
    history: list[str] = field(default_factory=list)
    runs: int = 0
    effects: int = 0


@dataclass
class _Armed:
    """A fault that waits for the nth call of a verb by a node."""

    act: Act
    node: Node
    left: int

    @property
    def verb(self) -> str:
        return self.act.arguments[0]

    @property
    def fault(self) -> str:
        return self.act.arguments[1]


def simulate(scenario: Scenario) -> SimulationReport:
    """Run the scenario. Its history is always the same under one PYTHONHASHSEED."""
    report = SimulationReport(scenario)
    logging.disable(logging.CRITICAL)

    async def main(time: VirtualTime) -> None:
        time.offset = scenario.moment - START
        async with SqliteDatabase.in_memory() as database:
            world = World(scenario, Cluster(time, database), report)
            happening = asyncio.create_task(world.happen())
            try:
                await asyncio.wait([happening, world.broken], return_when=asyncio.FIRST_COMPLETED)
                await (world.broken if world.broken.done() else happening)
            finally:
                happening.cancel()
                await world.close()

    try:
        run_seeded(Random(scenario.seed), main)
    except (Violation, Standstill) as broken:
        report.broken = str(broken)
    finally:
        logging.disable(logging.NOTSET)
    return report


class World:
    def __init__(self, scenario: Scenario, cluster: Cluster, report: SimulationReport) -> None:
        self.cluster = cluster
        self._scenario = scenario
        self._report = report
        self._slots = CROWDED_SLOTS if scenario.crowd else scenario.slots
        self._changes = Changes(cluster.database.path)
        self._ledger = Ledger(
            self._changes,
            scenario.moment,
            poison_after=scenario.poison_after,
            has_excuse=self._has_excuse,
        )
        self._liveness = Liveness(self._ledger, suspect_after=max(2, scenario.poison_after - 1))
        self._doctor = SqliteDoctorStore(cluster.database.path)
        self._backlog = cluster.database.engine()
        self._instruments_at = 0.0
        self._threads_in_use: Counter[UUID] = Counter()
        self._calm = asyncio.Event()
        self._troubled_until = 0.0  # by an outage or a standstill, for all nodes
        self._started_at: dict[int, float] = {}  # elapsed seconds, by node number
        self._armed: list[_Armed] = []
        self._deliveries: list[tuple[Node, Act]] = []  # faults that wait for the next delivery of a node
        self._unwell: dict[UUID, float] = {}  # when a node was last known to be so
        self._stepped_at = self._stepped_forward_at = float("-inf")
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stopping: set[UUID] = set()
        self._later: list[asyncio.Task[None]] = []
        self._context = copy_context()  # of no node: what happens later happens whoever is dead by then
        cluster.watch = self
        cluster.has_audit_chain = True
        cluster.has_alerts = True
        cluster.latency = scenario.latency
        cluster.connections = scenario.connections
        cluster.lane_pools = dict.fromkeys(THREADED, scenario.threads)
        cluster.clock_of = self._clock_of
        cluster.before_begin.append(self._before_begin)
        cluster.script["*"] = self._deliver
        cluster.settings = EngineSettings(
            lease=timedelta(seconds=LEASE),
            reap_interval=timedelta(seconds=2),
            drain_timeout=timedelta(seconds=5),
            retention=timedelta(seconds=scenario.retention),
            keep_runs=2,
            prune_interval=timedelta(seconds=10),
            slots=self._slots,
            poison_after=scenario.poison_after,
        )

    async def happen(self) -> None:
        watching = asyncio.get_running_loop().create_task(self._watch_liveness(), context=self._context)
        try:
            await self._happen()
        finally:
            watching.cancel()

    async def _watch_liveness(self) -> None:
        """Check twice a second that nothing is stuck without a reason."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                self._check_stuck_runs(self.cluster.time.elapsed())
                await self._check_instruments()
            except Exception as error:  # a checker that broke must not look like a promise that holds
                self._break_off(error if isinstance(error, Violation) else Violation(f"the checker broke: {error!r}"))

    def _check_stuck_runs(self, elapsed: float) -> None:
        if without_thread := self.cluster.without_slot:
            raise Violation(f"liveness: claimed on a node that has no thread for it: {without_thread[0]}")
        if elapsed - self._stepped_at < SETTLED_SECONDS:
            self._liveness.forget()
            return
        self._liveness.poll(elapsed, self._now(), [self._view(node, elapsed) for node in self.cluster.alive])

    async def _check_instruments(self) -> None:
        """Check that doctor, readiness and metrics report a stuck run."""
        elapsed = self.cluster.time.elapsed()
        run = self._liveness.stuck(elapsed, self._now())
        if run is None or elapsed < self._instruments_at:
            return
        self._instruments_at = elapsed + 5.0
        now = self.cluster.now()
        examined = await examine(self._doctor, now, EXPECTED)
        if not any(finding.check.name in STUCK_FINDINGS for finding in examined.findings):
            raise Violation(f"liveness: the doctor finds nothing beside a stuck run: {run}")
        backlog = await self._backlog.backlog(now)
        if backlog.oldest_ready_at is None or now - backlog.oldest_ready_at < EXPECTED.stuck_after:
            raise Violation(f"liveness: readiness and metrics know nothing of a stuck run: {run}")

    def _view(self, node: Node, elapsed: float) -> NodeView:
        troubled_until = max(
            self._troubled_until,
            self._unwell.get(node.id, float("-inf")),
            self._started_at.get(node.number, float("inf")),
        )
        is_up = not (node.is_frozen or node.is_cut_off or node.id in self._stopping or self.cluster.is_out)
        is_healthy = is_up and elapsed - troubled_until > SETTLED_SECONDS
        threads = (self._scenario.threads, self._threads_in_use[node.id])
        return NodeView(node.id.bytes, is_healthy, self._slots, *threads)

    async def _happen(self) -> None:
        for number in range(self._scenario.nodes):
            await self._start()
            await self.cluster.advance(0.1 + 0.7 * number)
        for spec in self._scenario.all_jobs:
            await self.cluster.control.create_job(_definition(spec), _job_id(spec), Actor(BY, self.cluster.now()))
            self._commit("create")
        begun = self.cluster.time.elapsed()
        for act in self._scenario.acts:
            await self.cluster.advance(max(0.0, begun + act.at - self.cluster.time.elapsed()))
            self._report_event("act", str(act))
            await self._act(act)
        await self.cluster.advance(max(0.0, begun + TROUBLE - self.cluster.time.elapsed()))
        await self._calm_down()

    async def close(self) -> None:
        self.cluster.watch = None
        await self.cluster.close()
        await self._doctor.close()
        self._changes.close()

    async def _calm_down(self) -> None:
        """Repair everything, stop all jobs, and leave time for the remaining runs to end."""
        self._report_event("calm", "")
        self._armed.clear()
        self._deliveries.clear()
        self._calm.set()
        await asyncio.gather(*self._later)
        for node in self.cluster.alive:
            node.is_cut_off = False
            node.thaw()
        await self._start()
        await self.cluster.advance(PLANNED)
        self._ledger.hold_planned(self._now())
        for spec in self._scenario.all_jobs:
            if await self.cluster.control.get_job(_job_id(spec)) is not None:
                await self._pause(_job_id(spec))
        await self.cluster.advance(LEASE / 2)  # for those who woke up late to do what they still mean to do
        least, ends_at = self._left(), self.cluster.time.elapsed() + CALM
        while self._left() and self.cluster.time.elapsed() < ends_at:
            await self.cluster.advance(1.0)
            if self._left() < least:  # a long line of runs that go one at a time gets shorter
                least, ends_at = self._left(), self.cluster.time.elapsed() + CALM
        self._ledger.close(self._now())
        await self._hold_audit()
        self._report.runs, self._report.effects = len(self._ledger.runs), len(self._ledger.effects)

    async def _hold_audit(self) -> None:
        """Hold the nodes to one unbroken audit chain, whatever happened to them."""
        verdict = await verify_chain(self.cluster.database.audit_chain(), self._now(), SealKeys())
        if not verdict.is_intact or not verdict.rows:
            raise Violation(f"audit: {verdict.rows} rows are chained; {verdict.breaks}")

    def _left(self) -> int:
        return len(self._ledger.unfinished(self._now() + 15 * SECOND))

    # The actions.

    async def _act(self, act: Act) -> None:
        alive = [node for node in self.cluster.alive if not node.is_frozen]
        node = alive[act.node % len(alive)] if alive else None
        job_id = _job_id(self._scenario.jobs[act.job % len(self._scenario.jobs)])
        on_node: dict[str, Callable[[Node, Act], Any]] = {
            "crash": self._crash,
            "restart": self._restart,
            "freeze": lambda node, act: self._freeze(node, act.seconds),
            "cut off": self._cut_off,
            "verb": lambda node, act: self._armed.append(_Armed(act, node, int(act.arguments[2]))),
            "delivery": lambda node, act: self._deliveries.append((node, act)),
        }
        on_job: dict[str, Callable[[UUID, Act], Any]] = {
            "pause": self._pause_and_resume,
            "pause until": self._pause_until,
            "edit": self._edit,
            "retarget": self._retarget,
            "plain sql": self._plain_sql,
            "trigger": self._trigger,
            "delete": self._delete,
        }
        at_large: dict[str, Callable[[Act], Any]] = {
            "start": lambda _: self._start(),
            "outage": self._outage,
            "step": self._step,
            "stand still": self._stand_still,
            "cancel": self._cancel,
        }
        done: Any = None
        if act.what in at_large:
            done = at_large[act.what](act)
        elif act.what in on_job:
            if await self.cluster.control.get_job(job_id) is not None:
                done = on_job[act.what](job_id, act)
        elif node is not None:
            done = on_node[act.what](node, act)
        if asyncio.iscoroutine(done):
            await done

    def _do_later(self, seconds: float, do: Callable[[], Any]) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            done = do()
            if asyncio.iscoroutine(done):
                await done

        loop = asyncio.get_running_loop()
        self._later.append(loop.create_task(wait(), context=self._context))

    async def _start(self) -> None:
        """Start like a process: retry until the database answers."""
        node = self.cluster.node()
        self.cluster.alive.append(node)
        self._report_event(f"node {node.number}", "starts")
        node.spawn(self._run_up(node))
        await self.cluster.advance(0)

    async def _run_up(self, node: Node) -> None:
        while node.number not in self._started_at:
            try:
                await node.engine.start()
                self._started_at[node.number] = self.cluster.time.elapsed()
            except StoreUnavailable:
                await asyncio.sleep(1.0)

    async def _crash(self, node: Node, act: Act) -> None:
        self._die(node)
        self._do_later(act.seconds, self._start)

    def _die(self, node: Node) -> None:
        if not node.is_dead:
            self._report_event(f"node {node.number}", "dies")
            node.crash()

    async def _restart(self, node: Node, act: Act) -> None:
        if node.number not in self._started_at:
            return await self._crash(node, act)
        self._report_event(f"node {node.number}", "stops")
        self._stopping.add(node.id)
        self._unwell[node.id] = float("inf")  # nobody promises more than to try to hand back
        node.spawn(_stop(node))
        return self._do_later(act.seconds, self._start)

    def _freeze(self, node: Node, seconds: float) -> None:
        self._report_event(f"node {node.number}", f"freezes for {seconds:g} s")
        node.freeze()
        self._was_unwell(node, seconds)
        self._do_later(seconds, lambda: node.is_dead or node.thaw())

    def _cut_off(self, node: Node, act: Act) -> None:
        node.is_cut_off = True
        self._was_unwell(node, act.seconds)
        self._do_later(act.seconds, lambda: setattr(node, "is_cut_off", False))

    def _was_unwell(self, node: Node, seconds: float) -> None:
        until = self.cluster.time.elapsed() + seconds
        self._unwell[node.id] = max(until, self._unwell.get(node.id, until))

    def _has_excuse(self, owner: bytes) -> bool:
        """Return True if a node is dead or was ill since it could last renew its leases."""
        node = next((node for node in self.cluster.alive if node.id.bytes == owner), None)
        if node is None or node.is_dead:
            return True
        return self._unwell.get(node.id, float("-inf")) > self.cluster.time.elapsed() - 2 * LEASE

    def _stand_still(self, act: Act) -> None:
        self.cluster.time.block(act.seconds)
        self._troubled_until = max(self._troubled_until, self.cluster.time.elapsed())

    async def _outage(self, act: Act) -> None:
        self.cluster.is_out = True
        self._troubled_until = max(self._troubled_until, self.cluster.time.elapsed() + act.seconds)
        self._do_later(act.seconds, lambda: setattr(self.cluster, "is_out", False))

    def _step(self, act: Act) -> None:
        self.cluster.step(timedelta(seconds=act.seconds))
        self._stepped_at = self.cluster.time.elapsed()
        self._ledger.stepped(back=act.seconds < 0)
        if act.seconds > 0:
            self._stepped_forward_at = self._stepped_at

    async def _cancel(self, act: Act) -> None:
        waiting = sorted(run["id"] for run in self._ledger.runs.values() if run["state"] not in ENDED)
        if waiting:
            run_id = UUID(bytes=waiting[int(act.seconds * len(waiting))])
            await self.cluster.control.cancel_run(run_id, Actor(BY, self.cluster.now()))
            self._commit("cancel")

    async def _pause(self, job_id: UUID, **more: Any) -> None:
        options: dict[str, Any] = {"note": "", "until": None, "cancel_waiting": False} | more
        await self.cluster.control.pause_job(job_id, Actor(BY, self.cluster.now()), **options)
        self._commit("pause")

    async def _pause_and_resume(self, job_id: UUID, act: Act) -> None:
        await self._pause(job_id, cancel_waiting=act.arguments[1] == "cancel waiting")

        async def resume() -> None:
            if await self.cluster.control.get_job(job_id) is not None:
                now = self.cluster.now()
                await self.cluster.control.resume_job(job_id, Actor(BY, now), catch_up=act.arguments[0] == "catch up")
                self._commit("catch up" if act.arguments[0] == "catch up" else "resume")

        self._do_later(act.seconds, resume)

    async def _pause_until(self, job_id: UUID, act: Act) -> None:
        await self._pause(job_id, until=self.cluster.now() + timedelta(seconds=act.seconds))

    async def _edit(self, job_id: UUID, act: Act) -> None:
        schedule, overlap, catch_up = act.arguments
        changes = {"schedule": schedule, "overlap": Overlap(overlap), "catch_up": CatchUp(catch_up)}
        await self._change(job_id, **changes)

    async def _retarget(self, job_id: UUID, act: Act) -> None:
        target = {"type": "task", "name": act.arguments[0]}
        await self._change(job_id, target=target, lane=lane_of(target))

    async def _change(self, job_id: UUID, **changes: Any) -> None:
        await self.cluster.control.edit_job(
            job_id, lambda found: replace(found.definition, **changes), Actor(BY, self.cluster.now()), drop_backlog=True
        )
        self._commit("edit")

    async def _plain_sql(self, job_id: UUID, act: Act) -> None:
        await self.cluster.sql(f"update hourbell.jobs set schedule = '{act.arguments[0]}' where id = '{job_id}'")
        self._commit("plain sql")

    async def _trigger(self, job_id: UUID, act: Act) -> None:
        run_id = UUID(bytes=_digest("manual", job_id, act.at)[:16])
        await self.cluster.control.trigger_job(job_id, run_id, Actor(BY, self.cluster.now()))
        self._commit("trigger")

    async def _delete(self, job_id: UUID, _: Act) -> None:
        await self.cluster.control.delete_job(job_id, Actor(BY, self.cluster.now()))
        self._commit("delete")

    # Hooks of every verb and every delivery.

    async def before(self, node: Node, verb: str) -> None:
        armed = self._triggered(node, verb, "before")
        if armed is not None:
            await self._break(armed, node)

    async def after(self, node: Node, verb: str, answer: Any) -> None:
        if verb not in _READS:
            self._commit(verb, node)
        armed = self._triggered(node, verb, "after")
        if armed is not None and (answer or verb not in ("claim", "reap")):
            await self._break(armed, node)

    def _triggered(self, node: Node, verb: str, point: str) -> _Armed | None:
        for armed in self._armed:
            if armed.node is node and armed.verb == verb and armed.fault.endswith(point):
                armed.left -= 1
                if armed.left <= 0:
                    self._armed.remove(armed)
                    return armed
        return None

    async def _break(self, armed: _Armed, node: Node) -> None:
        fault, seconds = armed.fault.split()[0], armed.act.seconds
        self._report_event(f"node {node.number}", f"{armed.verb}: {armed.fault}")
        self._was_unwell(node, seconds)
        if fault == "fail":
            raise StoreUnavailable("as the scenario says")
        if fault == "die":
            self._die(node)
            self._do_later(1.0, self._start)
            await asyncio.get_running_loop().create_future()
        if fault == "delay":
            await asyncio.sleep(seconds)
        if fault == "freeze":
            self._freeze(node, seconds)
            await asyncio.sleep(0)

    async def _before_begin(self, node: Node, call: Call) -> None:
        await self._meddle(node, call, "before begin")

    @property
    def _is_calm(self) -> bool:
        return self._calm.is_set()

    async def _deliver(self, node: Node, call: Call) -> Outcome:
        """Deliver in a thread, which goes on whoever cancels it, or on the event loop."""
        self._leave(node, call)
        if call.run.lane not in THREADED:
            return await self._perform(node, call)
        self._threads_in_use[node.id] += 1
        try:
            return await to_its_end(self._perform(node, call))
        finally:
            self._threads_in_use[node.id] -= 1

    def _leave(self, node: Node, call: Call) -> None:
        """Let the first byte leave, in the step in which the attempt was told that it may begin."""
        run, now = call.run, self.cluster.time.elapsed()
        self._report_event(
            f"node {node.number}", f"delivers {call.definition.name} {run.scheduled_at:%H:%M:%S} #{run.attempt}"
        )
        try:
            self._ledger.effect(node.id, run.id, run.attempt, may_be_late=now - self._stepped_forward_at < 3 * LEASE)
        except Violation as violation:
            self._break_off(violation)

    async def _perform(self, node: Node, call: Call) -> Outcome:
        """Take a while, and end as the job's behaviour and the run's id say."""
        run = call.run
        await self._meddle(node, call, "first byte")
        behaviour = self._behaviour_of(call.definition.name)
        if behaviour == "kills" and not self._is_calm:
            self._die(node)
            self._do_later(0.5, self._start)
            return await hang(node, call)
        random_bytes = _digest(self._scenario.seed, run.id, run.attempt)
        if not self._is_calm and (behaviour == "slow" or random_bytes[0] < 32):
            await asyncio.sleep((0.1, 4.0, 8.0, 20.0)[random_bytes[1] % 4])
        if behaviour == "crowds" or (behaviour == "hangs" and random_bytes[3] < 64):
            await self._calm.wait()
        await self._meddle(node, call, "last byte")
        fails = behaviour == "fails" and random_bytes[2] < 128 and not self._is_calm
        self._ledger.ended(run.id, run.attempt, well=not fails)
        return Failed("bad luck") if fails else Succeeded()

    def _behaviour_of(self, name: str) -> str:
        return next(spec.behaviour for spec in self._scenario.all_jobs if spec.name == name)

    async def _meddle(self, node: Node, call: Call, point: str) -> None:
        for waiting in self._deliveries:
            if waiting[0] is node and waiting[1].arguments[0] == point:
                self._deliveries.remove(waiting)
                break
        else:
            return
        act = waiting[1]
        fault, seconds = act.arguments[1], act.seconds
        self._report_event(f"node {node.number}", f"{point} of {call.definition.name}: {fault}")
        if point == "before begin":
            self._liveness.excuse(call.run.id.bytes, call.run.attempt)
        if fault == "raise":
            raise RuntimeError("as the scenario says")
        if fault == "die":
            self._die(node)
            self._do_later(1.0, self._start)
            await hang(node, call)
        if fault == "freeze":
            self._freeze(node, seconds)
        await asyncio.sleep(seconds)

    def _commit(self, verb: str, node: Node | None = None) -> None:
        commit = Commit(node.id if node else None, verb, self._now(), self._knows_the_time(node))
        try:
            changes = self._ledger.commit(commit)
        except Exception as error:  # whatever it is, the engine's own loops must not swallow it
            self._break_off(error if isinstance(error, Violation) else Violation(f"the ledger broke: {error!r}"))
            return
        if changes is not None and (changes["runs"] or changes["skips"]):
            self._report_event(f"node {node.number}" if node else "user", f"{verb}: {_summary(changes)}")

    def _knows_the_time(self, node: Node | None) -> bool:
        """Return True if a healthy node had time to query the database since its clock was stepped."""
        known_since = max(self._stepped_at, float("-inf") if node is None else self._unwell.get(node.id, float("-inf")))
        has_stepped = self._stepped_at > float("-inf")
        return not has_stepped or self.cluster.time.elapsed() - known_since > LEASE

    def _now(self) -> int:
        return microseconds(self.cluster.now())

    def _break_off(self, violation: Violation) -> None:
        """End the simulation; whoever was at work may take a few more steps."""
        self._report_event("ledger", str(violation))
        if not self.broken.done():
            self.broken.set_exception(violation)

    def _report_event(self, who: str, what: str) -> None:
        self._report.history.append(f"{self.cluster.time.elapsed():9.4f}  {who:<8} {what}")

    def _clock_of(self, number: int) -> Callable[[], float]:
        """A node's own count of seconds: from anywhere, and not quite at the right pace."""
        drift, origin = self._scenario.drifts[number % len(self._scenario.drifts)], 1_000.0 * number
        return lambda: origin + self.cluster.time.elapsed() * (1 + drift)


async def _stop(node: Node) -> None:
    await node.engine.stop()
    await node.engine.retire()
    if node in node.cluster.alive:
        node.cluster.alive.remove(node)


def _definition(spec: JobSpec) -> Definition:
    target = {"type": "task", "name": spec.lane}
    return Definition(
        spec.name,
        spec.schedule,
        target,
        spec.timezone,
        lane=lane_of(target),
        catch_up=CatchUp(spec.catch_up),
        catch_up_window=None if spec.window is None else timedelta(seconds=spec.window),
        overlap=Overlap(spec.overlap),
        delivery=Delivery.AT_MOST_ONCE if spec.at_most_once else Delivery.AT_LEAST_ONCE,
        retry=RetryPolicy(spec.attempts, (timedelta(seconds=spec.backoff),)),
        priority=Priority(spec.priority),
        jitter=timedelta(seconds=spec.jitter),
        max_age=timedelta(seconds=spec.max_age),
        late_after=timedelta(seconds=5),
    )


def _job_id(spec: JobSpec) -> UUID:
    return UUID(bytes=_digest("job", spec.name)[:16])


def _digest(*facts: object) -> bytes:
    return blake2b(repr(facts).encode(), digest_size=16).digest()


def _summary(changes: dict[str, list[Changed]]) -> str:
    runs = [
        f"{str(UUID(bytes=change.key))[:8]} {change.op} {change.row['state']} #{change.row['attempt']}"
        for change in changes["runs"]
    ]
    skips = [f"skip {change.row['count']} {change.row['reason']}" for change in changes["skips"]]
    return ", ".join([*runs, *skips])
