"""Changes at random milliseconds around the instant at which a job fires, while one or two nodes plan it.

A change has one moment, which lies between the call and its answer as far as the clocks agree. What is due until this
moment belongs to the old version, what is due later to the new one. A pause or a deletion that was answered plans
nothing any more, and every instant is one run or lies in exactly one skip; those that a deletion left unplanned lie
beyond the job's cursor for ever.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest

from hourbell.control.jobs import EditOptions, Jobs
from hourbell.control.rules import Rules
from hourbell.control.secrets import Secrets
from hourbell.control.user import User
from hourbell.core.access.roles import Role
from hourbell.core.job.definition import Job
from hourbell.core.run.policies import CatchUp
from hourbell.core.schedule import Schedule
from hourbell.store.errors import Conflict
from hourbell.store.lists.query import JobView
from tests.engine.nodes import SECOND, Cluster, virtually
from tests.engine.virtual import START
from tests.sqlite_database import Row

SEEDS, JOBS = 20, 50
MILLISECOND = timedelta(milliseconds=1)
SKEW = 3 * MILLISECOND  # by which the clock of the node that is asked may be wrong
EVERY_SECOND, EVERY_OTHER = "* * * * * *", "*/2 * * * * *"
ADMIN = User("somebody", Role.ADMIN)
FIRST, LAST = START + 3 * SECOND, START + 7 * SECOND


class Line:
    """The way from control to its store: it takes some milliseconds, and notes the moment of each change."""

    def __init__(self, store: Any, random: Random) -> None:
        self._store = store
        self._random = random
        self.moments: dict[UUID, list[datetime]] = defaultdict(list)

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **named: Any) -> Any:
            await asyncio.sleep(self._random.uniform(0, 0.008))
            answer = await getattr(self._store, verb)(*arguments, **named)
            if isinstance(answer, JobView) and answer.job.cursor_at is not None:
                self.moments[answer.job.id].append(answer.job.cursor_at)
            await asyncio.sleep(self._random.uniform(0, 0.004))
            return answer

        return call


@dataclass
class Trial:
    """A change of a job, and the state when it was answered."""

    job: Job
    act: Callable[[Jobs, str], Awaitable[object]]
    asked_at: datetime
    answered_at: datetime = START
    states: dict[UUID, str] = field(default_factory=dict)


async def reschedule(jobs: Jobs, name: str) -> None:
    await jobs.patch(name, {"schedule": EVERY_OTHER}, ADMIN)


async def change_payload(jobs: Jobs, name: str) -> None:
    await jobs.patch(name, {"payload": {"new": True}}, ADMIN)


async def pause(jobs: Jobs, name: str) -> None:
    await jobs.pause(name, ADMIN)


async def pause_and_cancel(jobs: Jobs, name: str) -> None:
    await jobs.pause(name, ADMIN, cancel_waiting=True)


async def delete(jobs: Jobs, name: str) -> None:
    await jobs.delete(name, ADMIN)


EDITS = (reschedule, change_payload)
ENDS = (pause, pause_and_cancel, delete)


class World:
    """Jobs that fire every second, the nodes that plan them, and a node that is asked to change them."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self.cluster = cluster
        self.random = random
        self.line = Line(cluster.control, random)
        skew = random.uniform(-1, 1) * SKEW
        secrets = Secrets(
            cluster.database.secrets(), cluster.control, None, new_id=self._new_id, random_bytes=random.randbytes
        )
        self.jobs = Jobs(
            self.line,  # type: ignore[arg-type]
            cluster.database.lists(),
            rules=Rules(forbids=lambda _address, _port: None),
            secrets=secrets,
            now=lambda: cluster.now() + skew,
            new_id=self._new_id,
        )

    def _new_id(self) -> UUID:
        return UUID(int=self.random.getrandbits(128))

    async def run(self, nodes: int) -> list[Trial]:
        cluster, random = self.cluster, self.random
        cluster.latency = random.uniform(0, 0.004)
        await cluster.start_many(nodes, apart=0.2)
        await cluster.advance_to(FIRST - SECOND / 2)
        made = [
            await cluster.add_job(f"job-{number:02}", EVERY_SECOND, lane="all", catch_up=CatchUp.ALL)
            for number in range(JOBS)
        ]
        trials = await asyncio.gather(*(self._try(job) for job in made))
        await cluster.advance_to(LAST)
        return trials

    async def _try(self, job: Job) -> Trial:
        instant = FIRST + self.random.randrange(1, 3) * SECOND
        asked_at = instant + self.random.randrange(-25, 15) * MILLISECOND
        trial = Trial(job, self.random.choice([*EDITS, *ENDS]), asked_at)
        await self.cluster.advance_to(asked_at)
        await trial.act(self.jobs, job.definition.name)
        trial.answered_at = self.cluster.now()
        trial.states = {run["id"]: run["state"] for run in self.runs(job)}
        return trial

    def runs(self, job: Job) -> list[Row]:
        query = "select id, scheduled_at, job_version, state from hourbell_runs where job_id = ? order by scheduled_at"
        rows = self.cluster.database.connection.execute(query, (job.id.bytes,))
        return [
            {"id": UUID(bytes=run_id), "scheduled_at": _instant(at), "job_version": version, "state": state}
            for run_id, at, version, state in rows
        ]

    def moment_of(self, trial: Trial) -> datetime:
        """Return when the change was made; a deletion has no time of its own, and plans nothing."""
        found = self.line.moments[trial.job.id]
        return found[-1] if found else trial.answered_at


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("seed", range(SEEDS // 2))
def test_an_instant_belongs_to_the_version_that_was_valid_and_none_is_lost(seed: int, nodes: int) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        world = World(cluster, Random(1_000 * nodes + seed))
        trials = await world.run(nodes)

        for trial in trials:
            assert_one_moment(world, trial)
            if trial.act in ENDS:
                assert_nothing_after_the_answer(world, trial)
            elif trial.act is reschedule:
                cluster.begin_period(trial.job.id, Schedule.parse(EVERY_OTHER), world.moment_of(trial))
        assert {trial.act for trial in trials} == {*EDITS, *ENDS}
        await cluster.assert_accounted()

    test()


def assert_one_moment(world: World, trial: Trial) -> None:
    """The change parts the instants in two: the old version's, and the new one's, if it has any."""
    moment = world.moment_of(trial)
    assert trial.asked_at - SKEW <= moment <= trial.answered_at + SKEW
    for run in world.runs(trial.job):
        assert run["job_version"] == (1 if run["scheduled_at"] <= moment else 2), (trial, moment, run)
        assert run["scheduled_at"] <= moment or trial.act in EDITS, (trial, moment, run)


def assert_nothing_after_the_answer(world: World, trial: Trial) -> None:
    """Return the runs planned before the answer; and if waiting runs were to be cancelled, also claimed before it."""
    calls = world.cluster.calls_of(trial.job.definition.name)
    begun = {trial.states[called.run_id] for called in calls if called.started_at > trial.answered_at}
    assert {run["id"] for run in world.runs(trial.job)} == trial.states.keys()
    assert begun <= ({"pending", "running"} if trial.act is pause else {"running"})


@virtually
async def test_a_pause_and_a_resume_around_an_instant_leave_a_run_or_a_skip(cluster: Cluster) -> None:
    world = World(cluster, Random(7))
    world.cluster.latency = 0.002
    await cluster.start_many(2, apart=0.2)
    made = [await cluster.add_job(f"job-{n:02}", EVERY_SECOND, lane="all", catch_up=CatchUp.ALL) for n in range(JOBS)]

    async def pause_and_resume(job: Job) -> None:
        await cluster.advance_to(FIRST + world.random.randrange(-30, 10) * MILLISECOND)
        await world.jobs.pause(str(job.id), ADMIN)
        await cluster.advance(world.random.randrange(40) * MILLISECOND)
        await world.jobs.resume(str(job.id), ADMIN, catch_up=world.random.random() < 0.5)

    await asyncio.gather(*map(pause_and_resume, made))
    await cluster.advance_to(LAST)

    assert {skip["reason"] for skip in await cluster.rows("skips")} == {"paused"}
    assert all(row["cursor_at"] >= LAST - SECOND for row in await cluster.rows("jobs"))
    await cluster.assert_accounted()


@virtually
async def test_one_of_two_edits_that_expect_one_version_at_a_scheduled_time_is_made(cluster: Cluster) -> None:
    world = World(cluster, Random(8))
    await cluster.start_many(2, apart=0.2)
    made = [await cluster.add_job(f"job-{n:02}", EVERY_SECOND, lane="all", catch_up=CatchUp.ALL) for n in range(JOBS)]
    done: dict[UUID, int] = defaultdict(int)

    async def edit(job: Job, number: int) -> None:
        await cluster.advance_to(FIRST + world.random.randrange(-20, 5) * MILLISECOND)
        with suppress(Conflict):
            await world.jobs.patch(str(job.id), {"payload": number}, ADMIN, EditOptions(expect_version=1))
            done[job.id] += 1

    await asyncio.gather(*(edit(job, number) for job in made for number in (1, 2)))
    await cluster.advance_to(LAST)

    assert done == {job.id: 1 for job in made}
    assert {row["version"] for row in await cluster.rows("jobs")} == {2}
    await cluster.assert_accounted()


def _instant(microseconds: int) -> datetime:
    return datetime.fromtimestamp(0, START.tzinfo) + timedelta(microseconds=microseconds)
