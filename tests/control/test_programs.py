"""The jobs that programs define: brought in, left alone where others own them, and gone when no live node has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID, uuid4

import pytest

from hourbell.control.programs import GONE_NOTE, Gone, Programs
from hourbell.core.job import Definition
from hourbell.store.base import EngineStore, Node
from hourbell.store.control import ControlStore
from hourbell.targets.task import Task
from tests.contract.steps import BY, HOUR, MINUTE, T0, a_job, add_job, plan_all
from tests.database import Database

pytestmark = pytest.mark.anyio


@dataclass
class AProgram:
    jobs: Mapping[str, Definition]
    source: str = "shop"
    gone: Gone = Gone.PAUSE
    tasks: Mapping[str, Task] = field(default_factory=dict)


def a_program(*names: str, schedule: str = "@hourly", gone: Gone = Gone.PAUSE, source: str = "shop") -> AProgram:
    jobs = {name: a_job(name, schedule, managed_by="code", source=source) for name in names}
    return AProgram(jobs, source, gone)


@dataclass
class Deployed:
    """Programs on one database, at a time that tests move."""

    database: Database
    now: datetime = T0

    @property
    def control(self) -> ControlStore:
        return self.database.control()

    async def start(self, program: AProgram) -> UUID:
        """Start a node of a program as a process does."""
        node_id = uuid4()
        programs = self.programs
        await programs.sync(program, self.now)
        await self.beat(node_id)
        await programs.retire_gone(program, node_id)
        return node_id

    async def beat(self, node_id: UUID) -> None:
        engine: EngineStore = self.database.engine()
        await engine.heartbeat(Node(node_id, "host", self.now, (), "2026a"), self.now, self.now + MINUTE, ())

    @property
    def programs(self) -> Programs:
        return Programs(self.control, now=lambda: self.now, new_id=uuid4)

    async def states(self, *names: str) -> dict[str, str]:
        found = {name: await self.control.get_job(name) for name in names}
        return {
            name: "none" if job is None else "active" if job.definition.enabled else "paused"
            for name, job in found.items()
        }


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


async def test_a_job_of_somebody_else_is_not_stolen_and_keeps_none_of_the_others_out(
    deployed: Deployed, caplog: pytest.LogCaptureFixture
) -> None:
    await add_job(deployed.control, "theirs")

    assert not await deployed.programs.sync(a_program("theirs", "ours"), deployed.now)

    theirs = await deployed.control.get_job("theirs")
    assert theirs is not None
    assert theirs.definition.managed_by == "api"
    assert await deployed.states("ours") == {"ours": "active"}
    assert "job_not_synced" in caplog.messages


async def test_a_job_that_is_renamed_is_paused_under_its_old_name(deployed: Deployed) -> None:
    old = await deployed.start(a_program("old"))
    await deployed.database.engine().retire(old)

    await deployed.start(a_program("new"))

    view = await deployed.database.lists().job("old")
    assert view is not None
    assert (view.paused_note, view.paused_by) == (GONE_NOTE, "code:shop")
    assert await deployed.states("old", "new") == {"old": "paused", "new": "active"}


async def test_while_a_deploy_rolls_nothing_is_gone_that_a_live_node_defines(deployed: Deployed) -> None:
    old = await deployed.start(a_program("a", "b"))
    new = await deployed.start(a_program("a"))
    assert await deployed.states("a", "b") == {"a": "active", "b": "active"}

    programs = deployed.programs
    await programs.retire_gone(a_program("a"), new)
    deployed.now += HOUR  # nobody has heard of the old node for long
    await deployed.beat(new)
    await programs.retire_gone(a_program("a"), new)
    assert await deployed.states("a", "b") == {"a": "active", "b": "active"}

    await programs.retire_gone(a_program("a"), new)
    assert old != new
    assert await deployed.states("a", "b") == {"a": "active", "b": "paused"}


async def test_after_an_outage_nothing_is_gone_because_nobody_was_heard_of(deployed: Deployed) -> None:
    one, other = await deployed.start(a_program("a")), await deployed.start(a_program("a", "b"))
    programs = deployed.programs
    await programs.retire_gone(a_program("a"), one)

    deployed.now += HOUR
    await programs.retire_gone(a_program("a"), one)
    await deployed.beat(other)
    await programs.retire_gone(a_program("a"), one)

    assert await deployed.states("a", "b") == {"a": "active", "b": "active"}


async def test_what_comes_back_goes_on_and_an_operators_pause_stays(deployed: Deployed) -> None:
    first = await deployed.start(a_program("a", "b"))
    operators = await deployed.control.get_job("a")
    assert operators is not None
    await deployed.control.pause_job(operators.id, T0, BY, note="", until=None, cancel_waiting=False)
    await deployed.database.engine().retire(first)
    await deployed.start(a_program())
    assert await deployed.states("a", "b") == {"a": "paused", "b": "paused"}

    await deployed.programs.sync(a_program("a", "b"), deployed.now)

    assert await deployed.states("a", "b") == {"a": "paused", "b": "active"}


async def test_a_job_that_was_gone_for_a_while_does_not_fire_for_the_past(deployed: Deployed) -> None:
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


async def test_what_is_gone_is_out_of_use_before_the_new_program_plans(deployed: Deployed) -> None:
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

    await deployed.programs.bring_in(a_program("new"), deployed.now)

    assert await deployed.states("old", "new") == {"old": "active", "new": "active"}


async def test_what_waits_goes_on_while_the_program_still_has_the_task(deployed: Deployed) -> None:
    old = a_program("old", schedule="* * * * *")
    first = await deployed.start(old)
    deployed.now += MINUTE
    await plan_all(deployed.database.engine(), deployed.now)
    await deployed.database.engine().retire(first)

    await deployed.start(replace(a_program("renamed"), tasks={"a": Task("a", print)}))

    assert [run["state"] for run in await deployed.database.rows("runs")] == ["pending"]
    assert await deployed.states("old") == {"old": "paused"}


@pytest.mark.parametrize(("gone", "state"), [(Gone.DELETE, "none"), (Gone.KEEP, "active"), (Gone.PAUSE, "paused")])
async def test_what_is_gone_is_paused_deleted_or_kept(deployed: Deployed, gone: Gone, state: str) -> None:
    first = await deployed.start(a_program("a"))
    await deployed.database.engine().retire(first)

    await deployed.start(a_program("b", gone=gone))

    assert await deployed.states("a", "b") == {"a": state, "b": "active"}


async def test_programs_of_another_source_and_other_owners_are_left_alone(deployed: Deployed) -> None:
    await add_job(deployed.control, "of-the-api")
    await deployed.programs.sync(a_program("of-another", source="other"), deployed.now)
    await deployed.control.create_job(replace(a_job("of-a-file"), managed_by="file", source="shop"), uuid4(), T0, BY)

    await deployed.start(a_program("a", gone=Gone.DELETE))

    assert await deployed.states("of-the-api", "of-another", "of-a-file") == dict.fromkeys(
        ("of-the-api", "of-another", "of-a-file"), "active"
    )


async def test_a_node_that_was_frozen_does_not_pause_the_jobs_of_its_own_program(deployed: Deployed) -> None:
    node = await deployed.start(a_program("a"))
    deployed.now += HOUR  # a laptop was closed: its next heartbeat is yet to come

    await deployed.programs.retire_gone(a_program("a"), node)

    assert await deployed.states("a") == {"a": "active"}
