"""Plans of due times, policy by policy. Hours and minutes are counted from T0, the job's cursor."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hourbell.core.job.definition import Job
from hourbell.core.run.plan import MAX_PASS_OCCURRENCES, MAX_WAITING_RUNS, Plan, first_instant, plan, skip_range
from hourbell.core.run.policies import CatchUp, Overlap, Priority, Rank
from hourbell.core.run.run import jitter_of, scheduled_run_id
from hourbell.core.run.states import SkipReason
from tests.core.values import (
    BROKEN,
    DAY,
    HOUR,
    HOURLY,
    JOB,
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

NEW_YORK = "America/New_York"
LATEST, EARLIEST, ALL, NONE = CatchUp.LATEST, CatchUp.EARLIEST, CatchUp.ALL, CatchUp.NONE

ON_TIME = HOUR
A_SECOND_LATE = HOUR + SECOND
THREE_DUE = 3 * HOUR  # and the newest is on time
THREE_LATE = 3 * HOUR + 30 * MINUTE
A_DAY_LATE = 24 * HOUR + 30 * MINUTE


@pytest.mark.parametrize("window", [None, 2 * HOUR], ids=["no window", "window"])
@pytest.mark.parametrize("catch_up", CatchUp)
@pytest.mark.parametrize("after", [ON_TIME, A_SECOND_LATE], ids=["on time", "1 s late"])
def test_an_instant_that_is_on_time_runs_whatever_is_done_about_missed_ones(
    catch_up: CatchUp, window: timedelta | None, after: timedelta
) -> None:
    made = plan(a_job(catch_up=catch_up, catch_up_window=window), T0 + after)

    assert (fired(made), skipped(made)) == ([1], [])
    assert position(made) == (T0 + after, T0 + 2 * HOUR, T0 + 2 * HOUR)


@pytest.mark.parametrize(
    ("catch_up", "after", "runs", "skips"),
    [
        pytest.param(LATEST, THREE_DUE, [3], [("missed", 1, 2, 2)], id="latest, 3 due"),
        pytest.param(EARLIEST, THREE_DUE, [1], [("missed", 2, 3, 2)], id="earliest, 3 due"),
        pytest.param(ALL, THREE_DUE, [1, 2, 3], [], id="all, 3 due"),
        pytest.param(NONE, THREE_DUE, [3], [("missed", 1, 2, 2)], id="none, 3 due, the newest on time"),
        pytest.param(LATEST, THREE_LATE, [3], [("missed", 1, 2, 2)], id="latest, 3 late"),
        pytest.param(EARLIEST, THREE_LATE, [1], [("missed", 2, 3, 2)], id="earliest, 3 late"),
        pytest.param(ALL, THREE_LATE, [1, 2, 3], [], id="all, 3 late"),
        pytest.param(NONE, THREE_LATE, [], [("missed", 1, 3, 3)], id="none, 3 late"),
        pytest.param(LATEST, A_DAY_LATE, [24], [("missed", 1, 23, 23)], id="latest, a day late"),
        pytest.param(EARLIEST, A_DAY_LATE, [1], [("missed", 2, 24, 23)], id="earliest, a day late"),
        pytest.param(ALL, A_DAY_LATE, list(range(1, 25)), [], id="all, a day late"),
        pytest.param(NONE, A_DAY_LATE, [], [("missed", 1, 24, 24)], id="none, a day late"),
    ],
)
def test_missed_instants_run_or_are_skipped_by_catch_up(
    catch_up: CatchUp, after: timedelta, runs: list[int], skips: list[Skipped]
) -> None:
    made = plan(a_job(catch_up=catch_up), T0 + after)

    assert (fired(made), skipped(made)) == (runs, skips)
    assert made.cursor_at == T0 + after


@pytest.mark.parametrize(
    ("catch_up", "after", "runs", "skips"),
    [
        pytest.param(LATEST, THREE_LATE, [3], [("window", 1, 1, 1), ("missed", 2, 2, 1)], id="latest, 3 late"),
        pytest.param(EARLIEST, THREE_LATE, [2], [("window", 1, 1, 1), ("missed", 3, 3, 1)], id="earliest, 3 late"),
        pytest.param(ALL, THREE_LATE, [2, 3], [("window", 1, 1, 1)], id="all, 3 late"),
        pytest.param(NONE, THREE_LATE, [], [("window", 1, 1, 1), ("missed", 2, 3, 2)], id="none, 3 late"),
        pytest.param(LATEST, A_DAY_LATE, [24], [("window", 1, 22, 22), ("missed", 23, 23, 1)], id="latest, a day"),
        pytest.param(EARLIEST, A_DAY_LATE, [23], [("window", 1, 22, 22), ("missed", 24, 24, 1)], id="earliest, a day"),
        pytest.param(ALL, A_DAY_LATE, [23, 24], [("window", 1, 22, 22)], id="all, a day"),
        pytest.param(NONE, A_DAY_LATE, [], [("window", 1, 22, 22), ("missed", 23, 24, 2)], id="none, a day"),
    ],
)
def test_within_a_window_of_two_hours_older_instants_are_left_out(
    catch_up: CatchUp, after: timedelta, runs: list[int], skips: list[Skipped]
) -> None:
    made = plan(a_job(catch_up=catch_up, catch_up_window=2 * HOUR), T0 + after)

    assert (fired(made), skipped(made)) == (runs, skips)


@pytest.mark.parametrize(
    ("after", "runs"),
    [(3 * HOUR, [1, 2, 3]), (3 * HOUR + MICROSECOND, [2, 3])],
    ids=["just inside", "just outside"],
)
def test_a_window_includes_its_edge(after: timedelta, runs: list[int]) -> None:
    made = plan(a_job(catch_up=ALL, catch_up_window=2 * HOUR), T0 + after)

    assert fired(made) == runs


def test_a_window_of_ten_thousand_years_is_no_window() -> None:
    made = plan(a_job(catch_up=ALL, catch_up_window=timedelta(days=3_650_000)), T0 + THREE_LATE)

    assert (fired(made), skipped(made)) == ([1, 2, 3], [])


@pytest.mark.parametrize(
    ("late_after", "runs"), [(30 * MINUTE, [3]), (30 * MINUTE - SECOND, [])], ids=["on time", "late"]
)
def test_catch_up_none_runs_times_that_are_not_yet_late(late_after: timedelta, runs: list[int]) -> None:
    assert fired(plan(a_job(catch_up=NONE, late_after=late_after), T0 + THREE_LATE)) == runs


@pytest.mark.parametrize(
    ("overlap", "unfinished", "runs", "skips"),
    [
        (Overlap.ALLOW, 0, [1, 2, 3], []),
        (Overlap.ALLOW, 2, [1, 2, 3], []),
        (Overlap.QUEUE_ALL, 0, [1, 2, 3], []),
        (Overlap.QUEUE_ALL, 2, [1, 2, 3], []),
        (Overlap.QUEUE_ONE, 0, [1, 2], [("overlap", 3, 3, 1)]),
        (Overlap.QUEUE_ONE, 1, [1], [("overlap", 2, 3, 2)]),
        (Overlap.QUEUE_ONE, 2, [], [("overlap", 1, 3, 3)]),
        (Overlap.QUEUE_ONE, 3, [], [("overlap", 1, 3, 3)]),
        (Overlap.SKIP, 0, [1], [("overlap", 2, 3, 2)]),
        (Overlap.SKIP, 1, [], [("overlap", 1, 3, 3)]),
        (Overlap.SKIP, 2, [], [("overlap", 1, 3, 3)]),
        (Overlap.CANCEL_RUNNING, 0, [3], [("overlap", 1, 2, 2)]),
        (Overlap.CANCEL_RUNNING, 1, [3], [("overlap", 1, 2, 2)]),
        (Overlap.CANCEL_RUNNING, 2, [3], [("overlap", 1, 2, 2)]),
    ],
)
def test_overlap_applies_to_three_instants_in_one_pass(
    overlap: Overlap, unfinished: int, runs: list[int], skips: list[Skipped]
) -> None:
    made = plan(a_job(catch_up=ALL, overlap=overlap, unfinished=unfinished), T0 + THREE_DUE)

    assert (fired(made), skipped(made)) == (runs, skips)
    assert made.cursor_at == T0 + THREE_DUE


@pytest.mark.parametrize(
    ("overlap", "fires_at"),
    [
        (Overlap.ALLOW, {0, 1, 2}),
        (Overlap.QUEUE_ALL, {0, 1, 2}),
        (Overlap.QUEUE_ONE, {0, 1}),
        (Overlap.SKIP, {0}),
        (Overlap.CANCEL_RUNNING, {0, 1, 2}),
    ],
)
@pytest.mark.parametrize("unfinished", [0, 1, 2])
def test_overlap_applies_to_one_instant(overlap: Overlap, fires_at: set[int], unfinished: int) -> None:
    made = plan(a_job(overlap=overlap, unfinished=unfinished), T0 + HOUR)

    fires = unfinished in fires_at
    assert (fired(made), skipped(made)) == (([1], []) if fires else ([], [("overlap", 1, 1, 1)]))


@pytest.mark.parametrize("overlap", Overlap)
@pytest.mark.parametrize("unfinished", [0, 1])
def test_only_cancel_running_stops_others_and_only_if_there_are_any(overlap: Overlap, unfinished: int) -> None:
    made = plan(a_job(overlap=overlap, unfinished=unfinished), T0 + HOUR)

    assert made.cancels_others == (overlap is Overlap.CANCEL_RUNNING and unfinished > 0)


def test_other_runs_are_stopped_only_for_a_run_that_is_planned() -> None:
    running = a_job(overlap=Overlap.CANCEL_RUNNING, unfinished=1, catch_up=NONE)

    assert not plan(running, T0 + MINUTE).cancels_others  # nothing is due
    assert not plan(running, T0 + THREE_LATE).cancels_others  # all that is due was missed


def test_a_missed_instant_and_an_overlapping_one_are_separate_skips() -> None:
    made = plan(a_job(overlap=Overlap.SKIP, unfinished=1), T0 + THREE_LATE)

    assert skipped(made) == [("missed", 1, 2, 2), ("overlap", 3, 3, 1)]


def test_a_skip_names_the_instant_it_follows() -> None:
    made = plan(a_job(overlap=Overlap.SKIP, unfinished=1), T0 + THREE_LATE)

    assert [skip.follows for skip in made.skips] == [T0, T0 + 2 * HOUR]


def backlog(**more: object) -> Job:
    return a_job(MINUTELY, catch_up=ALL, **more)


def test_a_pass_plans_a_hundred_instants_and_queues_behind_other_jobs() -> None:
    now = T0 + 250 * MINUTE
    made = plan(backlog(), now)

    assert fired(made, MINUTE) == list(range(1, MAX_PASS_OCCURRENCES + 1))
    assert position(made) == (T0 + 100 * MINUTE, T0 + 101 * MINUTE, now)


def test_a_pass_that_ends_with_its_hundredth_instant_leaves_nothing() -> None:
    now = T0 + 100 * MINUTE
    made = plan(backlog(), now)

    assert len(made.runs) == 100
    assert position(made) == (now, now + MINUTE, now + MINUTE)


@pytest.mark.parametrize(("waiting", "runs"), [(899, 100), (900, 100), (950, 50), (999, 1)])
def test_no_more_than_a_thousand_runs_of_a_job_wait(waiting: int, runs: int) -> None:
    now = T0 + 250 * MINUTE
    made = plan(backlog(waiting=waiting), now)

    assert len(made.runs) == runs
    assert position(made) == (T0 + runs * MINUTE, T0 + (runs + 1) * MINUTE, now)


@pytest.mark.parametrize("catch_up", CatchUp)
@pytest.mark.parametrize("waiting", [MAX_WAITING_RUNS, MAX_WAITING_RUNS + 1])
def test_a_job_with_too_many_waiting_runs_is_planned_again_later(catch_up: CatchUp, waiting: int) -> None:
    now = T0 + THREE_LATE
    made = plan(a_job(catch_up=catch_up, waiting=waiting), now)

    assert (made.runs, made.skips, made.cancels_others) == ((), (), False)
    assert position(made) == (T0, T0 + HOUR, now + 2 * SECOND)


def test_a_backlog_is_counted_not_walked() -> None:
    made = plan(a_job("* * * * * *"), T0 + 3_650 * DAY)

    assert [skip.count for skip in made.skips] == [3_650 * 86_400 - 1]


@pytest.mark.parametrize(
    ("starts", "ends", "runs"),
    [
        (2 * HOUR, None, [2, 3, 4, 5]),
        (2 * HOUR + MICROSECOND, None, [3, 4, 5]),
        (None, 4 * HOUR, [1, 2, 3, 4]),
        (None, 4 * HOUR - MICROSECOND, [1, 2, 3]),
        (2 * HOUR, 4 * HOUR, [2, 3, 4]),
        (3 * HOUR, 3 * HOUR, [3]),
        (-HOUR, 9 * HOUR, [1, 2, 3, 4, 5]),
        (6 * HOUR, None, []),
        (None, -HOUR, []),
        (4 * HOUR, 2 * HOUR, []),
    ],
)
def test_starts_and_ends_include_their_instant(
    starts: timedelta | None, ends: timedelta | None, runs: list[int]
) -> None:
    bounds = {"starts_at": starts and T0 + starts, "ends_at": ends and T0 + ends}

    made = plan(a_job(catch_up=ALL, **bounds), T0 + 5 * HOUR)
    assert (fired(made), skipped(made), made.cursor_at) == (runs, [], T0 + 5 * HOUR)


@pytest.mark.parametrize("catch_up", [LATEST, EARLIEST, NONE])
def test_a_job_that_has_ended_skips_only_what_lay_within_it(catch_up: CatchUp) -> None:
    made = plan(a_job(catch_up=catch_up, ends_at=T0 + 4 * HOUR, starts_at=T0 + 2 * HOUR), T0 + DAY)

    assert len(made.runs) + sum(skip.count for skip in made.skips) == 3
    assert (made.next_at, made.plan_at) == (None, None)


@pytest.mark.parametrize("after", [ON_TIME, A_DAY_LATE], ids=["before the end", "after the end"])
def test_a_window_and_an_end_leave_out_nothing_twice(after: timedelta) -> None:
    made = plan(a_job(catch_up=ALL, catch_up_window=2 * HOUR, ends_at=T0 + 4 * HOUR), T0 + after)

    assert len(made.runs) + sum(skip.count for skip in made.skips) == (1 if after == ON_TIME else 4)


def test_a_job_that_starts_later_is_planned_when_it_starts() -> None:
    made = plan(a_job(starts_at=T0 + DAY), T0 + MINUTE)

    assert position(made) == (T0 + MINUTE, T0 + DAY, T0 + DAY)


def test_jitter_delays_a_run_and_moves_no_instant() -> None:
    [run] = plan(a_job(jitter=10 * MINUTE), T0 + HOUR).runs

    assert run.scheduled_at == T0 + HOUR
    assert run.ready_at == T0 + HOUR + jitter_of(JOB, T0 + HOUR, 10 * MINUTE)
    assert run.id == scheduled_run_id(JOB, T0 + HOUR)


def test_jitter_is_the_same_however_late_it_is_planned() -> None:
    ready = {plan(a_job(jitter=10 * MINUTE), T0 + HOUR + late).runs[0].ready_at for late in (0 * HOUR, SECOND, MINUTE)}

    assert len(ready) == 1


def test_jitter_stays_before_the_next_instant() -> None:
    runs = plan(a_job(MINUTELY, jitter=DAY, catch_up=ALL), T0 + HOUR).runs

    assert len({run.ready_at - run.scheduled_at for run in runs}) == 60
    assert all(run.scheduled_at <= run.ready_at < run.scheduled_at + MINUTE for run in runs)


def test_jitter_of_the_last_instant_is_limited_only_by_its_maximum() -> None:
    [run] = plan(a_job("at 2026-03-02T10:00:00Z", jitter=DAY), T0 + HOUR).runs

    assert run.ready_at == T0 + HOUR + jitter_of(JOB, T0 + HOUR, DAY)


@pytest.mark.parametrize(
    ("priority", "late", "rank"),
    [
        (Priority.HIGH, 5 * MINUTE, Rank.HIGH),
        (Priority.HIGH, 5 * MINUTE + SECOND, Rank.NORMAL),
        (Priority.NORMAL, 5 * MINUTE, Rank.NORMAL),
        (Priority.NORMAL, 5 * MINUTE + SECOND, Rank.LOW),
        (Priority.LOW, 5 * MINUTE, Rank.LOW),
        (Priority.LOW, 5 * MINUTE + SECOND, Rank.LATE_LOW),
    ],
)
def test_a_run_planned_late_has_one_priority_level_less(priority: Priority, late: timedelta, rank: Rank) -> None:
    [run] = plan(a_job(priority=priority), T0 + HOUR + late).runs

    assert run.rank is rank


def test_each_run_of_a_pass_is_late_on_its_own() -> None:
    runs = plan(a_job(MINUTELY, catch_up=ALL, late_after=MINUTE), T0 + 3 * MINUTE).runs

    assert [run.rank for run in runs] == [Rank.LOW, Rank.NORMAL, Rank.NORMAL]


def test_a_run_expires_max_age_after_it_was_planned_however_late_that_was() -> None:
    [run] = plan(a_job(max_age=2 * HOUR), T0 + A_DAY_LATE).runs

    assert run.expires_at == T0 + A_DAY_LATE + 2 * HOUR


@pytest.mark.parametrize(
    ("cursor", "local", "at"),
    [
        ("2026-03-06 12:00", "2026-03-07 02:30", "2026-03-07 07:30"),
        ("2026-03-07 12:00", "2026-03-08 02:30", "2026-03-08 07:00"),
        ("2026-03-08 12:00", "2026-03-09 02:30", "2026-03-09 06:30"),
    ],
    ids=["the day before", "in the gap, run at its end", "the day after"],
)
def test_a_run_stores_its_local_time(cursor: str, local: str, at: str) -> None:
    after = datetime.fromisoformat(cursor).replace(tzinfo=UTC)
    [run] = plan(a_job("30 2 * * *", timezone=NEW_YORK, cursor_at=after), after + DAY).runs

    assert run.scheduled_at == datetime.fromisoformat(at).replace(tzinfo=UTC)
    assert run.local_at == datetime.fromisoformat(local)


def test_the_name_of_a_job_sets_the_values_of_its_h_fields() -> None:
    at = {plan(a_job("H H * * *", name=name), T0 + DAY).runs[0].scheduled_at for name in ("a", "b", "c")}

    assert len(at) == 3


@pytest.mark.parametrize("catch_up", CatchUp)
def test_a_job_seen_for_the_first_time_never_fires_for_the_past(catch_up: CatchUp) -> None:
    now = T0 + A_DAY_LATE
    made = plan(a_job(catch_up=catch_up, cursor_at=None), now)

    assert (made.runs, made.skips) == ((), ())
    assert position(made) == (now, T0 + 25 * HOUR, T0 + 25 * HOUR)


def test_a_job_adopted_at_its_very_instant_fires_at_the_next() -> None:
    made = plan(a_job(cursor_at=None), T0)

    assert (made.runs, made.next_at) == ((), T0 + HOUR)


@pytest.mark.parametrize("paused", [{}, {"enabled": False, "paused_until": T0}], ids=["running", "end of a pause"])
def test_a_job_adopted_again_by_a_clock_that_is_behind_plans_no_instant_again(paused: dict[str, object]) -> None:
    made = plan(a_job(cursor_at=None, newest_at=T0 + 2 * HOUR, **paused), T0 + HOUR)

    assert (made.runs, made.skips) == ((), ())
    assert position(made) == (T0 + 2 * HOUR, T0 + 3 * HOUR, T0 + 3 * HOUR)


@pytest.mark.parametrize("now", [T0, T0 - MICROSECOND, T0 - DAY], ids=["stands still", "1 us back", "a day back"])
def test_a_clock_that_stepped_back_moves_nothing(now: datetime) -> None:
    made = plan(a_job(catch_up=ALL), now)

    assert (made.runs, made.skips) == ((), ())
    assert position(made) == (T0, T0 + HOUR, T0 + HOUR)


def test_nothing_is_due_between_two_instants() -> None:
    made = plan(a_job(), T0 + HOUR - MICROSECOND)

    assert (made.runs, made.skips) == ((), ())
    assert position(made) == (T0 + HOUR - MICROSECOND, T0 + HOUR, T0 + HOUR)


@pytest.mark.parametrize(
    "broken",
    [{"schedule": BROKEN}, {"timezone": "Mars/Base"}, {"dst": "never"}, {"schedule": BROKEN, "enabled": False}],
    ids=["schedule", "timezone", "dst", "paused too"],
)
def test_a_schedule_that_cannot_be_read_sets_an_error_and_nothing_else(broken: dict[str, object]) -> None:
    job = a_job(**broken)
    made = plan(job, T0 + DAY)

    assert made.error
    assert made == Plan(job, T0, None, None, error=made.error)


def test_a_job_that_was_fixed_loses_its_error() -> None:
    assert plan(a_job(error="it was broken"), T0 + HOUR).error is None


@pytest.mark.parametrize("catch_up", CatchUp)
def test_a_paused_job_plans_nothing(catch_up: CatchUp) -> None:
    made = plan(a_job(catch_up=catch_up, enabled=False), T0 + A_DAY_LATE)

    assert (made.runs, made.skips, made.resumes) == ((), (), False)
    assert position(made) == (T0, None, None)


def test_a_pause_with_an_end_is_planned_when_it_ends() -> None:
    made = plan(a_job(enabled=False, paused_until=T0 + 3 * HOUR), T0 + 2 * HOUR)

    assert (made.runs, made.skips, made.resumes) == ((), (), False)
    assert position(made) == (T0, None, T0 + 3 * HOUR)


def test_a_pause_that_ends_leaves_one_skip() -> None:
    made = plan(a_job(enabled=False, paused_until=T0 + 3 * HOUR), T0 + 3 * HOUR)

    assert (made.runs, skipped(made), made.resumes) == ((), [("paused", 1, 3, 3)], True)
    assert position(made) == (T0 + 3 * HOUR, T0 + 4 * HOUR, T0 + 4 * HOUR)


def test_a_time_after_the_end_of_a_pause_is_not_skipped_by_it() -> None:
    made = plan(a_job(enabled=False, catch_up=ALL, paused_until=T0 + 3 * HOUR), T0 + 5 * HOUR)
    assert (skipped(made), made.next_at, made.plan_at) == ([("paused", 1, 3, 3)], T0 + 4 * HOUR, T0 + 4 * HOUR)

    awake = a_job(catch_up=ALL, cursor_at=made.cursor_at)
    assert fired(plan(awake, T0 + 5 * HOUR)) == [4, 5]


def test_a_pause_that_ends_before_the_cursor_skips_nothing() -> None:
    made = plan(a_job(enabled=False, paused_until=T0 - HOUR), T0 + MINUTE)

    assert (made.skips, made.resumes) == ((), True)
    assert position(made) == (T0, T0 + HOUR, T0 + HOUR)


def test_a_paused_job_that_was_never_planned_begins_when_its_pause_ends() -> None:
    made = plan(a_job(enabled=False, cursor_at=None, paused_until=T0), T0 + MINUTE)

    assert (made.runs, made.skips, made.resumes) == ((), (), True)
    assert position(made) == (T0 + MINUTE, T0 + HOUR, T0 + HOUR)


@pytest.mark.parametrize("late", [0 * HOUR, MINUTE, 2 * DAY], ids=["on time", "a minute late", "after two days"])
def test_a_one_shot_job_fires_once_however_late(late: timedelta) -> None:
    now = T0 + HOUR + late
    made = plan(a_job("at 2026-03-02T10:00:00Z", catch_up=ALL), now)

    assert (fired(made), made.skips) == ([1], ())
    assert position(made) == (now, None, None)


def test_a_one_shot_job_that_fired_never_fires_again() -> None:
    job = a_job("at 2026-03-02T10:00:00Z", catch_up=ALL, cursor_at=T0 + HOUR)

    assert plan(job, T0 + DAY).runs == ()


def test_a_birthday_survives_an_outage_of_two_days() -> None:
    job = a_job("yearly 03-03 09:00", timezone="Europe/Paris", catch_up=ALL)
    made = plan(job, T0 + 2 * DAY)

    assert [run.local_at.isoformat() for run in made.runs] == ["2026-03-03T09:00:00"]
    assert made.next_at == datetime(2027, 3, 3, 8, tzinfo=UTC)


def test_three_birthdays_survive_an_outage_of_three_years() -> None:
    made = plan(a_job("yearly 02-29 09:00", catch_up=ALL), T0 + 3 * 366 * DAY)

    assert [run.local_at.date().isoformat() for run in made.runs] == ["2027-02-28", "2028-02-29", "2029-02-28"]


@pytest.mark.parametrize("catch_up", CatchUp)
@pytest.mark.parametrize("after", [ON_TIME, THREE_LATE, A_DAY_LATE])
def test_planning_twice_at_the_same_moment_changes_nothing_the_second_time(catch_up: CatchUp, after: timedelta) -> None:
    job = a_job(catch_up=catch_up)
    first = plan(job, T0 + after)

    again = plan(replace(job, cursor_at=first.cursor_at, next_at=first.next_at), T0 + after)
    assert (again.runs, again.skips) == ((), ())
    assert position(again) == position(first)


@pytest.mark.parametrize(
    ("after", "found"),
    [(-HOUR, 2), (2 * HOUR - MICROSECOND, 2), (2 * HOUR, 3), (4 * HOUR - MICROSECOND, 4), (4 * HOUR, None)],
)
def test_the_first_instant_lies_within_starts_and_ends(after: timedelta, found: int | None) -> None:
    definition = a_definition(starts_at=T0 + 2 * HOUR, ends_at=T0 + 4 * HOUR)

    instant = first_instant(definition, definition.parsed(), T0 + after)
    assert instant == (None if found is None else T0 + found * HOUR)


@pytest.mark.parametrize(
    ("after", "until", "within", "first", "last", "count"),
    [
        (T0, T0 + HOUR, {}, 1, 1, 1),  # the end counts, the beginning does not
        (T0, T0 + 3 * HOUR, {}, 1, 3, 3),
        (T0 - HOUR, T0 + 3 * HOUR, {"starts_at": T0 + HOUR}, 1, 3, 3),
        (T0 - HOUR, T0 + 3 * HOUR, {"starts_at": T0 + HOUR + SECOND}, 2, 3, 2),
        (T0, T0 + 3 * HOUR, {"ends_at": T0 + 2 * HOUR}, 1, 2, 2),
        (T0, T0 + 3 * HOUR, {"ends_at": T0 + HOUR}, 1, 1, 1),
    ],
)
def test_a_range_is_skipped_up_to_its_end_and_within_the_life_of_the_job(
    after: datetime, until: datetime, within: dict[str, datetime], first: int, last: int, count: int
) -> None:
    [skip] = skip_range(a_definition(HOURLY, **within), after, until, SkipReason.PAUSED)

    assert (skip.first_at, skip.last_at, skip.count) == (T0 + first * HOUR, T0 + last * HOUR, count)
    assert skip.follows == T0 + (first - 1) * HOUR


@pytest.mark.parametrize("until", [T0 - HOUR, T0, T0 + HOUR - SECOND])
def test_a_range_without_an_instant_is_no_skip(until: datetime) -> None:
    assert skip_range(a_definition(HOURLY), T0, until, SkipReason.PAUSED) == []
