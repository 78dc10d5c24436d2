"""Dead letters are listed, and replayed as new runs with what the old ones carried."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from hourbell.core.run.settle import Failed
from hourbell.core.run.states import Kind, RunState
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict
from hourbell.store.lists.query import ListPosition, RunList, RunQuery
from hourbell.store.lists.reader import ListStore
from tests.contract.steps import BY, HOUR, MINUTE, T0, a_waiting_job, add_job, claim, finish, refusal, run_and_finish
from tests.database import Database

pytestmark = pytest.mark.anyio
LATER = T0 + HOUR
DEAD_LETTERS = RunQuery(RunList.ENDED, RunState.FAILED)


async def a_dead_letter(store: EngineStore, control: ControlStore, name: str = "job", **more: object) -> UUID:
    await a_waiting_job(store, control, name, lane=name, **more)
    [run] = await claim(store, lane=name)
    await finish(store, [run], Failed("no such page", retryable=False), now=T0 + MINUTE)
    return run.id


async def test_a_failed_run_is_listed_with_its_reason(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    run_id = await a_dead_letter(store, control)

    [letter] = await lists.runs(DEAD_LETTERS, 10)
    [attempt] = await lists.attempts(run_id)
    assert (letter.id, letter.job_name, letter.reason) == (run_id, "job", "permanent")
    assert (attempt.error, letter.attempt, letter.finished_at) == ("no such page", 1, T0 + MINUTE)


async def test_dead_letters_are_listed_newest_first_in_pages(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    ids = [await a_dead_letter(store, control, f"job-{number}") for number in range(3)]

    first = await lists.runs(DEAD_LETTERS, 2)
    rest = await lists.runs(DEAD_LETTERS, 2, ListPosition(first[-1].finished_at, first[-1].id))
    assert [letter.id for letter in first + rest] == sorted(ids, reverse=True)


async def test_a_replay_is_a_new_run_with_the_old_payload_and_the_new_target(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    run_id = await a_dead_letter(store, control, payload={"n": 1})
    job = await control.get_job("job")
    assert job is not None
    target = {"type": "task", "name": "b"}
    await control.edit_job(
        job.id, lambda old: replace(old.definition, payload={"n": 2}, target=target), Actor(BY, LATER)
    )

    run = await control.replay_run(run_id, uuid4(), Actor(BY, LATER))

    assert (run.kind, run.state, run.payload, run.lane) == (Kind.REPLAY, RunState.PENDING, {"n": 1}, "task:b")
    [row] = [row for row in await database.rows("runs") if row["id"] == run.id]
    assert (row["replay_of"], row["scheduled_at"], row["ready_at"]) == (run_id, T0, LATER)
    assert [row["action"] for row in await database.rows("audit")][-1] == "run.replay"
    assert len(await claim(store, lane="b", now=LATER)) == 1


async def test_the_same_replay_twice_is_one_run(store: EngineStore, control: ControlStore, database: Database) -> None:
    run_id, new_id = await a_dead_letter(store, control), uuid4()

    first = await control.replay_run(run_id, new_id, Actor(BY, LATER))
    second = await control.replay_run(run_id, new_id, Actor(BY, LATER + HOUR))
    assert first == second
    assert len(await database.rows("runs")) == 2


async def test_replaying_what_waits_cancels_it_first(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control)
    [waiting] = await database.rows("runs")

    await control.replay_run(waiting["id"], uuid4(), Actor(BY, LATER))
    assert sorted(row["state"] for row in await database.rows("runs")) == ["cancelled", "pending"]
    assert (await database.rows("job_stats"))[0]["cancelled"] == 1


async def test_a_running_run_cannot_be_replayed(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control)
    [run] = await claim(store)

    with pytest.raises(Conflict, match="is running"):
        await control.replay_run(run.id, uuid4(), Actor(BY, LATER))


async def test_a_deleted_run_or_job_cannot_be_replayed(store: EngineStore, control: ControlStore) -> None:
    run_id = await a_dead_letter(store, control)
    job = await control.get_job("job")
    assert job is not None
    await control.delete_job(job.id, Actor(BY, LATER))

    with pytest.raises(Conflict, match="no such job"):
        await control.replay_run(run_id, uuid4(), Actor(BY, LATER))
    with pytest.raises(Conflict, match="no such run"):
        await control.replay_run(uuid4(), uuid4(), Actor(BY, LATER))


async def test_a_replay_moves_no_cursor(store: EngineStore, control: ControlStore, database: Database) -> None:
    await add_job(control, "other")
    run_id = await a_dead_letter(store, control)
    before = [(row["cursor_at"], row["plan_at"]) for row in await database.rows("jobs")]

    await control.replay_run(run_id, uuid4(), Actor(BY, LATER))
    assert [(row["cursor_at"], row["plan_at"]) for row in await database.rows("jobs")] == before


async def test_a_replay_keeps_a_payload_that_was_null(store: EngineStore, control: ControlStore) -> None:
    run_id = await a_dead_letter(store, control)
    job = await control.get_job("job")
    assert job is not None
    await control.edit_job(job.id, lambda old: replace(old.definition, payload={"amount": 999}), Actor(BY, LATER))

    run = await control.replay_run(run_id, uuid4(), Actor(BY, LATER))
    assert (run.payload, run.has_payload) == (None, True)


async def test_a_replayed_dead_letter_is_one_no_longer(
    store: EngineStore, control: ControlStore, lists: ListStore, database: Database
) -> None:
    run_id = await a_dead_letter(store, control)

    await control.replay_run(run_id, uuid4(), Actor(BY, LATER))
    assert await lists.runs(DEAD_LETTERS, 10) == []
    assert [row["cleared_at"] for row in await database.rows("runs") if row["id"] == run_id] == [LATER]


async def test_a_replayed_run_can_be_replayed_again(store: EngineStore, control: ControlStore) -> None:
    run_id = await a_dead_letter(store, control)
    first = await control.replay_run(run_id, uuid4(), Actor(BY, LATER))

    second = await control.replay_run(run_id, uuid4(), Actor(BY, LATER + HOUR))
    assert (second.kind, second.scheduled_at) == (Kind.REPLAY, first.scheduled_at)


async def test_a_replay_may_be_ready_later_and_gets_old_from_then(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    run_id = await a_dead_letter(store, control, max_age=HOUR)

    run = await control.replay_run(run_id, uuid4(), Actor(BY, LATER), ready_at=LATER + HOUR)
    [row] = [row for row in await database.rows("runs") if row["id"] == run.id]
    assert (run.ready_at, run.expires_at, row["planned_at"]) == (LATER + HOUR, LATER + 2 * HOUR, LATER)
    assert await claim(store, lane="job", now=LATER) == []


async def test_a_discarded_run_is_off_the_list_and_stays_as_it_ended(
    store: EngineStore, control: ControlStore, lists: ListStore, database: Database
) -> None:
    run_id = await a_dead_letter(store, control)

    await control.discard_run(run_id, Actor(BY, LATER))
    [row] = await database.rows("runs")
    assert (await lists.runs(DEAD_LETTERS, 10), row["state"], row["cleared_at"]) == ([], "failed", LATER)


async def test_only_a_dead_letter_can_be_discarded(store: EngineStore, control: ControlStore) -> None:
    run_id = await a_dead_letter(store, control)
    await control.discard_run(run_id, Actor(BY, LATER))
    await a_waiting_job(store, control, "other")
    [fine] = await run_and_finish(store)

    assert await refusal(control.discard_run(run_id, Actor(BY, LATER))) == "not_a_dead_letter"
    assert await refusal(control.discard_run(fine.id, Actor(BY, LATER))) == "not_a_dead_letter"
    assert await refusal(control.discard_run(uuid4(), Actor(BY, LATER))) == "no_such_run"
