"""Steps of the contract tests: small values and verbs that keep each test short."""

from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4, uuid5

import pytest

from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.target import lane_of
from hourbell.core.run.plan import Plan, plan
from hourbell.core.run.policies import CatchUp, Rank
from hourbell.core.run.run import NewRun, Run
from hourbell.core.run.settle import Outcome, Settlement, Succeeded, settle, settle_lost
from hourbell.core.schedule import Occurrence
from hourbell.store.base import EngineStore, LaneDemand, Node, Saved, SettledAttempt
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict

SECOND, MINUTE, HOUR, DAY = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))
T0 = datetime(2026, 3, 2, 9, tzinfo=UTC)
NODE, OTHER_NODE = UUID(int=1), UUID(int=2)
BY = "somebody"
PASS = 1_000  # jobs in one planning pass


def a_job(name: str = "job", schedule: str = "* * * * *", lane: str = "a", **more: Any) -> Definition:
    target = {"type": "task", "name": lane}
    return Definition(name, schedule, target, lane=lane_of(target), **more)


async def add_job(control: ControlStore, name: str = "job", *, now: datetime = T0, **more: Any) -> Job:
    """A job that fires every minute, made at T0."""
    return (await control.create_job(a_job(name, **more), uuid4(), Actor(BY, now))).job


async def add_backlog(control: ControlStore, name: str = "job", **more: Any) -> Job:
    """A job that plans every instant it missed."""
    return await add_job(control, name, catch_up=CatchUp.ALL, **more)


def new_run(job: Job, number: int = 0, *, rank: Rank = Rank.NORMAL, ready_at: datetime | None = None) -> NewRun:
    """The numbered run of a job, one for each second from T0."""
    instant = T0 + number * SECOND
    return NewRun(
        id=uuid5(job.id, str(number)),
        scheduled_at=instant,
        local_at=instant.replace(tzinfo=None),
        ready_at=ready_at or instant,
        expires_at=instant + job.definition.max_age,
        rank=rank,
    )


def occurrence(at: datetime) -> Occurrence:
    """An instant of a schedule in UTC."""
    return Occurrence(at, at.replace(tzinfo=None), shifted=False, fold=0)


async def put_runs(store: EngineStore, job: Job, runs: Iterable[NewRun]) -> None:
    """Plan just these runs of a job, and nothing afterwards."""
    new = tuple(runs)

    def decide(due: Job, _: datetime) -> Plan:
        if due.id != job.id:
            return Plan(due, due.cursor_at, due.next_at, due.plan_at)
        return Plan(due, due.cursor_at, None, None, runs=new)

    assert job.plan_at is not None
    await store.plan_due(job.plan_at, PASS, decide)


async def a_waiting_job(
    store: EngineStore, control: ControlStore, name: str = "job", count: int = 1, **more: Any
) -> Job:
    """A job with this many runs waiting since T0."""
    job = await add_job(control, name, **more)
    await put_runs(store, job, [new_run(job, number) for number in range(count)])
    return job


async def plan_all(store: EngineStore, now: datetime) -> None:
    """Plan until nothing is due."""
    while (await store.plan_due(now, PASS, plan)).jobs:
        pass


async def claim(
    store: EngineStore, *, node: UUID = NODE, now: datetime = T0 + HOUR, lane: str = "a", free: int = 1, oldest: int = 0
) -> list[Run]:
    """Claim from one lane, for a minute."""
    return await store.claim(node, now, now + MINUTE, [LaneDemand(f"task:{lane}", free, oldest)])


async def claim_suspect(store: EngineStore, *, node: UUID = NODE, now: datetime = T0 + HOUR) -> list[Run]:
    return await store.claim(node, now, now + MINUTE, [LaneDemand("task:a", 10)], suspects=True)


def settled(run: Run, outcome: Outcome | None = None, now: datetime = T0 + HOUR, node: UUID = NODE) -> SettledAttempt:
    """An outcome with its attempt, as a node writes it; a success by default."""
    outcome = outcome or Succeeded()
    return SettledAttempt(settle(run, outcome, now, a_job().retry), node, now)


async def finish(
    store: EngineStore,
    runs: Sequence[Run],
    outcome: Outcome | None = None,
    now: datetime = T0 + HOUR,
    begun_at: datetime | None = None,
) -> None:
    """Settle attempts that began at this moment, or just now."""
    ended = [settled(run, outcome, now)._replace(started_at=begun_at or now) for run in runs]
    answers = await store.settle(ended)
    assert answers == [Saved.SAVED] * len(runs)


async def run_and_finish(store: EngineStore, *, count: int = 1, now: datetime = T0 + HOUR) -> list[Run]:
    """Claim runs and let them succeed."""
    runs = await claim(store, free=count, now=now)
    await finish(store, runs, now=now)
    return runs


async def lose(store: EngineStore, now: datetime) -> list[Settlement]:
    """Reap what expired until now."""
    return await store.reap(now, 1_000, settle_lost)


async def crash(store: EngineStore, times: int) -> datetime:
    """Let nodes die under the lane's first run; the moment of the last reaping."""
    now = T0 + HOUR
    for _ in range(times):
        runs = await claim(store, now=now) or await claim_suspect(store, now=now)
        assert len(runs) == 1
        now += 2 * MINUTE
        await lose(store, now)
    return now


async def refusal(change: Awaitable[object]) -> str:
    """The code of the conflict that a change ends in."""
    with pytest.raises(Conflict) as caught:
        await change
    return caught.value.code


def a_node(*lanes: str, node: UUID = NODE) -> Node:
    return Node(node, "here", T0, lanes, "2026a")


def changed(job: Job, **changes: Any) -> Definition:
    return replace(job.definition, **changes)
