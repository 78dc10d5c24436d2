"""One runner with its attempts, on a store that answers from a script, at a time that a test sets."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from hourbell.core.job.definition import Definition
from hourbell.core.run.run import Run
from hourbell.core.run.settle import Outcome, Succeeded, Unstarted
from hourbell.core.run.states import Kind, RunState
from hourbell.engine.attempts import ActiveAttempt, Attempts
from hourbell.engine.events import EngineEvents
from hourbell.engine.leases import Leases
from hourbell.engine.runner import Runner
from hourbell.engine.settler import Settler
from hourbell.engine.shares import Probation
from hourbell.engine.time import DatabaseClock
from hourbell.metrics import Metrics
from hourbell.store.base import EngineStore, LaneDemand, LaneWork, LeaseKey, Saved, SettledAttempt
from hourbell.targets.base import Call
from hourbell.targets.pool import Pool
from tests.core.values import DAY, T0, a_definition
from tests.engine.test_time import Elapsed

NODE = UUID(int=7)
LEASE = timedelta(seconds=60)
SUSPECT_AFTER = 2


def a_run(number: int, lane: str = "a", **more: Any) -> Run:
    """A claimed run of the job and the version of its number."""
    run_id, job_id = UUID(int=number), UUID(int=1_000_000 + number)
    run = Run(run_id, job_id, 1, Kind.SCHEDULED, T0, T0, T0 + DAY, RunState.RUNNING, lane, 1, 0, 0)
    return run._replace(**more)


@dataclass(frozen=True)
class Claim:
    """The arguments of a claim."""

    now: datetime
    lease_until: datetime
    demands: tuple[LaneDemand, ...]
    suspects: bool
    suspect_after: int

    @property
    def lanes(self) -> list[str]:
        return [demand.lane for demand in self.demands]

    @property
    def free(self) -> list[int]:
        return [demand.free for demand in self.demands]


@dataclass
class ScriptedStore:
    ready: dict[str, list[Run]] = field(default_factory=dict)  # runs that wait, by lane
    suspects: dict[str, list[Run]] = field(default_factory=dict)
    ready_at: dict[str, datetime] = field(default_factory=dict)  # of lanes that are not ready yet, or have nothing
    definition: Definition = field(default_factory=a_definition)
    trouble: dict[str, Exception] = field(default_factory=dict)  # what a verb raises
    during: dict[str, Callable[[], None]] = field(default_factory=dict)  # what happens before a verb answers
    polls: int = 0
    claims: list[Claim] = field(default_factory=list)
    versions: list[set[UUID]] = field(default_factory=list)  # jobs whose definitions were asked for
    secret_jobs: list[set[UUID]] = field(default_factory=list)  # jobs whose secrets were asked for
    begun: list[LeaseKey] = field(default_factory=list)
    may_begin: bool = True
    noted: list[tuple[Any, ...]] = field(default_factory=list)
    successes: dict[tuple[UUID, datetime], datetime] = field(default_factory=dict)
    seals: dict[tuple[UUID, int], str] = field(default_factory=dict)
    written: list[SettledAttempt] = field(default_factory=list)

    def add(self, lane: str, count: int, first: int = 1) -> None:
        """Let so many runs wait in a lane."""
        self.ready.setdefault(lane, []).extend(a_run(number, lane) for number in range(first, first + count))

    def _happens(self, verb: str) -> None:
        if verb in self.during:
            self.during[verb]()
        if verb in self.trouble:
            raise self.trouble[verb]

    async def lanes(self, now: datetime) -> list[LaneWork]:  # noqa: ARG002
        self.polls += 1
        self._happens("lanes")
        waiting = {lane: T0 for lane, runs in (*self.ready.items(), *self.suspects.items()) if runs}
        return [LaneWork(lane, ready_at) for lane, ready_at in (waiting | self.ready_at).items()]

    async def claim(
        self,
        node: UUID,
        now: datetime,
        lease_until: datetime,
        demands: Sequence[LaneDemand],
        *,
        suspects: bool,
        suspect_after: int,
    ) -> list[Run]:
        assert node == NODE
        self.claims.append(Claim(now, lease_until, tuple(demands), suspects, suspect_after))
        claimed = []
        for demand in demands:
            waiting = (self.suspects if suspects else self.ready).get(demand.lane, [])
            claimed += waiting[: demand.free]
            del waiting[: demand.free]
        self._happens("claim")
        return claimed

    async def definitions(self, versions: Collection[tuple[UUID, int]]) -> dict[tuple[UUID, int], Definition]:
        self.versions.append({job_id for job_id, _ in versions})
        self._happens("definitions")
        return dict.fromkeys(versions, self.definition)

    async def secrets(self, jobs: Collection[UUID], now: datetime) -> dict[UUID, tuple[Any, ...]]:  # noqa: ARG002
        self.secret_jobs.append(set(jobs))
        self._happens("secrets")
        return dict.fromkeys(jobs, ("sealed",))

    async def begin(self, held: LeaseKey) -> bool:
        self.begun.append(held)
        self._happens("begin")
        return self.may_begin

    async def write_notes(self, notes: Sequence[Any], now: datetime) -> None:
        self.noted.append((*notes, now))

    async def command_seal(self, job_id: UUID, version: int) -> str | None:
        return self.seals.get((job_id, version))

    async def last_success(self, job_id: UUID, before: datetime) -> datetime | None:
        return self.successes.get((job_id, before))

    async def settle(self, settled: Sequence[SettledAttempt]) -> list[Saved]:
        self.written += settled
        return [Saved.SAVED] * len(settled)


class ScriptedTarget:
    """Begins each call and hangs until the test gives the outcome."""

    def __init__(
        self,
        lanes: tuple[str, ...] = ("*",),
        *,
        lane_slots: int | None = None,
        pool: Pool | None = None,
        reads_secrets: bool = False,
    ) -> None:
        self.served = lanes
        self.lane_slots = lane_slots
        self.reads_secrets = reads_secrets
        self.pools = () if pool is None else (pool,)
        self.calls: dict[int, Call] = {}  # calls that have begun, by the number of their run
        self.answers: dict[int, Outcome | BaseException] = {}
        self.is_answered = asyncio.Event()

    def lanes(self) -> tuple[str, ...]:
        return self.served

    def slots(self, lane: str) -> int | None:  # noqa: ARG002
        return self.lane_slots

    def pool(self, lane: str) -> Pool | None:  # noqa: ARG002
        return self.pools[0] if self.pools else None

    async def deliver(self, call: Call) -> Outcome:
        if not await call.begin():
            return Unstarted()
        number = call.run.id.int
        self.calls[number] = call
        while number not in self.answers:
            await self.is_answered.wait()
        answer = self.answers[number]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def answer(self, *numbers: int, by: Outcome | BaseException | None = None) -> None:
        """Let the calls of these runs end."""
        self.answers |= dict.fromkeys(numbers, by or Succeeded())
        self.is_answered.set()
        self.is_answered = asyncio.Event()
        await turns()

    async def close(self) -> None: ...


async def turns(count: int = 5) -> None:
    """Let tasks make a few steps."""
    for _ in range(count):
        await asyncio.sleep(0)


class Claiming:
    """A runner with real attempts and a real settler. Its leases are renewed, and its clock is confirmed."""

    def __init__(
        self,
        store: ScriptedStore | None = None,
        *targets: ScriptedTarget,
        slots: int = 16,
        is_renewing: bool = True,
        transactions: Any = None,
    ) -> None:
        self.store = store or ScriptedStore()
        self.targets = targets or (ScriptedTarget(),)
        self.elapsed = Elapsed(100.0)
        self.clock = DatabaseClock(self.elapsed)
        self.clock.observe(T0, 100.0)
        self.leases = Leases(LEASE, self.elapsed)
        if is_renewing:
            self.leases.renewed(1_000_000.0)
        self.metrics = Metrics()
        self.probation = Probation(self.elapsed)
        events, store_ = EngineEvents(self.metrics, lambda: 0.0), cast(EngineStore, self.store)
        self.settler = Settler(store_, events=events, on_slots=lambda: None, on_written=self._release)
        self.released: list[str] = []
        self.attempts = Attempts(
            store_,
            self.clock,
            node=NODE,
            leases=self.leases,
            settler=self.settler,
            events=events,
            random=lambda: 0.0,
            transactions=transactions,
            probation=self.probation,
        )
        self.runner = Runner(
            store_,
            self.clock,
            self.targets,
            self.attempts,
            node=NODE,
            leases=self.leases,
            events=events,
            elapsed=self.elapsed,
            slots=slots,
            probation=self.probation,
            suspect_after=SUSPECT_AFTER,
        )

    def _release(self, written: Any) -> None:
        self.released += self.attempts.release(cast(list[ActiveAttempt], written))

    @property
    def target(self) -> ScriptedTarget:
        return self.targets[0]

    @property
    def claims(self) -> list[Claim]:
        """The claims for runs that are no suspects."""
        return [claim for claim in self.store.claims if not claim.suspects]

    async def tick(self, *, after: float = 0.0) -> float:
        self.elapsed.seconds += after
        delay = await self.runner.tick()
        await turns()
        return delay

    async def write(self) -> None:
        """Let the settler write what waits."""
        while not self.settler.is_idle:
            await self.settler.tick()
