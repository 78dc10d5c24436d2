"""Explanations of a scheduled time: one sentence per case. Now is noon, the time is ten unless stated otherwise."""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.control.explain import Explanation, Verdict, explain
from hourbell.core.run.states import Kind, Reason, RunState, SkipReason
from hourbell.store.lists.query import InstantFacts, JobTotals, JobView, RunView, SkipView, VersionView
from tests.core.schedule.strategies import examples
from tests.core.values import BROKEN, DAY, HOUR, JOB, MINUTE, SECOND, T0, a_definition, a_job

AT, NOW = T0 + HOUR, T0 + 3 * HOUR  # ten o'clock and noon
MADE = T0 - DAY
RUN, REPLAY = UUID(int=1), UUID(int=2)
LATER = NOW + HOUR


def a_run(state: RunState, **more: Any) -> RunView:
    ended = state in (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)
    values: dict[str, Any] = {
        "id": RUN, "job_id": JOB, "job_name": "job", "job_version": 1, "definition": None, "kind": Kind.SCHEDULED,
        "state": state, "reason": None, "scheduled_at": AT, "local_at": AT.replace(tzinfo=None), "ready_at": AT,
        "expires_at": AT + DAY, "planned_at": AT, "started_at": AT + SECOND, "cleared_at": None, "lane": "task:a",
        "finished_at": AT + 3 * SECOND if ended else None, "attempt": 1, "failures": 0, "crashes": 0,
        "lease_owner": None, "lease_until": None, "replay_of": None, "payload": None, "has_payload": False,
        "result": None,
    }  # fmt: skip
    return RunView(**(values | more))


def failed(reason: Reason | None, **more: Any) -> RunView:
    return a_run(RunState.FAILED, reason=reason, **more)


def a_skip(reason: SkipReason, count: int = 1) -> SkipView:
    return SkipView(5, AT, AT + (count - 1) * HOUR, count, reason)


@dataclass(frozen=True)
class Case:
    """The known facts, and the expected sentence."""

    verdict: Verdict
    sentence: str
    at: datetime = AT
    run: RunView | None = None
    skip: SkipView | None = None
    replays: int = 0
    job: dict[str, Any] = field(default_factory=dict)
    then: dict[str, Any] | None = field(default_factory=dict)  # what the version valid then said otherwise
    version: int = 1
    view: dict[str, Any] = field(default_factory=dict)
    late_success: int | None = None

    def facts(self) -> InstantFacts:
        job = replace(a_job(**({"cursor_at": NOW} | self.job)), version=self.version)
        nothing = dict.fromkeys(("deleted_at", "paused_note", "paused_by", "pruned_until"))
        view = JobView(job, **({"created_at": MADE, "updated_at": MADE, "totals": JobTotals()} | nothing | self.view))
        version = None
        if self.then is not None:
            version = VersionView(1, replace(job.definition, **self.then), MADE, "ops")
        skips = [] if self.skip is None else [self.skip]
        return InstantFacts(view, version, self.run, [REPLAY] * self.replays, skips, self.late_success)

    def explained(self) -> Explanation:
        return explain(self.facts(), self.at, NOW)


