"""Changes of a job: it never fires for the past, and every scheduled time is accounted for.

Hours are counted from T0, the job's cursor.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.job.change import Change, StillCatchingUp, created, edited, paused, resumed, retired
from hourbell.core.job.definition import Definition, Job
from hourbell.core.run.plan import plan
from hourbell.core.run.policies import CatchUp, Delivery, Overlap, Priority
from hourbell.core.schedule import ScheduleError
from tests.core.ledger import Ledger
from tests.core.schedule.strategies import examples
from tests.core.values import (
    BROKEN,
    DAY,
    HOUR,
    MICROSECOND,
    MINUTE,
    MINUTELY,
    SECOND,
    T0,
    Skipped,
    a_definition,
    a_job,
    fired,
    position,
    skipped,
)

HALF_PAST = "30 * * * *"
UP_TO_DATE, BEHIND = 30 * MINUTE, 3 * HOUR + 15 * MINUTE
ALL = CatchUp.ALL


def changed(job: Job, **changes: Any) -> Definition:
    return replace(job.definition, **changes)


def backlog(**more: Any) -> Job:
    """A job that needs more than one pass for the 250 minutes since T0."""
    return a_job(MINUTELY, catch_up=ALL, **more)


@pytest.mark.parametrize("catch_up", CatchUp)
def test_a_new_job_fires_from_now_on(catch_up: CatchUp) -> None:
    made = created(a_definition(catch_up=catch_up), T0)

    assert (made.runs, made.skips) == ((), ())
    assert position(made) == (T0, T0 + HOUR, T0 + HOUR)


def test_a_new_job_that_is_paused_waits_to_be_resumed() -> None:
    assert position(created(a_definition(enabled=False), T0)) == (T0, None, None)


def test_a_new_job_that_starts_later_waits_until_then() -> None:
    made = created(a_definition(starts_at=T0 + DAY), T0)

    assert position(made) == (T0, T0 + DAY, T0 + DAY)


@pytest.mark.parametrize("make", [created, lambda new, now: edited(a_job(), new, now)], ids=["new", "edited"])
def test_a_schedule_that_cannot_be_read_is_refused(make: Any) -> None:
    with pytest.raises(ScheduleError, match="61 is outside 0-59"):
        make(a_definition(BROKEN), T0)


PLANNING_EDITS: list[dict[str, Any]] = [
    {"schedule": HALF_PAST},
    {"timezone": "Asia/Kathmandu"},
    {"dst": "wall"},
    {"starts_at": T0 - DAY},
    {"ends_at": T0 + DAY},
    {"catch_up": CatchUp.NONE},
    {"enabled": False},
]
OTHER_EDITS: list[dict[str, Any]] = [
    {"name": "other"},
    {"description": "new"},
    {"target": {"type": "task", "name": "b"}, "lane": "task:b"},
    {"payload": {"n": 1}},
    {"catch_up_window": HOUR},
    {"overlap": Overlap.SKIP},
    {"delivery": Delivery.AT_MOST_ONCE},
    {"max_age": HOUR},
    {"late_after": HOUR},
    {"priority": Priority.HIGH},
    {"jitter": MINUTE},
    {"tags": ("x",)},
    {"subject": "customer 17"},
    {"alert_policy": "billing"},
    {"source": "elsewhere"},
]


def name_of(edit: dict[str, Any]) -> str:
    return next(iter(edit))


@pytest.mark.parametrize("edit", PLANNING_EDITS, ids=name_of)
def test_an_edit_of_the_planning_first_plans_the_old_version_up_to_now(edit: dict[str, Any]) -> None:
    job = a_job(catch_up=ALL)
    made = edited(job, changed(job, **edit), T0 + BEHIND)

    assert (fired(made), skipped(made)) == ([1, 2, 3], [])
    assert made.cursor_at == T0 + BEHIND
    assert made.next_at is None or made.next_at > T0 + BEHIND


@pytest.mark.parametrize("edit", PLANNING_EDITS, ids=name_of)
def test_an_edit_of_the_planning_of_a_job_up_to_date_fires_nothing(edit: dict[str, Any]) -> None:
    job = a_job(catch_up=ALL)
    made = edited(job, changed(job, **edit), T0 + UP_TO_DATE)

    assert (made.runs, made.skips, made.cursor_at) == ((), (), T0 + UP_TO_DATE)


@pytest.mark.parametrize("edit", OTHER_EDITS, ids=name_of)
def test_any_other_edit_keeps_the_next_instant(edit: dict[str, Any]) -> None:
    job = a_job(catch_up=ALL, next_at=T0 + HOUR, plan_at=T0 + HOUR)
    made = edited(job, changed(job, **edit), T0 + UP_TO_DATE)

    assert (made.runs, made.skips) == ((), ())
    assert position(made) == (T0 + UP_TO_DATE, T0 + HOUR, T0 + HOUR)
    assert made.definition == changed(job, **edit)


@pytest.mark.parametrize("edit", OTHER_EDITS, ids=name_of)
def test_any_other_edit_leaves_what_is_due_to_the_old_version(edit: dict[str, Any]) -> None:
    job = a_job(catch_up=ALL)
    made = edited(job, changed(job, **edit), T0 + BEHIND)

    assert fired(made) == [1, 2, 3]
    assert position(made) == (T0 + BEHIND, T0 + 4 * HOUR, T0 + 4 * HOUR)


def test_every_column_of_a_definition_is_one_or_the_other() -> None:
    others = {name for edit in OTHER_EDITS for name in edit} | {"retry", "managed_by"}

    assert {name_of(edit) for edit in PLANNING_EDITS} | others == set(Definition.__slots__)


def test_an_edit_that_moves_the_schedule_fires_nothing_it_would_have_fired_before() -> None:
    job = a_job()
    made = edited(job, changed(job, schedule=HALF_PAST), T0 + HOUR + 45 * MINUTE)

    assert fired(made) == [1]  # the old version's
    assert made.next_at == T0 + 2 * HOUR + 30 * MINUTE


def test_a_new_name_moves_a_schedule_that_hashes_it() -> None:
    job = a_job("H * * * *", name="old", next_at=T0 + HOUR, plan_at=T0 + HOUR, catch_up=ALL)
    made = edited(job, changed(job, name="new"), T0 + 2 * HOUR)

    assert (len(made.runs), made.cursor_at) == (2, T0 + 2 * HOUR)
    assert made.next_at == changed(job, name="new").parsed().next(T0 + 2 * HOUR)


def test_an_edit_of_a_job_that_is_catching_up_is_refused() -> None:
    job = backlog()

    with pytest.raises(StillCatchingUp):
        edited(job, changed(job, schedule=HALF_PAST), T0 + 250 * MINUTE)


def test_an_edit_may_drop_what_remains_to_be_planned() -> None:
    job = backlog()
    made = edited(job, changed(job, schedule=HALF_PAST), T0 + 250 * MINUTE, drop_backlog=True)

    assert fired(made, MINUTE) == list(range(1, 101))
    assert skipped(made, MINUTE) == [("edited", 101, 250, 150)]
    assert made.cursor_at == T0 + 250 * MINUTE


def test_an_edit_that_leaves_the_planning_alone_never_waits_for_a_backlog() -> None:
    job = backlog()
    made = edited(job, changed(job, payload=1), T0 + 250 * MINUTE)

    assert fired(made, MINUTE) == list(range(1, 101))
    assert position(made) == (T0 + 100 * MINUTE, T0 + 101 * MINUTE, T0 + 250 * MINUTE)  # the rest is the new version's


def test_an_edit_that_leaves_the_planning_alone_leaves_a_pause_alone() -> None:
    job = a_job(enabled=False, plan_at=T0 + HOUR, paused_until=T0 + HOUR)
    made = edited(job, changed(job, payload=1), T0 + BEHIND)

    assert (made.runs, made.skips) == ((), ())
    assert (made.cursor_at, made.plan_at, made.paused_until) == (T0, T0 + HOUR, T0 + HOUR)


@pytest.mark.parametrize("catch_up", CatchUp)
def test_a_job_with_too_many_waiting_is_catching_up(catch_up: CatchUp) -> None:
    job = a_job(catch_up=catch_up, waiting=1_000)

    with pytest.raises(StillCatchingUp):
        edited(job, changed(job, schedule=HALF_PAST), T0 + BEHIND)
    dropped = edited(job, changed(job, schedule=HALF_PAST), T0 + BEHIND, drop_backlog=True)
    assert (fired(dropped), skipped(dropped)) == ([], [("edited", 1, 3, 3)])


def test_an_instant_that_is_due_at_this_very_moment_belongs_to_the_old_version() -> None:
    job = a_job(waiting=1_000)

    with pytest.raises(StillCatchingUp):
        edited(job, changed(job, schedule=HALF_PAST), T0 + HOUR)


def test_a_job_with_too_many_waiting_and_nothing_due_can_be_edited() -> None:
    job = a_job(waiting=1_000)

    assert edited(job, changed(job, schedule=HALF_PAST), T0 + UP_TO_DATE).next_at == T0 + HOUR + 30 * MINUTE


def test_an_edit_passes_on_that_the_old_version_stops_its_others() -> None:
    job = a_job(overlap=Overlap.CANCEL_RUNNING, unfinished=1)

    assert edited(job, changed(job, schedule=HALF_PAST), T0 + HOUR).cancels_others


def test_an_edit_of_a_job_nobody_has_planned_begins_now() -> None:
    job = a_job(cursor_at=None, catch_up=ALL)
    made = edited(job, changed(job, schedule=HALF_PAST), T0 + BEHIND)

    assert (made.runs, made.skips, made.cursor_at) == ((), (), T0 + BEHIND)


def test_an_edit_with_a_clock_that_went_back_begins_at_the_cursor() -> None:
    job = a_job()
    made = edited(job, changed(job, schedule=HALF_PAST), T0 - HOUR)

    assert (made.runs, made.skips) == ((), ())
    assert position(made) == (T0, T0 + 30 * MINUTE, T0 + 30 * MINUTE)


@pytest.mark.parametrize("edit", [{"schedule": HALF_PAST}, {"description": "new"}], ids=["planning", "other"])
@pytest.mark.parametrize(
    ("broken", "skips"),
    [({}, [("edited", 1, 3, 3)]), ({"schedule": BROKEN}, [])],
    ids=["another column", "the schedule"],
)
def test_a_job_in_error_is_fixed_by_any_edit_and_never_fires_for_the_past(
    broken: dict[str, Any], skips: list[Skipped], edit: dict[str, Any]
) -> None:
    job = a_job(error="broken", catch_up=ALL, **broken)
    fixed = replace(a_job(catch_up=ALL).definition, **edit)
    made = edited(job, fixed, T0 + BEHIND)

    assert (made.runs, skipped(made), made.cursor_at) == ((), skips, T0 + BEHIND)
    assert made.next_at == made.plan_at is not None


@pytest.mark.parametrize("enabled", [True, False], ids=["enabled", "paused"])
def test_an_unnoticed_invalid_schedule_can_be_fixed(enabled: bool) -> None:
    made = edited(a_job(BROKEN, enabled=enabled), a_definition(enabled=enabled), T0 + BEHIND)

    assert (made.runs, made.skips, made.cursor_at) == ((), (), T0 + BEHIND)


def test_an_edit_that_keeps_an_invalid_schedule_leaves_the_error_to_the_planner() -> None:
    job = a_job(BROKEN, next_at=T0 + HOUR, plan_at=T0 + HOUR)
    made = edited(job, changed(job, payload=1), T0 + BEHIND)

    assert (made.runs, made.skips) == ((), ())
    assert position(made) == (T0, T0 + HOUR, T0 + HOUR)


def test_an_edit_while_paused_leaves_one_skip_and_the_job_paused() -> None:
    job = a_job(enabled=False)
    made = edited(job, changed(job, schedule=HALF_PAST), T0 + BEHIND)

    assert (fired(made), skipped(made)) == ([], [("paused", 1, 3, 3)])
    assert position(made) == (T0 + BEHIND, None, None)


def test_an_edit_keeps_the_end_of_a_pause() -> None:
    job = a_job(enabled=False, paused_until=T0 + DAY, plan_at=T0 + DAY)

    for edit in ({"schedule": HALF_PAST}, {"description": "new"}):
        made = edited(job, changed(job, **edit), T0 + BEHIND)
        assert (made.paused_until, made.plan_at) == (T0 + DAY, T0 + DAY)


def test_an_edit_that_enables_is_a_resume_without_catch_up() -> None:
    job = a_job(enabled=False, catch_up=ALL, paused_until=T0 + DAY)
    made = edited(job, changed(job, enabled=True), T0 + BEHIND)

    assert (fired(made), skipped(made)) == ([], [("paused", 1, 3, 3)])
    assert position(made) == (T0 + BEHIND, T0 + 4 * HOUR, T0 + 4 * HOUR)
    assert made.paused_until is None


def test_an_edit_that_disables_plans_what_is_due_and_stops() -> None:
    job = a_job(catch_up=ALL)
    made = edited(job, changed(job, enabled=False), T0 + BEHIND)

    assert fired(made) == [1, 2, 3]
    assert position(made) == (T0 + BEHIND, None, None)


@pytest.mark.parametrize("until", [None, T0 + DAY], ids=["for good", "until tomorrow"])
@pytest.mark.parametrize(("after", "runs"), [(UP_TO_DATE, []), (BEHIND, [1, 2, 3])], ids=["up to date", "behind"])
def test_a_pause_plans_what_is_due_and_stops(until: datetime | None, after: timedelta, runs: list[int]) -> None:
    made = paused(a_job(catch_up=ALL), T0 + after, until)

    assert (fired(made), skipped(made), made.definition.enabled) == (runs, [], False)
    assert position(made) == (T0 + after, None, until)
    assert made.paused_until == until


def test_a_pause_while_catching_up_leaves_the_rest_for_the_resume() -> None:
    made = paused(backlog(), T0 + 250 * MINUTE, None)
    asleep = replace(backlog(), definition=made.definition, cursor_at=made.cursor_at)

    assert (skipped(made, MINUTE), made.cursor_at) == ([], T0 + 100 * MINUTE)
    assert skipped(resumed(asleep, T0 + 300 * MINUTE, catch_up=False), MINUTE) == [("paused", 101, 300, 200)]


def test_pausing_again_changes_only_the_end() -> None:
    job = a_job(enabled=False, paused_until=T0 + HOUR, plan_at=T0 + HOUR)
    made = paused(job, T0 + BEHIND, T0 + DAY)

    assert (made.runs, made.skips, made.paused_until) == ((), (), T0 + DAY)
    assert position(made) == (T0, None, T0 + DAY)


def test_a_broken_job_can_be_paused() -> None:
    made = paused(a_job(BROKEN), T0 + BEHIND, None)

    assert (made.runs, made.skips) == ((), ())
    assert position(made) == (T0, None, None)


def test_a_pause_of_a_job_in_error_fires_nothing_for_the_past() -> None:
    made = paused(a_job(error="broken", catch_up=ALL), T0 + BEHIND, None)

    assert (fired(made), skipped(made)) == ([], [("edited", 1, 3, 3)])
    assert position(made) == (T0 + BEHIND, None, None)


@pytest.mark.parametrize("catch_up", CatchUp)
@pytest.mark.parametrize(
    ("after", "skips"), [(UP_TO_DATE, []), (BEHIND, [("paused", 1, 3, 3)])], ids=["up to date", "behind"]
)
def test_due_times_of_a_retired_job_get_no_run(catch_up: CatchUp, after: timedelta, skips: list[Skipped]) -> None:
    made = retired(a_job(catch_up=catch_up), T0 + after)

    assert (fired(made), skipped(made), made.definition.enabled) == ([], skips, False)
    assert position(made) == (T0 + after, None, None)


def test_retiring_a_job_that_is_paused_changes_nothing() -> None:
    job = a_job(enabled=False, paused_until=T0 + DAY, plan_at=T0 + DAY)
    made = retired(job, T0 + BEHIND)

    assert (made.definition, made.runs, made.skips, made.paused_until) == (job.definition, (), (), T0 + DAY)
    assert position(made) == (T0, None, T0 + DAY)


def test_a_job_in_error_or_never_planned_can_be_retired() -> None:
    broken, unseen = (retired(job, T0 + BEHIND) for job in (a_job(BROKEN), a_job(cursor_at=None)))

    assert (broken.runs, broken.skips, unseen.runs, unseen.skips) == ((), (), (), ())
    assert position(broken) == position(unseen) == (T0 + BEHIND, None, None)


@pytest.mark.parametrize("catch_up", CatchUp)
@pytest.mark.parametrize(
    ("after", "skips"), [(UP_TO_DATE, []), (BEHIND, [("paused", 1, 3, 3)])], ids=["up to date", "behind"]
)
def test_a_resume_never_fires_for_the_past(catch_up: CatchUp, after: timedelta, skips: list[Skipped]) -> None:
    made = resumed(a_job(catch_up=catch_up, enabled=False), T0 + after, catch_up=False)

    assert (fired(made), skipped(made), made.definition.enabled) == ([], skips, True)
    assert made.cursor_at == T0 + after
    assert made.next_at == made.plan_at == a_definition().parsed().next(T0 + after)


@pytest.mark.parametrize(
    ("catch_up", "runs", "skips"),
    [
        (CatchUp.LATEST, [3], [("missed", 1, 2, 2)]),
        (CatchUp.EARLIEST, [1], [("missed", 2, 3, 2)]),
        (CatchUp.ALL, [1, 2, 3], []),
        (CatchUp.NONE, [], [("missed", 1, 3, 3)]),
    ],
)
def test_a_resume_with_catch_up_plans_the_pause_as_missed(
    catch_up: CatchUp, runs: list[int], skips: list[Skipped]
) -> None:
    now = T0 + BEHIND
    made = resumed(a_job(catch_up=catch_up, enabled=False), now, catch_up=True)
    assert (made.runs, made.skips, *position(made)) == ((), (), T0, T0 + HOUR, now)

    planned = plan(replace(a_job(), definition=made.definition), now)
    assert (fired(planned), skipped(planned)) == (runs, skips)


@pytest.mark.parametrize("catch_up", [True, False], ids=["with catch-up", "without"])
def test_a_resume_of_a_job_nobody_has_planned_begins_now(catch_up: bool) -> None:
    made = resumed(a_job(enabled=False, cursor_at=None, catch_up=ALL), T0 + BEHIND, catch_up=catch_up)

    assert (made.runs, made.skips, made.cursor_at) == ((), (), T0 + BEHIND)


@pytest.mark.parametrize("catch_up", [True, False], ids=["with catch-up", "without"])
def test_a_resume_of_a_job_that_runs_changes_nothing(catch_up: bool) -> None:
    job = a_job(next_at=T0 + HOUR, plan_at=T0 + MINUTE)
    made = resumed(job, T0 + BEHIND, catch_up=catch_up)

    assert (made.runs, made.skips, made.definition) == ((), (), job.definition)
    assert position(made) == (T0, T0 + HOUR, T0 + MINUTE)


def test_a_resume_with_a_clock_that_went_back_begins_at_the_cursor() -> None:
    made = resumed(a_job(enabled=False), T0 - HOUR, catch_up=False)

    assert (made.runs, made.skips) == ((), ())
    assert position(made) == (T0, T0 + HOUR, T0 + HOUR)


def test_a_broken_job_is_not_resumed() -> None:
    with pytest.raises(ScheduleError):
        resumed(a_job(BROKEN, enabled=False), T0 + BEHIND, catch_up=False)


def test_a_change_without_an_instant_of_a_job_that_stops_its_others_stops_none() -> None:
    active = a_job(overlap=Overlap.CANCEL_RUNNING, unfinished=1)
    asleep = replace(active, definition=changed(active, enabled=False))
    changes = [
        created(active.definition, T0),
        edited(asleep, changed(asleep, payload=1), T0 + BEHIND),
        paused(asleep, T0 + BEHIND, None),
        retired(active, T0 + BEHIND),
        resumed(active, T0 + BEHIND, catch_up=False),
        resumed(asleep, T0 + BEHIND, catch_up=False),
        resumed(asleep, T0 + BEHIND, catch_up=True),
    ]

    assert [change.cancels_others for change in changes] == [False] * len(changes)


def with_changes(**more: Any) -> Job:
    """A job of which earlier versions, changed by plain SQL, are still to be planned."""
    return replace(a_job(catch_up=ALL, **more), has_changes=True)


def queued(change: Change) -> Sequence[object]:
    """Check that the change waits for the earlier versions, and return what it makes of the pause."""
    assert (change.is_queued, change.runs, change.skips) == (True, (), ())
    assert position(change) == (T0, None, T0 + BEHIND)
    return change.definition.enabled, change.paused_until


def test_a_change_takes_its_turn_behind_versions_that_are_not_planned_yet() -> None:
    active, asleep, now = with_changes(), with_changes(enabled=False, paused_until=T0 + DAY), T0 + BEHIND

    assert queued(edited(active, changed(active, schedule=HALF_PAST), now)) == (True, None)
    assert queued(edited(asleep, changed(asleep, schedule=HALF_PAST), now)) == (False, T0 + DAY)
    assert queued(edited(asleep, changed(asleep, enabled=True), now)) == (True, None)
    assert queued(paused(active, now, T0 + 2 * DAY)) == (False, T0 + 2 * DAY)
    assert queued(retired(active, now)) == (False, None)
    assert queued(resumed(asleep, now, catch_up=False)) == (True, None)


def test_a_resume_with_catch_up_waits_for_no_older_version() -> None:
    made = resumed(with_changes(enabled=False), T0 + BEHIND, catch_up=True)

    assert (made.is_queued, *position(made)) == (False, T0, T0 + HOUR, T0 + BEHIND)


def test_an_invalid_schedule_is_refused_even_behind_unplanned_versions() -> None:
    job = with_changes()

    with pytest.raises(ScheduleError, match="61 is outside 0-59"):
        edited(job, changed(job, schedule=BROKEN), T0 + BEHIND)


steps = st.builds(
    lambda unit, number, rest: unit * number + rest,
    st.sampled_from([SECOND, MINUTE, HOUR]),
    st.integers(-3, 36),
    st.sampled_from([timedelta(0), MICROSECOND]),
)
changes = st.fixed_dictionaries(
    {},
    optional={
        "schedule": st.sampled_from([MINUTELY, "0 * * * *", HALF_PAST, "H * * * *", "every 90s", "30 2 * * *"]),
        "timezone": st.sampled_from(["UTC", "America/New_York"]),
        "name": st.sampled_from(["job", "renamed"]),
        "catch_up": st.sampled_from(CatchUp),
        "overlap": st.sampled_from(Overlap),
        "enabled": st.booleans(),
        "ends_at": st.one_of(st.none(), st.integers(0, 50).map(lambda hours: T0 + hours * HOUR)),
        "description": st.text(max_size=3),
    },
)
doings = st.one_of(
    st.tuples(st.just("plan"), st.none()),
    st.tuples(st.just("edit"), changes),
    st.tuples(st.just("pause"), st.one_of(st.none(), st.integers(-1, 30))),
    st.tuples(st.just("resume"), st.booleans()),
)


def do(ledger: Ledger, doing: str, how: Any, now: datetime) -> None:
    """Let a user do something to the job, or the planner look at it."""
    job = ledger.loaded
    match doing:
        case "plan":
            ledger.plan(now)
        case "edit":
            ledger.change(edited(job, changed(job, **how), now, drop_backlog=True))
        case "pause":
            ledger.change(paused(job, now, None if how is None else now + how * HOUR))
        case "resume":
            ledger.change(resumed(job, now, catch_up=how))


@examples(300)
@given(changes, st.lists(st.tuples(steps, doings, st.sampled_from([0, 2, 1_000])), max_size=10))
def test_whatever_is_done_to_a_job_every_instant_is_accounted_for_once(
    first: dict[str, Any], story: list[tuple[timedelta, tuple[str, Any], int]]
) -> None:
    ledger, now = Ledger(a_job(cursor_at=None)), T0
    ledger.change(created(replace(a_definition(), **first), now))
    for step, (doing, how), ended in story:
        now += step
        ledger.finish(ended)
        do(ledger, doing, how, now)

    ledger.check()
