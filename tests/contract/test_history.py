"""History of a job: its versions, skips and scheduled times, and late or waiting runs."""

from datetime import datetime
from uuid import UUID, uuid4

import pytest

from hourbell.core.job.definition import Definition, Job
from hourbell.core.run.plan import Plan, Skip
from hourbell.core.run.policies import Rank
from hourbell.core.run.run import NewRun
from hourbell.core.run.states import RunState, SkipReason
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.lists.query import EndedRun, SkipView
from hourbell.store.lists.reader import ListStore
from tests.contract.steps import (
    BY,
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    T0,
    a_waiting_job,
    add_backlog,
    add_job,
    changed,
    claim,
    finish,
    lose,
    new_run,
    plan_all,
    put_runs,
    run_and_finish,
)
from tests.database import Database

pytestmark = pytest.mark.anyio


async def describe(control: ControlStore, job: Job, text: str, now: datetime) -> None:
    def edit(current: Job) -> Definition:
        return changed(current, description=text)

    await control.edit_job(job.id, edit, Actor(BY, now))


async def skip(store: EngineStore, *skips: Skip) -> None:
    """Give the only job that is due these skips."""
    await store.plan_due(T0 + DAY, 10, lambda due, _: Plan(due, due.cursor_at, None, None, skips=skips))


def minutes(first: int, last: int, reason: SkipReason = SkipReason.MISSED) -> Skip:
    return Skip(T0 + first * MINUTE, T0 + last * MINUTE, last - first + 1, reason)


async def test_versions_are_listed_newest_first_in_pages(control: ControlStore, lists: ListStore) -> None:
    job = await add_job(control)
    for number in (2, 3):
        await describe(control, job, f"version {number}", T0 + number * SECOND)

    first = await lists.versions(job.id, 2)
    rest = await lists.versions(job.id, 2, before=first[-1].version)
    found = [(each.version, each.definition.description, each.changed_at, each.changed_by) for each in first + rest]
    assert found == [(3, "version 3", T0 + 3 * SECOND, BY), (2, "version 2", T0 + 2 * SECOND, BY), (1, "", T0, BY)]


async def test_an_invalid_version_is_shown_as_far_as_it_can_be_read(
    control: ControlStore, lists: ListStore, database: Database
) -> None:
    job = await add_job(control)
    await database.sql("""update hourbell.job_versions set definition = '{"name": "odd", "overlap": 5}'""")

    [version] = await lists.versions(job.id, 10)
    assert (version.version, version.definition.name, version.definition.schedule) == (1, "odd", "")


