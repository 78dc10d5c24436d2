"""The scenarios of the source documents, as far as they are decisions: RAT's eight cases and four recoveries."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from hourbell.core.job.definition import Job
from hourbell.core.run.plan import plan
from hourbell.core.run.policies import RETRY_PRESETS, CatchUp, RetryPolicy
from hourbell.core.run.run import NewRun, Run
from hourbell.core.run.settle import Failed, Succeeded, settle, settle_lost
from hourbell.core.run.states import MOVES, Kind, Reason, RunState
from tests.core.values import BROKEN, DAY, HOUR, MINUTE, SECOND, T0, a_job, fired, skipped

DEFAULT, FIXED = RETRY_PRESETS["default"], RETRY_PRESETS["fixed"]


def claimed(new: NewRun, job: Job) -> Run:
    """A planned run in its first attempt."""
    return Run(
        new.id, job.id, job.version, Kind.SCHEDULED, new.scheduled_at, new.ready_at, new.expires_at,
        RunState.RUNNING, job.definition.lane, attempt=1, failures=0, crashes=0,
    )  # fmt: skip


def message(number: int, at: datetime) -> Job:
    """A job that fires once."""
    return replace(a_job(f"at {at:%Y-%m-%dT%H:%M:%SZ}", catch_up=CatchUp.ALL), id=UUID(int=number))


class TestRatADR004:
    def test_no_jobs_give_no_runs(self) -> None:
        made = plan(a_job("0 0 30 2 *"), T0 + DAY)

        assert (made.runs, made.skips, made.next_at, made.plan_at) == ((), (), None, None)

    def test_disabled(self) -> None:
        assert plan(a_job(enabled=False), T0 + HOUR).runs == ()

    def test_due(self) -> None:
        made = plan(a_job(), T0 + HOUR)

        assert (fired(made), made.next_at) == ([1], T0 + 2 * HOUR)

    def test_in_the_future(self) -> None:
        made = plan(a_job(), T0 + HOUR - SECOND)

        assert (made.runs, made.next_at) == ((), T0 + HOUR)

    def test_without_a_next_run_it_is_computed_from_now_and_does_not_fire(self) -> None:
        made = plan(a_job(cursor_at=None), T0 + 30 * MINUTE)

        assert (made.runs, made.next_at) == ((), T0 + HOUR)

    def test_three_hours_missed_by_an_hourly_job_are_one_run(self) -> None:
        made = plan(a_job(), T0 + 3 * HOUR + MINUTE)

        assert (fired(made), skipped(made), made.next_at) == ([3], [("missed", 1, 2, 2)], T0 + 4 * HOUR)

    def test_a_failed_executor_is_retried_and_the_schedule_continues(self) -> None:
        job = a_job()
        made = plan(job, T0 + HOUR)
        settlement = settle(claimed(made.runs[0], job), Failed("no executor"), T0 + HOUR, DEFAULT)

        assert (settlement.state, settlement.ready_at) == (RunState.RETRYING, T0 + HOUR + 30 * SECOND)
        assert (made.cursor_at, made.next_at) == (T0 + HOUR, T0 + 2 * HOUR)

    def test_an_invalid_expression_is_an_error_and_never_fires(self) -> None:
        made = plan(a_job(BROKEN), T0 + HOUR)

        assert (made.runs, made.plan_at) == ((), None)
        assert made.error == "minute field, column 1: 61 is outside 0-59"


class TestFailureRecovery:
    def test_after_five_minutes_both_messages_are_sent_late(self) -> None:
        back = T0 + 5 * MINUTE
        runs = [plan(message(number, T0 + number * MINUTE), back).runs for number in (2, 3)]

        assert [[back - run.scheduled_at for run in each] for each in runs] == [[3 * MINUTE], [2 * MINUTE]]

    def test_after_a_day_all_seventy_messages_are_sent(self) -> None:
        back = datetime(2026, 3, 16, 9, tzinfo=UTC)
        down = back - DAY
        messages = [message(number, down + number * DAY / 70) for number in range(1, 71)]
        made = [plan(replace(job, cursor_at=down), back) for job in messages]

        assert [len(each.runs) for each in made] == [1] * 70
        assert len({run.id for each in made for run in each.runs}) == 70
        assert all(run.ready_at <= back for each in made for run in each.runs)

    def test_a_crash_in_the_middle_repeats_only_what_had_not_ended(self) -> None:
        job = a_job()
        held = [claimed(plan(message(number, T0 + MINUTE), T0 + MINUTE).runs[0], job) for number in range(5)]
        done = [settle(run, Succeeded(), T0 + MINUTE, DEFAULT) for run in held[:2]]
        lost = [settle_lost(run, T0 + 5 * MINUTE, deaths=0) for run in held[2:]]

        assert all(not MOVES[settlement.state] for settlement in done)
        assert [(each.state, each.ready_at) for each in lost] == [(RunState.RETRYING, T0 + 5 * MINUTE)] * 3

    @pytest.mark.parametrize(
        ("retry", "minutes"), [(FIXED, [0, 1, 2]), (DEFAULT, [0, 0.5, 2.5, 12.5])], ids=["fixed", "default"]
    )
    def test_a_run_that_keeps_failing_ends_after_its_attempts(self, retry: RetryPolicy, minutes: list[float]) -> None:
        job = message(1, T0 + MINUTE)
        run = claimed(plan(job, T0 + MINUTE).runs[0], job)
        settlement = settle(run, Failed("timeout"), run.ready_at, retry)
        attempts = [run.ready_at]
        while settlement.ready_at is not None:
            attempts.append(settlement.ready_at)
            run = run._replace(attempt=run.attempt + 1, failures=settlement.failures)
            settlement = settle(run, Failed("timeout"), attempts[-1], retry)

        assert attempts == [T0 + MINUTE + timedelta(minutes=each) for each in minutes]
        assert (settlement.state, settlement.reason) == (RunState.FAILED, Reason.EXHAUSTED)
