"""The jobs that programs define: synchronized, left alone if others own them, retired when no live node has them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from hourbell.control.programs import UNDEFINED_NOTE, Programs, UndefinedAction
from hourbell.core.job.definition import Definition
from hourbell.store.base import EngineStore, Node
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import StoreUnavailable
from hourbell.targets.task import Task
from tests.contract.steps import BY, HOUR, MINUTE, T0, a_job, add_job, plan_all
from tests.contract.test_doctor import examined
from tests.database import Database

pytestmark = pytest.mark.anyio


@dataclass
class AProgram:
    jobs: Mapping[str, Definition]
    source: str = "shop"
    undefined_jobs: UndefinedAction = UndefinedAction.PAUSE
    tasks: Mapping[str, Task] = field(default_factory=dict)


def a_program(
    *names: str,
    schedule: str = "@hourly",
    undefined_jobs: UndefinedAction = UndefinedAction.PAUSE,
    source: str = "shop",
) -> AProgram:
    jobs = {name: a_job(name, schedule, managed_by="code", source=source) for name in names}
    return AProgram(jobs, source, undefined_jobs)


@dataclass
class Deployed:
    """Programs on one database, at a time that tests move."""

    database: Database
    now: datetime = T0
    is_out: bool = False

    @property
    def control(self) -> ControlStore:
        return self.database.control()

    async def start(self, program: AProgram) -> UUID:
        """Start a node of a program as a process does."""
        return (await self.started(program)).node_id

    async def started(self, program: AProgram) -> "Started":
        node_id = uuid4()
        programs = self.programs
        await self.beat(node_id, program)
        await programs.announce(program, node_id)
        started = Started(self, program, programs, node_id, await programs.sync(program, self.now))
        await programs.retire_undefined(program, node_id)
        return started

    async def beat(self, node_id: UUID, program: AProgram | None = None) -> None:
        engine: EngineStore = self.database.engine()
        lanes = tuple(f"task:{name}" for name in program.tasks) if program else ()
        await engine.heartbeat(Node(node_id, "host", self.now, lanes, "2026a"), self.now, self.now + MINUTE, ())

    @property
    def programs(self) -> Programs:
        return Programs(cast(ControlStore, _Reached(self)), now=lambda: self.now, new_id=uuid4)

    async def states(self, *names: str) -> dict[str, str]:
        found = {name: await self.control.get_job(name) for name in names}
        return {
            name: "none" if job is None else "active" if job.definition.enabled else "paused"
            for name, job in found.items()
        }


class _Reached:
    """The real store, which may become unreachable."""

    def __init__(self, deployed: Deployed) -> None:
        self._deployed = deployed
        self._store = deployed.control

    def __getattr__(self, verb: str) -> Any:
        if self._deployed.is_out:
            raise StoreUnavailable("unreachable")
        return getattr(self._store, verb)


@dataclass
class Started:
    """A node of a program that runs."""

    deployed: Deployed
    program: AProgram
    programs: Programs
    node_id: UUID
    is_whole: bool

    async def rescan(self) -> bool:
        """Send a heartbeat, and try again to synchronize refused jobs."""
        await self.deployed.beat(self.node_id, self.program)
        self.is_whole = self.is_whole or await self.programs.sync(self.program, self.deployed.now)
        return self.is_whole

    async def stop(self) -> None:
        await self.deployed.database.engine().retire(self.node_id)


@pytest.fixture
def deployed(database: Database) -> Deployed:
    return Deployed(database)


async def test_jobs_are_made_changed_and_then_left_alone(deployed: Deployed) -> None:
    await deployed.programs.sync(a_program("a", "b"), deployed.now)
    await deployed.programs.sync(a_program("a", "b", schedule="@daily"), deployed.now)
    assert await deployed.programs.sync(a_program("a", "b", schedule="@daily"), deployed.now)

    job = await deployed.control.get_job("a")
    assert job is not None
    assert (job.version, job.definition.schedule, job.definition.managed_by) == (2, "@daily", "code")


async def test_a_job_of_another_owner_is_not_taken_and_the_others_are_synchronized(
    deployed: Deployed, caplog: pytest.LogCaptureFixture
) -> None:
    await add_job(deployed.control, "theirs")

    assert not await deployed.programs.sync(a_program("theirs", "ours"), deployed.now)

    theirs = await deployed.control.get_job("theirs")
    assert theirs is not None
    assert theirs.definition.managed_by == "api"
    assert await deployed.states("ours") == {"ours": "active"}
    assert "job_owned_by_another" in caplog.messages


async def test_a_job_that_is_renamed_is_paused_under_its_old_name(deployed: Deployed) -> None:
    old = await deployed.start(a_program("old"))
    await deployed.database.engine().retire(old)

    await deployed.start(a_program("new"))

    view = await deployed.database.lists().job("old")
    assert view is not None
    assert (view.paused_note, view.paused_by) == (UNDEFINED_NOTE, "code:shop")
    assert await deployed.states("old", "new") == {"old": "paused", "new": "active"}


async def test_during_a_rolling_deploy_no_job_that_a_live_node_defines_is_retired(deployed: Deployed) -> None:
    old = await deployed.start(a_program("a", "b"))
    new = await deployed.start(a_program("a"))
    assert await deployed.states("a", "b") == {"a": "active", "b": "active"}

    programs = deployed.programs
    await programs.retire_undefined(a_program("a"), new)
    deployed.now += HOUR  # the old node has sent no heartbeat for long
    await deployed.beat(new)
    await programs.retire_undefined(a_program("a"), new)
    assert await deployed.states("a", "b") == {"a": "active", "b": "active"}

    await programs.retire_undefined(a_program("a"), new)
    assert old != new
    assert await deployed.states("a", "b") == {"a": "active", "b": "paused"}


async def test_after_an_outage_no_job_is_retired_because_heartbeats_are_missing(deployed: Deployed) -> None:
    one, other = await deployed.start(a_program("a")), await deployed.start(a_program("a", "b"))
    programs = deployed.programs
    await programs.retire_undefined(a_program("a"), one)

    deployed.now += HOUR
    await programs.retire_undefined(a_program("a"), one)
    await deployed.beat(other)
    await programs.retire_undefined(a_program("a"), one)

    assert await deployed.states("a", "b") == {"a": "active", "b": "active"}


async def test_a_job_that_is_defined_again_resumes_but_an_operators_pause_stays(deployed: Deployed) -> None:
    first = await deployed.start(a_program("a", "b"))
    operators = await deployed.control.get_job("a")
    assert operators is not None
    await deployed.control.pause_job(operators.id, Actor(BY, T0), note="", until=None, cancel_waiting=False)
    await deployed.database.engine().retire(first)
    await deployed.start(a_program())
    assert await deployed.states("a", "b") == {"a": "paused", "b": "paused"}

    await deployed.programs.sync(a_program("a", "b"), deployed.now)

    assert await deployed.states("a", "b") == {"a": "paused", "b": "active"}


async def test_a_job_defined_again_does_not_fire_for_the_time_between(deployed: Deployed) -> None:
    first = await deployed.start(a_program("old", schedule="* * * * *"))
    deployed.now += MINUTE
    await plan_all(deployed.database.engine(), deployed.now)  # by a node that has not the task
    await deployed.database.engine().retire(first)
    deployed.now += HOUR
    await deployed.start(a_program())
    deployed.now += HOUR
    await deployed.start(a_program("old", schedule="* * * * *"))

    assert [run["state"] for run in await deployed.database.rows("runs")] == ["cancelled"]
    assert {skip["reason"] for skip in await deployed.database.rows("skips")} == {"paused"}
    assert sum(skip["count"] for skip in await deployed.database.rows("skips")) == 120


async def test_undefined_jobs_are_retired_before_the_new_program_plans(deployed: Deployed) -> None:
    first = await deployed.start(a_program("old", schedule="* * * * *"))
    await deployed.database.engine().retire(first)
    deployed.now += HOUR

    await deployed.programs.sync(a_program("new"), deployed.now)
    await plan_all(deployed.database.engine(), deployed.now)

    assert await deployed.database.rows("runs") == []
    assert [(skip["reason"], skip["count"]) for skip in await deployed.database.rows("skips")] == [("paused", 60)]


async def test_a_process_that_runs_nothing_takes_nothing_out_of_use(deployed: Deployed) -> None:
    first = await deployed.start(a_program("old"))
    await deployed.database.engine().retire(first)

    await deployed.programs.store_jobs(a_program("new"), deployed.now)

    assert await deployed.states("old", "new") == {"old": "active", "new": "active"}


async def test_waiting_runs_continue_while_the_program_still_has_the_task(deployed: Deployed) -> None:
    old = a_program("old", schedule="* * * * *")
    first = await deployed.start(old)
    deployed.now += MINUTE
    await plan_all(deployed.database.engine(), deployed.now)
    await deployed.database.engine().retire(first)

    await deployed.start(replace(a_program("renamed"), tasks={"a": Task("a", print)}))

    assert [run["state"] for run in await deployed.database.rows("runs")] == ["pending"]
    assert await deployed.states("old") == {"old": "paused"}


@pytest.mark.parametrize(
    ("undefined_jobs", "state"),
    [(UndefinedAction.DELETE, "none"), (UndefinedAction.KEEP, "active"), (UndefinedAction.PAUSE, "paused")],
)
async def test_an_undefined_job_is_paused_deleted_or_kept(
    deployed: Deployed, undefined_jobs: UndefinedAction, state: str
) -> None:
    first = await deployed.start(a_program("a"))
    await deployed.database.engine().retire(first)

    await deployed.start(a_program("b", undefined_jobs=undefined_jobs))

    assert await deployed.states("a", "b") == {"a": state, "b": "active"}


async def test_programs_of_another_source_and_other_owners_are_left_alone(deployed: Deployed) -> None:
    await add_job(deployed.control, "of-the-api")
    await deployed.programs.sync(a_program("of-another", source="other"), deployed.now)
    await deployed.control.create_job(
        replace(a_job("of-a-file"), managed_by="file", source="shop"), uuid4(), Actor(BY, T0)
    )

    await deployed.start(a_program("a", undefined_jobs=UndefinedAction.DELETE))

    assert await deployed.states("of-the-api", "of-another", "of-a-file") == dict.fromkeys(
        ("of-the-api", "of-another", "of-a-file"), "active"
    )


async def test_a_node_that_was_frozen_does_not_pause_the_jobs_of_its_own_program(deployed: Deployed) -> None:
    node = await deployed.start(a_program("a"))
    deployed.now += HOUR  # a laptop was closed: its next heartbeat is yet to come

    await deployed.programs.retire_undefined(a_program("a"), node)

    assert await deployed.states("a") == {"a": "active"}


async def owner_of(deployed: Deployed, name: str) -> str:
    job = await deployed.control.get_job(name)
    assert job is not None
    return f"{job.definition.managed_by}:{job.definition.source}"


async def test_a_program_of_another_name_takes_over_what_no_live_node_defines(
    deployed: Deployed, caplog: pytest.LogCaptureFixture
) -> None:
    old = await deployed.started(a_program("a", source="shop", schedule="* * * * *"))
    before = await deployed.control.get_job("a")
    deployed.now += MINUTE
    await plan_all(deployed.database.engine(), deployed.now)
    await old.stop()
    deployed.now += 2 * MINUTE

    new = await deployed.started(a_program("a", source="store", schedule="* * * * *"))

    after = await deployed.control.get_job("a")
    assert before is not None
    assert after is not None
    assert (new.is_whole, after.id, after.cursor_at) == (True, before.id, deployed.now)
    assert (await owner_of(deployed, "a"), after.version) == ("code:store", before.version + 1)
    assert len(await deployed.database.rows("runs")) == 2  # the one before, and the latest of what was missed
    [taken] = [row for row in await deployed.database.rows("audit") if row["action"] == "job.take_over"]
    assert (taken["actor"], taken["subject"]) == ("code:store", str(before.id))
    [record] = [record for record in caplog.records if record.message == "job_taken_over"]
    assert (record.__dict__["job"], record.__dict__["owner"]) == ("a", "code:shop")


async def test_a_live_program_keeps_its_jobs_until_it_ends_and_then_loses_them_without_a_restart(
    deployed: Deployed, caplog: pytest.LogCaptureFixture
) -> None:
    old = await deployed.started(a_program("a", source="shop"))
    new = await deployed.started(a_program("a", "b", source="store"))
    for _ in range(3):
        assert not await new.rescan()
    assert (await owner_of(deployed, "a"), await owner_of(deployed, "b")) == ("code:shop", "code:store")
    [record] = [record for record in caplog.records if record.message == "job_owned_by_another"]
    assert record.levelname == "ERROR"
    assert (record.__dict__["job"], record.__dict__["owner"]) == ("a", "code:shop")
    assert "hourbell job delete a --take-over" in record.__dict__["hint"]

    await old.stop()

    assert await new.rescan()
    assert await owner_of(deployed, "a") == "code:store"


async def test_a_node_that_was_killed_is_waited_for_before_its_jobs_are_taken_over(deployed: Deployed) -> None:
    await deployed.started(a_program("a", source="shop"))
    deployed.now += 10 * MINUTE  # it was killed, or the database was away: the two cannot be distinguished yet

    new = await deployed.started(a_program("a", source="store"))
    deployed.now += MINUTE / 2
    assert not await new.rescan()

    deployed.now += MINUTE / 2
    assert await new.rescan()


async def test_a_live_program_that_an_outage_silenced_keeps_its_jobs(deployed: Deployed) -> None:
    old = await deployed.started(a_program("a", source="shop"))
    deployed.now += 10 * MINUTE

    new = await deployed.started(a_program("a", source="store"))
    deployed.now += MINUTE / 2
    await deployed.beat(old.node_id)
    deployed.now += MINUTE / 2

    assert not await new.rescan()
    assert await owner_of(deployed, "a") == "code:shop"


async def test_an_outage_restarts_the_wait(deployed: Deployed) -> None:
    old = await deployed.started(a_program("a", source="shop"))
    new = await deployed.started(a_program("a", source="store"))
    deployed.now += 10 * MINUTE
    deployed.is_out = True
    with pytest.raises(StoreUnavailable):
        await new.programs.sync(new.program, deployed.now)
    deployed.is_out = False

    assert not await new.rescan()
    deployed.now += MINUTE / 2
    await deployed.beat(old.node_id)
    deployed.now += MINUTE / 2
    assert not await new.rescan()


async def test_one_of_two_programs_that_start_together_gets_the_job_and_the_other_reports_it(
    deployed: Deployed,
) -> None:
    first, second = a_program("a", source="shop"), a_program("a", source="store")
    await (await deployed.started(a_program("a", source="old"))).stop()
    nodes = {each.source: uuid4() for each in (first, second)}
    programs = {each.source: deployed.programs for each in (first, second)}
    for each in (first, second):
        await deployed.beat(nodes[each.source])
        await programs[each.source].announce(each, nodes[each.source])

    whole = await asyncio.gather(*(programs[each.source].sync(each, deployed.now) for each in (first, second)))

    assert sorted(whole) == [False, True]
    assert await owner_of(deployed, "a") == ("code:shop" if whole[0] else "code:store")


async def test_the_pause_of_the_program_before_ends_and_an_operators_stays(deployed: Deployed) -> None:
    old = await deployed.started(a_program("a", "b", source="shop"))
    operators = await deployed.control.get_job("a")
    assert operators is not None
    await deployed.control.pause_job(operators.id, Actor(BY, T0), note="", until=None, cancel_waiting=False)
    await old.stop()
    await (await deployed.started(a_program(source="shop"))).stop()
    again = await deployed.started(replace(a_program(source="shop"), tasks={"x": Task("x", print)}))
    await again.stop()
    assert await deployed.states("a", "b") == {"a": "paused", "b": "paused"}

    await deployed.start(a_program("a", "b", source="store"))

    assert await deployed.states("a", "b") == {"a": "paused", "b": "active"}


@pytest.mark.parametrize("managed_by", ["api", "file", "sql"])
async def test_a_job_that_is_not_of_a_program_is_never_taken_over(
    deployed: Deployed, managed_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    job = (
        await deployed.control.create_job(
            replace(a_job("a"), managed_by=managed_by, source="x"), uuid4(), Actor(BY, T0)
        )
    ).job
    new = await deployed.started(a_program("a", source="store"))
    deployed.now += HOUR
    assert not await new.rescan()
    [record] = [record for record in caplog.records if record.message == "job_owned_by_another"]
    assert "hourbell job delete a --take-over" in record.__dict__["hint"]

    await deployed.control.delete_job(job.id, Actor(BY, deployed.now))

    assert await new.rescan()
    assert await owner_of(deployed, "a") == "code:store"


def calling(task: str, source: str = "shop", **more: Any) -> AProgram:
    """A program whose one job calls a task by the dotted name of its function."""
    target = {"type": "task", "name": task, "args": {}, "timeout": "10m"}
    job = replace(a_job("a", "* * * * *", managed_by="code", source=source, **more), target=target, lane=f"task:{task}")
    return AProgram({"a": job}, source, tasks={task: Task(task, print)})


async def lanes_of_runs(deployed: Deployed) -> set[tuple[str, int]]:
    return {(row["lane"], row["job_version"]) for row in await deployed.database.rows("runs")}


@pytest.mark.parametrize("source", ["shop", "store"])
async def test_runs_that_wait_for_a_function_of_a_renamed_module_wait_for_the_new_one(
    deployed: Deployed, source: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    old = await deployed.started(calling("shop.jobs.a"))
    deployed.now += MINUTE
    await plan_all(deployed.database.engine(), deployed.now)
    await old.stop()
    deployed.now += MINUTE

    await deployed.start(calling("store.jobs.a", source))

    assert len(await deployed.database.rows("runs")) == 2  # the one before, and what was due at the start
    assert not [each for each in (await examined(deployed.database, deployed.now)).values() if each.is_error]
    assert await lanes_of_runs(deployed) == {("task:store.jobs.a", 2)}
    assert "runs_moved" in caplog.messages


async def test_runs_stay_while_a_live_node_has_their_function_and_go_when_it_has_stopped(deployed: Deployed) -> None:
    old = await deployed.started(calling("shop.jobs.a"))
    deployed.now += MINUTE
    await plan_all(deployed.database.engine(), deployed.now)
    await deployed.beat(old.node_id, old.program)
    new = await deployed.started(calling("store.jobs.a"))
    assert await lanes_of_runs(deployed) == {("task:shop.jobs.a", 1)}

    await old.stop()
    await new.programs.retire_undefined(new.program, new.node_id)

    assert await lanes_of_runs(deployed) == {("task:store.jobs.a", 2)}


async def test_runs_of_another_schedule_or_another_owner_are_not_moved(deployed: Deployed) -> None:
    old = await deployed.started(calling("shop.jobs.a"))
    deployed.now += MINUTE
    await plan_all(deployed.database.engine(), deployed.now)
    await old.stop()

    await deployed.start(calling("store.jobs.b", "other", timezone="Europe/Paris"))
    await deployed.start(replace(calling("x"), jobs={}, source="shop"))

    assert await lanes_of_runs(deployed) == {("task:shop.jobs.a", 1)}


async def test_a_job_with_an_alert_policy_that_does_not_exist_is_stored_and_reported(
    deployed: Deployed, caplog: pytest.LogCaptureFixture
) -> None:
    program = a_program("report")
    program.jobs = {"report": replace(program.jobs["report"], alert_policy="billing")}

    await deployed.start(program)

    job = await deployed.control.get_job("report")
    assert job is not None
    assert (job.definition.alert_policy, job.definition.enabled) == ("billing", True)
    [record] = [each for each in caplog.records if each.message == "alert_policy_unknown"]
    assert (record.levelname, record.__dict__["jobs"]) == ("ERROR", "report")
    assert "hourbell alert-policy set billing" in record.__dict__["hint"]