async def test_skips_are_listed_newest_first_in_pages(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await add_job(control)
    await skip(store, minutes(1, 2), minutes(4, 4, SkipReason.OVERLAP), minutes(3, 4), minutes(6, 9))

    found: list[SkipView] = []
    while page := await lists.skips(job.id, 1, (found[-1].last_at, found[-1].id) if found else None):
        found += page
    assert [(each.first_at - T0, each.count) for each in found] == [
        (6 * MINUTE, 4),
        (3 * MINUTE, 2),
        (4 * MINUTE, 1),
        (1 * MINUTE, 2),
    ]
    assert found[2].reason is SkipReason.OVERLAP
    assert await lists.skips(uuid4(), 10) == []


async def test_an_instant_with_a_run(store: EngineStore, control: ControlStore, lists: ListStore) -> None:
    job = await add_backlog(control)
    await plan_all(store, T0 + 3 * MINUTE)

    facts = await lists.instant(job.id, T0 + 2 * MINUTE)
    assert facts is not None
    assert facts.run is not None
    assert (facts.run.scheduled_at, facts.run.state) == (T0 + 2 * MINUTE, RunState.PENDING)
    assert (facts.skips, facts.replays) == ([], [])
    assert facts.job.job.id == job.id


async def test_an_instant_without_anything(control: ControlStore, lists: ListStore) -> None:
    job = await add_job(control)

    facts = await lists.instant(job.id, T0 + 30 * SECOND)
    assert facts is not None
    assert (facts.run, facts.skips, facts.replays) == (None, [], [])
    assert await lists.instant(uuid4(), T0) is None


async def test_an_instant_of_a_deleted_job_is_still_known(control: ControlStore, lists: ListStore) -> None:
    job = await add_job(control)
    await control.delete_job(job.id, Actor(BY, T0 + HOUR))

    facts = await lists.instant(job.id, T0)
    assert facts is not None
    assert facts.job.deleted_at == T0 + HOUR


@pytest.mark.parametrize(("after", "version"), [(-1, None), (0, None), (1, 1), (2, 1), (3, 2), (5, 2)])
async def test_the_version_of_an_instant_is_the_one_valid_then(
    control: ControlStore, lists: ListStore, after: int, version: int | None
) -> None:
    job = await add_job(control)
    await describe(control, job, "new", T0 + 2 * SECOND)

    facts = await lists.instant(job.id, T0 + after * SECOND)
    assert facts is not None
    assert (facts.version and facts.version.version) == version


@pytest.mark.parametrize(("minute", "expected"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 1), (6, 0)])
async def test_an_instant_knows_the_skips_that_cover_it(
    store: EngineStore, control: ControlStore, lists: ListStore, minute: int, expected: int
) -> None:
    job = await add_job(control)
    await skip(store, minutes(2, 4), minutes(4, 5, SkipReason.OVERLAP), minutes(7, 9))

    facts = await lists.instant(job.id, T0 + minute * MINUTE)
    assert facts is not None
    assert len(facts.skips) == expected


