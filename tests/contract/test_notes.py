"""Notes of tasks are stored with their attempts, shown while they run, reported as changes, removed with the run."""

from datetime import timedelta

import pytest

from hourbell.core.run.notes import LogLine, Notes
from hourbell.core.run.run import Run
from hourbell.core.run.settle import Failed
from hourbell.core.run.states import RunState
from hourbell.store.base import EngineStore
from hourbell.store.control.store import ControlStore
from hourbell.store.lists.query import ChangedRun, Progress, RunList, RunQuery
from hourbell.store.lists.reader import ListStore
from tests.contract.steps import DAY, HOUR, MINUTE, SECOND, T0, a_waiting_job, claim, finish, lose
from tests.database import Database

pytestmark = pytest.mark.anyio

NOW = T0 + HOUR
LINES = (LogLine(NOW, "begun"), LogLine(NOW + timedelta(microseconds=1), "é\nand 'more'"))


@pytest.fixture
async def run(store: EngineStore, control: ControlStore) -> Run:
    await a_waiting_job(store, control)
    [claimed] = await claim(store)
    return claimed


def notes_of(run: Run, fraction: float | None = 0.5, message: str = "half", log: tuple[LogLine, ...] = LINES) -> Notes:
    return Notes(run.id, run.attempt, fraction, message, log)


async def test_a_running_run_shows_its_progress_and_log(store: EngineStore, lists: ListStore, run: Run) -> None:
    await store.write_notes([notes_of(run)], NOW)

    view = await lists.run(run.id)
    [listed] = await lists.runs(RunQuery(RunList.RUNNING), 10)
    assert view is not None
    assert (view.progress, tuple(view.log)) == (Progress(0.5, "half", NOW), LINES)
    assert listed.progress == view.progress


async def test_newer_notes_replace_older_ones(store: EngineStore, lists: ListStore, run: Run) -> None:
    await store.write_notes([notes_of(run, 0.7, "more")], NOW + SECOND)
    await store.write_notes([notes_of(run, 0.6, "less")], NOW)

    view = await lists.run(run.id)
    assert view is not None
    assert view.progress == Progress(0.7, "more", NOW + SECOND)


async def test_a_run_that_only_logs_has_no_progress(store: EngineStore, lists: ListStore, run: Run) -> None:
    await store.write_notes([notes_of(run, None, "")], NOW)

    view = await lists.run(run.id)
    assert view is not None
    assert (view.progress, tuple(view.log)) == (None, LINES)


async def test_each_attempt_keeps_its_own_log(store: EngineStore, lists: ListStore, run: Run) -> None:
    await store.write_notes([notes_of(run)], NOW)
    await finish(store, [run], Failed("no"))
    [again] = await claim(store, now=NOW + HOUR)
    await store.write_notes([notes_of(again, log=(LogLine(NOW + HOUR, "again"),))], NOW + HOUR)
    await finish(store, [again], now=NOW + HOUR)

    view = await lists.run(run.id)
    assert view is not None
    assert (view.progress, tuple(view.log)) == (None, ())
    logs = [[line.text for line in attempt.log] for attempt in await lists.attempts(run.id)]
    assert logs == [["begun", "é\nand 'more'"], ["again"]]


async def test_the_log_of_a_lost_attempt_is_kept(store: EngineStore, lists: ListStore, run: Run) -> None:
    await store.write_notes([notes_of(run)], NOW)
    await lose(store, NOW + 2 * MINUTE)

    [attempt] = await lists.attempts(run.id)
    assert (attempt.outcome, tuple(attempt.log)) == ("lost", LINES)


async def test_notes_of_a_deleted_run_are_not_stored(store: EngineStore, database: Database, run: Run) -> None:
    await finish(store, [run])
    await store.prune(NOW + DAY, timedelta(0), 0, 10)
    await store.write_notes([notes_of(run)], NOW + DAY)

    assert await database.rows("run_notes") == []


async def test_notes_go_with_their_run(store: EngineStore, control: ControlStore, database: Database, run: Run) -> None:
    await a_waiting_job(store, control, "other", lane="b")
    [other] = await claim(store, lane="b")
    await store.write_notes([notes_of(run), notes_of(other)], NOW)
    await finish(store, [run])
    await store.prune(NOW + DAY, timedelta(0), 0, 10)

    assert [row["run_id"] for row in await database.rows("run_notes")] == [other.id]


async def test_a_run_with_new_notes_has_changed(store: EngineStore, lists: ListStore, run: Run) -> None:
    mark = (await lists.changes(None, NOW, 10)).mark
    await store.write_notes([notes_of(run)], NOW + SECOND)
    first = await lists.changes(mark, NOW + SECOND, 10)
    await finish(store, [run], now=NOW + 2 * SECOND)
    second = await lists.changes(first.mark, NOW + 2 * SECOND, 10)

    assert list(first.runs) == [ChangedRun(run.id, run.job_id, RunState.RUNNING, NOW + SECOND)]
    assert list(second.runs) == [ChangedRun(run.id, run.job_id, RunState.SUCCEEDED)]


async def test_a_run_that_began_and_has_notes_has_changed_once(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    await a_waiting_job(store, control)
    mark = (await lists.changes(None, NOW - SECOND, 10)).mark
    [run] = await claim(store)
    await store.write_notes([notes_of(run)], NOW + SECOND)

    changes = await lists.changes(mark, NOW + SECOND, 10)
    assert [(change.id, change.noted_at) for change in changes.runs] == [(run.id, NOW + SECOND)]
