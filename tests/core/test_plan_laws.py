"""Laws of planning for every job, whatever its policies, its outages and the limits of a pass."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.job.definition import Job
from hourbell.core.run.plan import MAX_PASS_OCCURRENCES, MAX_WAITING_RUNS, plan
from hourbell.core.run.policies import CatchUp, Overlap
from hourbell.core.run.run import scheduled_run_id
from tests.core.ledger import Ledger
from tests.core.schedule.strategies import examples
from tests.core.values import HOUR, MICROSECOND, MINUTE, SECOND, T0, a_job, position

SCHEDULES = [
    ("* * * * *", "UTC"),
    ("*/7 * * * *", "Asia/Kathmandu"),
    ("*/20 * * * * *", "UTC"),
    ("0 * * * *", "Australia/Lord_Howe"),
    ("30 2 * * *", "America/New_York"),
    ("0 0,12 * * 1-5", "Pacific/Apia"),
    ("every 90s", "UTC"),
    ("every 7h from 2026-01-01T00:00:00Z", "UTC"),
    ("at 2026-03-02T18:30:00Z", "UTC"),
    ("yearly 03-08 02:30", "America/New_York"),
    ("RRULE:FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0", "Europe/Paris"),
    ("0 0 30 2 *", "UTC"),
]

pieces = st.builds(
    lambda unit, number, rest: unit * number + rest,
    st.sampled_from([SECOND, MINUTE, HOUR]),
    st.integers(0, 36),
    st.sampled_from([timedelta(0), MICROSECOND, 500_000 * MICROSECOND]),
)
forward = st.one_of(st.just(timedelta(0)), pieces)
any_way = st.one_of(forward, forward, pieces.map(lambda piece: -piece))
bounds = st.one_of(st.none(), st.none(), st.integers(-40, 80).map(lambda hours: T0 + hours * HOUR))


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    schedule, timezone = draw(st.sampled_from(SCHEDULES))
    policies: dict[str, Any] = {
        "catch_up": draw(st.sampled_from(CatchUp)),
        "catch_up_window": draw(st.one_of(st.none(), pieces)),
        "overlap": draw(st.sampled_from(Overlap)),
        "late_after": draw(st.sampled_from([timedelta(0), 5 * MINUTE])),
        "jitter": draw(st.sampled_from([timedelta(0), 10 * MINUTE])),
        "starts_at": draw(bounds),
        "ends_at": draw(bounds),
    }
    return a_job(schedule, timezone=timezone, cursor_at=None, **policies)


def passes(steps: st.SearchStrategy[timedelta]) -> st.SearchStrategy[list[tuple[timedelta, int]]]:
    """Moments by their distance from the one before, and how many runs have ended since."""
    return st.lists(st.tuples(steps, st.sampled_from([0, 0, 1, 2, 1_000])), min_size=1, max_size=8)


others = st.sampled_from([0, 0, 0, 950, MAX_WAITING_RUNS - 1, MAX_WAITING_RUNS])


def moments(ledger: Ledger, steps: list[tuple[timedelta, int]]) -> list[datetime]:
    """Plan at each moment in turn."""
    now = T0
    found = [now]
    ledger.plan(now)
    for step, ended in steps:
        now += step
        ledger.finish(ended)
        ledger.plan(now)
        found.append(now)
    return found


@examples(300)
@given(jobs(), others, passes(forward))
def test_every_instant_up_to_the_cursor_is_a_run_or_in_exactly_one_skip(
    job: Job, waiting: int, steps: list[tuple[timedelta, int]]
) -> None:
    ledger = Ledger(job, waiting)
    moments(ledger, steps)

    assert ledger.total == ledger.count()
    ledger.check()


@examples(200)
@given(jobs(), others, passes(any_way))
def test_every_instant_is_accounted_for_with_a_clock_that_sometimes_steps_back(
    job: Job, waiting: int, steps: list[tuple[timedelta, int]]
) -> None:
    ledger = Ledger(job, waiting)
    found = moments(ledger, steps)

    ledger.check()
    assert ledger.job.cursor_at is not None
    assert T0 <= ledger.job.cursor_at <= max(found)


@examples(150)
@given(jobs(), passes(forward))
def test_a_backlog_is_planned_to_its_end(job: Job, steps: list[tuple[timedelta, int]]) -> None:
    ledger = Ledger(job)
    now = moments(ledger, steps)[-1]
    while (at := ledger.job.plan_at) is not None and at <= now:
        ledger.finish(MAX_WAITING_RUNS)
        ledger.plan(now)

    ledger.check()
    assert ledger.job.next_at is None or ledger.job.next_at > now


@examples(200)
@given(jobs(), others, passes(any_way))
def test_a_pass_keeps_to_its_limits(job: Job, waiting: int, steps: list[tuple[timedelta, int]]) -> None:
    ledger, now = Ledger(job, waiting), T0
    for step, _ in steps:
        now += step
        made = ledger.plan(now)

        assert len(made.runs) <= MAX_PASS_OCCURRENCES
        assert waiting + len(ledger.unfinished) <= MAX_WAITING_RUNS
        assert made.error is None


@examples(200)
@given(jobs(), others, passes(any_way))
def test_planning_twice_at_one_moment_is_planning_once(
    job: Job, waiting: int, steps: list[tuple[timedelta, int]]
) -> None:
    ledger = Ledger(job, waiting)
    now = moments(ledger, steps)[-1]
    ledger.plan_all(now)

    again = plan(ledger.loaded, now)
    assert (again.runs, again.skips, again.cancels_others) == ((), (), False)
    assert position(again) == (ledger.job.cursor_at, ledger.job.next_at, ledger.job.plan_at)


@examples(150)
@given(jobs(), forward, passes(forward))
def test_a_run_is_what_its_job_and_instant_make_it(
    job: Job, late: timedelta, steps: list[tuple[timedelta, int]]
) -> None:
    ledger = Ledger(job)
    now = moments(ledger, steps)[-1]

    for run in plan(replace(ledger.loaded, unfinished=0), now + late).runs:
        assert run.id == scheduled_run_id(job.id, run.scheduled_at)
        assert run.scheduled_at <= run.ready_at <= run.scheduled_at + job.definition.jitter
        assert run.scheduled_at <= now + late < run.expires_at
        occurrence = job.definition.parsed().next_occurrence(run.scheduled_at - MICROSECOND)
        assert occurrence is not None
        assert (run.scheduled_at, run.local_at) == (occurrence.at, occurrence.local)


@examples(150)
@given(jobs(), passes(forward))
def test_without_drops_the_moment_of_planning_does_not_matter(job: Job, steps: list[tuple[timedelta, int]]) -> None:
    eager = replace(job.definition, catch_up=CatchUp.ALL, catch_up_window=None, overlap=Overlap.ALLOW)
    often, once = Ledger(replace(job, definition=eager)), Ledger(replace(job, definition=eager))
    now = moments(often, [(step, MAX_WAITING_RUNS) for step, _ in steps])[-1]
    moments(once, [(now - T0, 0)])

    shared = min(len(often.runs), len(once.runs))
    assert list(often.runs)[:shared] == list(once.runs)[:shared]