async def test_an_instant_knows_what_repeats_it_but_no_manual_run(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await add_backlog(control)
    await plan_all(store, T0 + MINUTE)
    [run] = await run_and_finish(store)
    first, second, manual, other = (UUID(int=number) for number in (9, 8, 7, 6))
    await control.replay_run(run.id, first, Actor(BY, T0 + HOUR))
    await run_and_finish(store, now=T0 + 2 * HOUR)
    await control.replay_run(first, second, Actor(BY, T0 + 3 * HOUR))
    await control.trigger_job(job.id, manual, Actor(BY, T0 + MINUTE))
    await control.replay_run(manual, other, Actor(BY, T0 + 4 * HOUR))

    facts = await lists.instant(job.id, T0 + MINUTE)
    assert facts is not None
    assert facts.run is not None
    assert (facts.run.id, facts.replays) == (run.id, [first, second])


async def test_ended_runs_are_the_newest_of_the_job_since_then(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await a_waiting_job(store, control, count=5)
    await a_waiting_job(store, control, "other", lane="b")
    await run_and_finish(store, count=4)

    ended = await lists.ended(job.id, T0 + SECOND, 2)
    assert ended == [EndedRun(RunState.SUCCEEDED, T0 + number * SECOND, T0 + HOUR, T0 + HOUR) for number in (3, 2)]
    assert len(await lists.ended(job.id, T0 + SECOND, 10)) == 3


async def test_instants_with_a_run_are_separated_from_those_without(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await add_job(control)
    await put_runs(store, job, [new_run(job, 1)])
    await control.trigger_job(job.id, uuid4(), Actor(BY, T0 + 2 * SECOND))

    instants = [T0 + number * SECOND for number in (3, 2, 1)]
    assert await lists.without_run(job.id, instants) == instants[:2]
    assert await lists.without_run(job.id, []) == []


async def test_late_runs_are_those_begun_after_their_version_allows(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    for name, seconds in (("patient", 600), ("strict", 60), ("exact", 300)):
        job = await add_job(control, name, lane=name, late_after=seconds * SECOND)
        await put_runs(store, job, [new_run(job)])
        begun_at = T0 + 300 * SECOND
        [run] = await claim(store, lane=name, now=begun_at)
        await finish(store, [run], now=T0 + HOUR, begun_at=begun_at)

    assert [run.job_name for run in await lists.late_runs(T0 + HOUR, 10)] == ["strict"]


async def test_late_runs_come_worst_first(store: EngineStore, control: ControlStore, lists: ListStore) -> None:
    await a_waiting_job(store, control, count=3)
    for hours in (1, 3, 2):
        await run_and_finish(store, now=T0 + hours * HOUR)
    after = await add_job(control, "after", now=T0 + DAY, lane="b")
    at = T0 + DAY + MINUTE
    await put_runs(store, after, [NewRun(uuid4(), at, at.replace(tzinfo=None), at, at + DAY, Rank.NORMAL)])
    begun_at = at + 90 * MINUTE
    await finish(store, await claim(store, lane="b", now=begun_at), now=begun_at)

    late = await lists.late_runs(T0 + 2 * DAY, 4)
    assert [run.started_at for run in late] == [T0 + 3 * HOUR, T0 + 2 * HOUR, begun_at, T0 + HOUR]
    assert [run.id for run in await lists.late_runs(T0 + 2 * DAY, 2)] == [run.id for run in late[:2]]


async def test_late_runs_are_found_however_many_ended_since(
    store: EngineStore, control: ControlStore, lists: ListStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hourbell.store.lists.reader.LATE_WINDOW", 3)
    await a_waiting_job(store, control, "late")
    await run_and_finish(store, now=T0 + HOUR)
    punctual = await add_job(control, "punctual", now=T0 + DAY, lane="b")
    for number in range(5):
        at = T0 + DAY + MINUTE + number * SECOND
        await control.trigger_job(punctual.id, uuid4(), Actor(BY, at))
        await finish(store, await claim(store, lane="b", now=at), now=at)

    assert [run.job_name for run in await lists.late_runs(T0 + 2 * DAY, 10)] == ["late"]


async def test_a_replay_is_not_late(store: EngineStore, control: ControlStore, lists: ListStore) -> None:
    await a_waiting_job(store, control)
    [run] = await run_and_finish(store, now=T0 + SECOND)
    await control.replay_run(run.id, uuid4(), Actor(BY, T0 + DAY))
    await run_and_finish(store, now=T0 + DAY)

    assert await lists.late_runs(T0 + DAY, 10) == []


async def test_stuck_runs_are_ready_since_before_and_come_by_expiry(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await add_job(control)
    planned_at = T0 + MINUTE
    numbers = (2, 0, 1, 5)
    await put_runs(store, job, [new_run(job, number, ready_at=planned_at + number * SECOND) for number in numbers])

    stuck = await lists.stuck_runs(planned_at + 5 * SECOND, 10)
    assert [run.scheduled_at for run in stuck] == [T0, T0 + SECOND, T0 + 2 * SECOND]
    assert len(await lists.stuck_runs(planned_at + 5 * SECOND, 2)) == 2


async def test_a_run_planned_after_an_outage_is_not_stuck_at_once(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    await add_job(control, schedule="30 9 * * *")
    back_at = T0 + 5 * HOUR
    await plan_all(store, back_at)

    assert await lists.stuck_runs(back_at - HOUR, 10) == []
    assert await lists.stuck_runs(back_at - HOUR, 10, untried=True) == []
    assert len(await lists.stuck_runs(back_at + SECOND, 10)) == 1


async def test_stuck_runs_may_be_those_never_tried(store: EngineStore, control: ControlStore, lists: ListStore) -> None:
    await a_waiting_job(store, control, count=2)
    [tried] = await claim(store)
    await lose(store, T0 + DAY)

    assert tried.id in [run.id for run in await lists.stuck_runs(T0 + 2 * DAY, 10)]
    [untried] = await lists.stuck_runs(T0 + 2 * DAY, 10, untried=True)
    assert (untried.attempt, untried.scheduled_at) == (0, T0 + SECOND)