V = Verdict
TEN, ONE = "job at 2026-03-02 10:00:00 UTC", "job at 2026-03-02 13:00:00 UTC"
NEW_YORK = {"timezone": "America/New_York"}
CASES = [
    # a run
    Case(
        V.SUCCEEDED,
        f"{TEN} ran and succeeded: it began 1 s after its scheduled time and took 2 s.",
        run=a_run(RunState.SUCCEEDED),
    ),
    Case(
        V.SUCCEEDED,
        f"{TEN} was backfilled and succeeded: it took 2 s; it was replayed once.",
        run=a_run(RunState.SUCCEEDED, kind=Kind.BACKFILL),
        replays=1,
    ),
    Case(
        V.FAILED,
        f"{TEN} ran and failed after 1 attempt: the target returned a permanent error; "
        "replay it once the cause is fixed.",
        run=failed(Reason.PERMANENT),
    ),
    Case(
        V.FAILED,
        f"{TEN} ran and failed after 4 attempts: all attempts failed (HTTP 500); it was replayed 2 times.",
        run=failed(Reason.EXHAUSTED, attempt=4),
        replays=2,
        view={"totals": JobTotals(last_run_id=RUN, last_error="HTTP\n500")},
    ),
    Case(
        V.FAILED,
        f"{TEN} failed without an attempt: it exceeded the job's max_age before it succeeded; "
        "replay it once the cause is fixed.",
        run=failed(Reason.EXPIRED, attempt=0, started_at=None),
        view={"totals": JobTotals(last_run_id=REPLAY, last_error="of another")},
    ),
    Case(
        V.FAILED,
        f"{TEN} ran and failed after 3 attempts: its nodes died while they ran it; it was discarded.",
        run=failed(Reason.POISON, attempt=3, cleared_at=NOW),
    ),
    Case(
        V.FAILED,
        f"{TEN} ran and failed after 1 attempt: it may happen at most once, and it is unknown whether it did.",
        run=failed(Reason.LOST),
        view={"deleted_at": NOW},
    ),
    Case(
        V.FAILED,
        f"{TEN} ran and failed after 1 attempt: it may happen at most once, and it is unknown whether it did; "
        "but attempt 1 succeeded: its answer came after its lease was lost; replay it only if it may happen twice.",
        run=failed(Reason.LOST),
        late_success=1,
    ),
    Case(
        V.FAILED,
        f"{TEN} ran and failed after 3 attempts: its nodes died while they ran it; "
        "but attempt 2 succeeded: its answer came after its lease was lost; it was replayed once.",
        run=failed(Reason.POISON, attempt=3),
        replays=1,
        late_success=2,
    ),
    Case(
        V.FAILED,
        f"{TEN} was backfilled and failed after 1 attempt: nobody noted why; replay it once the cause is fixed.",
        run=failed(None, kind=Kind.BACKFILL),
    ),
    Case(
        V.CANCELLED,
        f"{TEN} was cancelled without an attempt; replay it to run it after all.",
        run=a_run(RunState.CANCELLED, attempt=0),
    ),
    Case(
        V.RUNNING,
        f"{TEN} is running since 2026-03-02 10:00:01 UTC, in attempt 1.",
        run=a_run(RunState.RUNNING),
    ),
    Case(
        V.RUNNING,
        f"{TEN} is running since 2026-03-02 10:00:01 UTC, in attempt 2, and is asked to stop.",
        run=a_run(RunState.RUNNING, attempt=2, is_cancel_requested=True),
    ),
    Case(
        V.WAITING,
        f"{TEN} waits for a free node that serves task:a, until 2026-03-03 10:00:00 UTC.",
        run=a_run(RunState.PENDING, attempt=0, started_at=None),
    ),
    Case(
        V.WAITING,
        f"{TEN} waits for its time, 2026-03-02 13:00:00 UTC.",
        run=a_run(RunState.PENDING, attempt=0, started_at=None, ready_at=LATER),
    ),
    Case(
        V.WAITING,
        f"{TEN} waits to be tried again after 2 attempts: for its time, 2026-03-02 13:00:00 UTC.",
        run=a_run(RunState.RETRYING, attempt=2, ready_at=LATER),
    ),
    # a skip
    Case(
        V.SKIPPED,
        f"{TEN} was skipped, together with 2 more: no node planned it in time, and catch_up is latest; "
        "backfill it to run it now.",
        skip=a_skip(SkipReason.MISSED, 3),
    ),
    Case(
        V.SKIPPED,
        f"{TEN} was skipped: an earlier run had not ended, and overlap is allow; backfill it to run it now.",
        skip=a_skip(SkipReason.OVERLAP),
    ),
    Case(
        V.SKIPPED,
        f"{TEN} was skipped: the job was paused; backfill it to run it now; it was replayed once.",
        skip=a_skip(SkipReason.PAUSED),
        replays=1,
    ),
    Case(
        V.SKIPPED,
        f"{TEN} was skipped: the job was changed before it was planned.",
        skip=a_skip(SkipReason.EDITED),
        job={"schedule": "30 * * * *"},
        then={"schedule": "0 * * * *"},
    ),
    Case(
        V.SKIPPED,
        f"{TEN} was skipped: it was missed for longer than catch_up_window, which is 15m; backfill it to run it now.",
        skip=a_skip(SkipReason.WINDOW),
        then={"catch_up_window": 15 * MINUTE},
    ),
    Case(
        V.SKIPPED,
        f"{TEN} was skipped: new time-zone data moved it, and its local time had been served.",
        skip=a_skip(SkipReason.TZDATA),
        job={"schedule": "30 * * * *"},
    ),
    # no instant
    Case(
        V.NOT_AN_INSTANT,
        "job at 2026-03-02 10:30:00 UTC is not a scheduled time of the job ('0 * * * *'): "
        "the previous one is 2026-03-02 10:00:00 UTC and the next one is 2026-03-02 11:00:00 UTC.",
        at=AT + 30 * MINUTE,
        skip=a_skip(SkipReason.MISSED, 2),
    ),
    Case(
        V.NOT_AN_INSTANT,
        f"{TEN} is not a scheduled time of the job ('0 * * * *'): the next one is 2026-03-02 11:00:00 UTC.",
        job={"starts_at": AT + MINUTE},
    ),
    Case(
        V.NOT_AN_INSTANT,
        "job at 2026-03-02 10:01:00 UTC is not a scheduled time of the job ('0 * * * *'): "
        "the previous one is 2026-03-02 10:00:00 UTC.",
        at=AT + MINUTE,
        job={"starts_at": AT, "ends_at": AT},
    ),
    Case(
        V.NOT_AN_INSTANT,
        f"{ONE} is not a scheduled time of the job ('0 * * * *'): the previous one is 2026-03-02 12:00:00 UTC.",
        at=LATER,
        job={"ends_at": NOW},
    ),
    Case(
        V.NOT_AN_INSTANT,
        f"{TEN} is not a scheduled time of the job ('0 0 30 2 *'): there is none before or after it.",
        job={"schedule": "0 0 30 2 *"},
    ),
    Case(
        V.NOT_AN_INSTANT,
        "job at 2026-03-08 07:30:00 UTC (03:30:00 EDT in America/New_York) is not a scheduled time of the job "
        "('30 2 * * *'): the previous one is 2026-03-08 07:00:00 UTC (03:00:00 EDT in America/New_York) and "
        "the next one is 2026-03-09 06:30:00 UTC (02:30:00 EDT in America/New_York).",
        at=datetime(2026, 3, 8, 7, 30, tzinfo=UTC),
        job={"schedule": "30 2 * * *", **NEW_YORK},
    ),
    # in the future
    Case(V.NOT_DUE_YET, f"{ONE} is not due yet: it runs in 1h.", at=LATER),
    Case(
        V.NOT_DUE_YET,
        "job at 2026-03-03 02:00:00 UTC (2026-03-02 21:00:00 EST in America/New_York) is not due yet: it runs in 14h.",
        at=NOW + 14 * HOUR,
        job=NEW_YORK,
    ),
    Case(
        V.NOT_DUE_YET,
        f"{ONE} is not due yet: it runs in 1h.",
        at=LATER,
        job={"enabled": False, "paused_until": LATER - MINUTE},
    ),
    Case(
        V.NOT_PLANNED_YET,
        f"{TEN} is due and not planned yet: the planner is behind, or no node runs; look at the nodes.",
        job={"cursor_at": T0},
    ),
    # the life of the job
    Case(
        V.BEFORE_THE_JOB,
        f"{TEN} got no run: the job was created at 2026-03-02 10:15:00 UTC; backfill it to run it now.",
        then=None,
        view={"created_at": AT + 15 * MINUTE},
    ),
    Case(
        V.NOT_AN_INSTANT,
        f"{TEN} is not a scheduled time of the job ('30 * * * *'): the previous one is 2026-03-02 09:30:00 UTC and "
        "the next one is 2026-03-02 10:30:00 UTC.",
        then=None,
        job={"schedule": "30 * * * *"},
        view={"created_at": AT + 15 * MINUTE},
    ),
    Case(
        V.BEFORE_THE_JOB,
        f"{TEN} got no run: the job was created at 2026-03-02 10:15:00 UTC.",
        then=None,
        job={"schedule": "nonsense", "error": "it cannot be read"},
        view={"created_at": AT + 15 * MINUTE},
    ),
    Case(
        V.BEFORE_THE_JOB,
        f"{TEN} got no run: the job was adopted only later; backfill it to run it now.",
        then=None,
    ),
    Case(
        V.BEFORE_THE_JOB,
        f"{TEN} got no run: no node has adopted the job yet, and it fires only from then on.",
        then=None,
        job={"cursor_at": None},
    ),
    Case(
        V.DELETED,
        f"{ONE} never runs: the job was deleted at 2026-03-02 11:59:00 UTC.",
        at=LATER,
        view={"deleted_at": NOW - MINUTE},
    ),
    Case(
        V.DELETED,
        f"{TEN} never runs: the job was deleted at 2026-03-02 09:30:00 UTC.",
        job={"cursor_at": T0},
        view={"deleted_at": T0 + 30 * MINUTE},
    ),
    Case(
        V.PAUSED,
        f"{TEN} does not run: the job is paused; resume the job with catch_up to have it planned.",
        job={"enabled": False, "cursor_at": T0},
    ),
    Case(
        V.PAUSED,
        f"{ONE} does not run: the job is paused by ops until 2026-03-02 14:00:00 UTC (maintenance); "
        "resume the job to have it planned.",
        at=LATER,
        job={"enabled": False, "paused_until": LATER + HOUR},
        view={"paused_by": "ops", "paused_note": "maintenance"},
    ),
    Case(
        V.PAUSED,
        f"{TEN} got no run: the job was paused then; backfill it to run it now.",
        then={"enabled": False},
    ),
    Case(
        V.IN_ERROR,
        f"{TEN} does not run: the job cannot be planned (the target is gone); fix the job.",
        job={"cursor_at": T0, "error": "the target is gone"},
    ),
    Case(
        V.IN_ERROR,
        f"{TEN} got no run: the job could not be planned then "
        "(timezone field: unknown time zone 'Mars'; write an IANA name such as Europe/Paris).",
        then={"timezone": "Mars"},
        version=2,
    ),
    # no trace
    Case(
        V.PRUNED,
        f"{TEN} has no run on record: runs up to 2026-03-02 10:00:00 UTC were pruned, possibly including this one.",
        view={"pruned_until": AT},
    ),
    Case(
        V.NO_RECORD,
        f"{TEN} has neither a run nor a skip on record; backfill it to run it now.",
        view={"pruned_until": AT - SECOND},
    ),
    Case(V.NO_RECORD, f"{TEN} has neither a run nor a skip on record; backfill it to run it now."),
    Case(V.NO_RECORD, f"{TEN} has neither a run nor a skip on record.", view={"deleted_at": NOW}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence[len(TEN) :][:50])
def test_every_case_has_its_sentence(case: Case) -> None:
    explained = case.explained()

    assert explained.sentence == case.sentence
    assert explained.verdict is case.verdict
    assert json.loads(json.dumps(explained.data))["verdict"] == case.verdict


def test_the_table_holds_every_verdict_state_and_reason() -> None:
    runs = [case.run for case in CASES if case.run is not None]

    assert {case.verdict for case in CASES} == set(Verdict)
    assert {run.state for run in runs} == set(RunState)
    assert {run.reason for run in runs} == {None, *Reason}
    assert {case.skip.reason for case in CASES if case.skip is not None} == set(SkipReason)


def test_a_schedule_that_cannot_be_read_says_where() -> None:
    explained = Case(V.IN_ERROR, "", job={"schedule": BROKEN, "cursor_at": T0}).explained()

    assert explained.verdict is V.IN_ERROR
    assert explained.sentence.startswith(f"{TEN} does not run: the job cannot be planned (minute field, column 1: 61 ")


def test_the_data_of_a_run_is_complete() -> None:
    run = a_run(RunState.SUCCEEDED)

    assert Case(V.SUCCEEDED, "", run=run, replays=1, job=NEW_YORK).explained().data == {
        "verdict": "succeeded",
        "job_id": str(JOB),
        "job_name": "job",
        "at": "2026-03-02T10:00:00Z",
        "local": "2026-03-02T05:00:00-05:00",
        "timezone": "America/New_York",
        "schedule": "0 * * * *",
        "job_version": 1,
        "run": {
            "id": str(RUN),
            "kind": "scheduled",
            "state": "succeeded",
            "reason": None,
            "attempt": 1,
            "ready_at": "2026-03-02T10:00:00Z",
            "started_at": "2026-03-02T10:00:01Z",
            "finished_at": "2026-03-02T10:00:03Z",
            "late_success": None,
        },
        "replays": [str(REPLAY)],
        "skip": None,
        "previous_at": None,
        "next_at": None,
        "outages": [],
    }


def test_the_data_of_a_skip_and_of_neighbours_is_there() -> None:
    skipped = Case(V.SKIPPED, "", skip=a_skip(SkipReason.MISSED, 2)).explained().data
    beside = Case(V.NOT_AN_INSTANT, "", at=AT + SECOND).explained().data

    assert skipped["skip"] == {
        "reason": "missed",
        "first_at": "2026-03-02T10:00:00Z",
        "last_at": "2026-03-02T11:00:00Z",
        "count": 2,
    }
    assert (beside["previous_at"], beside["next_at"]) == ("2026-03-02T10:00:00Z", "2026-03-02T11:00:00Z")


def test_the_narrower_of_two_skips_explains_a_time() -> None:
    case = Case(V.SKIPPED, "", skip=a_skip(SkipReason.MISSED, 9))
    narrow = Case(V.SKIPPED, "", skip=a_skip(SkipReason.OVERLAP))
    facts = replace(case.facts(), skips=[*case.facts().skips, *narrow.facts().skips])

    assert explain(facts, AT, NOW) == narrow.explained()


def test_an_instant_may_be_given_in_any_zone() -> None:
    asked = AT.astimezone(timezone(timedelta(hours=5, minutes=30)))

    assert Case(V.NO_RECORD, "", at=asked).explained() == Case(V.NO_RECORD, "").explained()


@examples(200)
@given(
    at=st.timedeltas(-3 * DAY, 3 * DAY).map(lambda since: NOW + since // SECOND * SECOND),
    schedule=st.sampled_from(["0 * * * *", "* * * * * *", BROKEN]),
    cursor_at=st.sampled_from([None, T0, NOW]),
    enabled=st.booleans(),
    error=st.sampled_from([None, "gone"]),
    deleted_at=st.sampled_from([None, NOW]),
    then=st.sampled_from([None, {}, {"enabled": False}]),
)
def test_every_combination_of_facts_has_one_sentence(
    at: datetime, deleted_at: datetime | None, then: dict[str, Any] | None, **job: Any
) -> None:
    explained = Case(V.PAUSED, "", at=at, job=job, then=then, view={"deleted_at": deleted_at}).explained()

    assert explained.sentence.startswith("job at ")
    assert explained.sentence.endswith(".")
    if explained.verdict is V.NOT_DUE_YET:
        assert at > NOW
        assert a_definition(job["schedule"]).parsed().matches(at)
