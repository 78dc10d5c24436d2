"""Effects of an attempt's outcome on its run: one table, and laws for every outcome of every run."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.run.policies import RETRY_PRESETS, RetryPolicy
from hourbell.core.run.run import Run
from hourbell.core.run.settle import (
    POISON_AFTER,
    Cancelled,
    Failed,
    Interrupted,
    Lost,
    Outcome,
    Settlement,
    Succeeded,
    Unstarted,
    settle,
    settle_lost,
    suspect_after,
)
from hourbell.core.run.states import ENDS, MOVES, WAITING, Kind, Reason, RunState
from tests.core.schedule.strategies import examples
from tests.core.values import DAY, HOUR, JOB, MINUTE, SECOND, T0

DEFAULT, EXPONENTIAL, NONE = RETRY_PRESETS["default"], RETRY_PRESETS["exponential"], RETRY_PRESETS["none"]
NOW = T0 + HOUR
LONG = timedelta(days=999_999_999)
PENDING, RETRYING, FAILED = RunState.PENDING, RunState.RETRYING, RunState.FAILED


def a_run(**more: Any) -> Run:
    """A run in its first attempt, ready since T0, that may live for a day."""
    values: dict[str, Any] = {
        "id": UUID(int=1),
        "job_id": JOB,
        "job_version": 1,
        "kind": Kind.SCHEDULED,
        "scheduled_at": T0,
        "ready_at": T0,
        "expires_at": T0 + DAY,
        "state": RunState.RUNNING,
        "lane": "task:a",
        "attempt": 1,
        "failures": 0,
        "crashes": 0,
    }
    return Run(**values | more)


def decided(settlement: Settlement) -> tuple[RunState, Reason | None, timedelta | None, int, int]:
    """Return state, reason, wait, failures and crashes."""
    wait = None if settlement.ready_at is None else settlement.ready_at - NOW
    return settlement.state, settlement.reason, wait, settlement.failures, settlement.crashes


@pytest.mark.parametrize(
    ("outcome", "run", "expected"),
    [
        pytest.param(Succeeded(), {}, (RunState.SUCCEEDED, None, None, 0, 0), id="success"),
        pytest.param(Succeeded(), {"failures": 2, "crashes": 1}, (RunState.SUCCEEDED, None, None, 2, 1), id="at last"),
        pytest.param(Cancelled(), {"failures": 1}, (RunState.CANCELLED, None, None, 1, 0), id="cancelled"),
        pytest.param(Failed("404", retryable=False), {}, (FAILED, Reason.PERMANENT, None, 1, 0), id="permanent"),
        pytest.param(
            Failed("404", retryable=False),
            {"failures": 1},
            (FAILED, Reason.PERMANENT, None, 2, 0),
            id="permanent later",
        ),
        pytest.param(Failed("500"), {}, (RETRYING, None, 30 * SECOND, 1, 0), id="first failure"),
        pytest.param(Failed("500"), {"failures": 1}, (RETRYING, None, 2 * MINUTE, 2, 0), id="second failure"),
        pytest.param(Failed("500"), {"failures": 2}, (RETRYING, None, 10 * MINUTE, 3, 0), id="third failure"),
        pytest.param(Failed("500"), {"failures": 3}, (FAILED, Reason.EXHAUSTED, None, 4, 0), id="fourth failure"),
        pytest.param(
            Failed("500"), {"attempt": 9}, (RETRYING, None, 30 * SECOND, 1, 0), id="failures count, not attempts"
        ),
        pytest.param(Failed("500"), {"crashes": 2}, (RETRYING, None, 30 * SECOND, 1, 2), id="crashes are kept"),
        pytest.param(Interrupted(), {"failures": 1}, (RETRYING, None, 0 * HOUR, 1, 0), id="interrupted"),
        pytest.param(Interrupted(), {"crashes": 2}, (RETRYING, None, 0 * HOUR, 0, 2), id="an interrupted suspect"),
        pytest.param(Unstarted(), {}, (PENDING, None, -HOUR, 0, 0), id="handed back"),
        pytest.param(Unstarted(), {"failures": 1}, (RETRYING, None, -HOUR, 1, 0), id="a retry handed back"),
        pytest.param(Unstarted(), {"crashes": 1}, (RETRYING, None, -HOUR, 0, 1), id="a lost one handed back"),
        pytest.param(Lost(), {}, (RETRYING, None, 0 * HOUR, 0, 1), id="lost"),
        pytest.param(Lost(), {"failures": 2, "crashes": 1}, (RETRYING, None, 0 * HOUR, 2, 2), id="lost again"),
        pytest.param(Lost(), {"crashes": 2}, (FAILED, Reason.POISON, None, 0, 3), id="poison"),
    ],
)
def test_an_outcome_decides_the_next_state_of_its_run(outcome: Outcome, run: dict[str, Any], expected: object) -> None:
    assert decided(settle(a_run(**run), outcome, NOW, DEFAULT)) == expected


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        pytest.param(Succeeded(), (RunState.SUCCEEDED, None, None, 0, 0), id="success"),
        pytest.param(Cancelled(), (RunState.CANCELLED, None, None, 0, 0), id="cancelled"),
        pytest.param(Failed("404", retryable=False), (FAILED, Reason.PERMANENT, None, 1, 0), id="permanent"),
        pytest.param(Failed("timeout"), (FAILED, Reason.LOST, None, 1, 0), id="it may have happened"),
        pytest.param(Failed("refused", begun=False), (RETRYING, None, 30 * SECOND, 1, 0), id="it cannot have happened"),
        pytest.param(Lost(), (FAILED, Reason.LOST, None, 0, 1), id="lost"),
        pytest.param(Interrupted(), (FAILED, Reason.LOST, None, 0, 0), id="interrupted"),
        pytest.param(Unstarted(), (PENDING, None, -HOUR, 0, 0), id="handed back"),
    ],
)
def test_an_at_most_once_run_is_not_retried_once_it_may_have_begun(outcome: Outcome, expected: object) -> None:
    assert decided(settle(a_run(at_most_once=True, begun=True), outcome, NOW, DEFAULT)) == expected


def test_an_at_most_once_run_that_was_lost_before_it_began_is_retried() -> None:
    assert decided(settle(a_run(at_most_once=True), Lost(), NOW, DEFAULT)) == (RETRYING, None, timedelta(0), 0, 0)


@pytest.mark.parametrize(
    ("retry_after", "wait"),
    [
        (None, 30 * SECOND),
        (10 * SECOND, 30 * SECOND),
        (-HOUR, 30 * SECOND),
        (5 * MINUTE, 5 * MINUTE),
        (DAY, HOUR),
        (LONG, HOUR),
    ],
    ids=["not said", "sooner", "in the past", "later", "too late", "never"],
)
def test_a_receiver_may_ask_for_a_longer_wait_within_bounds(retry_after: timedelta | None, wait: timedelta) -> None:
    assert settle(a_run(), Failed("429", retry_after=retry_after), NOW, DEFAULT).ready_at == NOW + wait


def test_a_receiver_cannot_shorten_a_long_wait() -> None:
    patient = RetryPolicy(3, (3 * HOUR,))

    assert settle(a_run(), Failed("429", retry_after=SECOND), NOW, patient).ready_at == NOW + 3 * HOUR


def test_a_receiver_does_not_add_attempts() -> None:
    assert settle(a_run(failures=3), Failed("429", retry_after=SECOND), NOW, DEFAULT).reason is Reason.EXHAUSTED


@pytest.mark.parametrize(
    ("outcome", "left", "state"),
    [
        (Failed("500"), 31 * SECOND, RETRYING),
        (Failed("500"), 30 * SECOND, FAILED),
        (Failed("500"), -HOUR, FAILED),
        (Failed("429", retry_after=HOUR), HOUR, FAILED),
        (Lost(), -HOUR, RETRYING),
        (Interrupted(), -HOUR, RETRYING),
    ],
)
def test_a_run_whose_next_attempt_would_be_too_late_expires(outcome: Outcome, left: timedelta, state: RunState) -> None:
    settlement = settle(a_run(expires_at=NOW + left), outcome, NOW, DEFAULT)

    assert (settlement.state, settlement.reason) == (state, Reason.EXPIRED if state is FAILED else None)


@pytest.mark.parametrize("outcome", [Succeeded(), Unstarted()], ids=["success", "handed back"])
def test_a_success_and_an_attempt_that_did_not_begin_do_not_expire_here(outcome: Outcome) -> None:
    assert settle(a_run(expires_at=T0), outcome, NOW, DEFAULT).reason is None


def test_a_wait_beyond_max_age_expires_the_run() -> None:
    assert settle(a_run(), Failed("500"), NOW, RetryPolicy(2, (LONG,))).reason is Reason.EXPIRED


def test_without_retries_the_first_failure_is_the_last() -> None:
    assert decided(settle(a_run(), Failed("500"), NOW, NONE)) == (FAILED, Reason.EXHAUSTED, None, 1, 0)


@pytest.mark.parametrize(("random", "wait"), [(0.0, 40), (0.5, 30), (0.8, 24)])
def test_random_spreads_the_waits_of_the_exponential_preset(random: float, wait: int) -> None:
    assert settle(a_run(failures=1), Failed("500"), NOW, EXPONENTIAL, random).ready_at == NOW + wait * SECOND


@pytest.mark.parametrize("poison_after", [1, 2, 3, 5])
def test_a_run_is_poison_after_as_many_deaths_as_the_operator_says(poison_after: int) -> None:
    lost = [settle_lost(a_run(crashes=deaths), NOW, deaths, poison_after) for deaths in range(poison_after)]
    states = [settlement.state for settlement in lost]

    assert states == [RETRYING] * (poison_after - 1) + [FAILED]


@pytest.mark.parametrize(
    ("crashes", "deaths", "counted"),
    [(2, 2, 3), (2, 1, 2), (2, 0, 1), (0, 2, 1)],
    ids=["all are gone", "one was heard again", "all were heard again", "forgiven stays forgiven"],
)
def test_only_confirmed_deaths_count(crashes: int, deaths: int, counted: int) -> None:
    settlement = settle_lost(a_run(crashes=crashes), NOW, deaths)

    assert (settlement.crashes, settlement.reason) == (counted, Reason.POISON if counted == POISON_AFTER else None)


@pytest.mark.parametrize(
    ("begun", "state", "reason", "crashes"), [(True, FAILED, Reason.LOST, 1), (False, RETRYING, None, 0)]
)
def test_a_lost_attempt_at_most_once_counts_only_if_it_had_begun(
    begun: bool, state: RunState, reason: Reason | None, crashes: int
) -> None:
    settlement = settle_lost(a_run(at_most_once=True, begun=begun), NOW, deaths=0)

    assert (settlement.state, settlement.reason, settlement.crashes) == (state, reason, crashes)


def test_a_run_is_a_suspect_before_it_is_poison() -> None:
    assert [suspect_after(deaths) for deaths in (1, 2, POISON_AFTER, 4, 1_000)] == [2, 2, 2, 3, 999]


runs = st.builds(
    a_run,
    attempt=st.integers(1, 200),
    failures=st.integers(0, 10),
    crashes=st.integers(0, 4),
    at_most_once=st.booleans(),
    begun=st.booleans(),
    expires_at=st.timedeltas(-DAY, 2 * DAY).map(lambda left: NOW + left),
)
outcomes = st.one_of(
    st.sampled_from([Succeeded(), Cancelled(), Unstarted(), Interrupted(), Lost()]),
    st.builds(
        Failed,
        st.just("no"),
        retryable=st.booleans(),
        retry_after=st.one_of(st.none(), st.timedeltas(-DAY, DAY)),
        begun=st.booleans(),
    ),
)
retries = st.one_of(
    st.sampled_from(list(RETRY_PRESETS.values())),
    st.builds(
        RetryPolicy,
        st.integers(1, 10),
        st.lists(st.timedeltas(timedelta(0), 2 * DAY), min_size=1, max_size=3).map(tuple),
        st.floats(0, 1),
    ),
)
randoms = st.floats(0, 1, exclude_max=True)


@examples(500)
@given(runs, outcomes, retries, randoms)
def test_every_settlement_is_a_move_of_the_table(run: Run, outcome: Outcome, retry: RetryPolicy, random: float) -> None:
    settlement = settle(run, outcome, NOW, retry, random)

    assert settlement.state in MOVES[RunState.RUNNING]
    assert (settlement.reason is not None) == (settlement.state is FAILED)
    assert (settlement.ready_at is not None) == (settlement.state in WAITING) == (settlement.state not in ENDS)
    assert (settlement.attempt, settlement.at, settlement.outcome) == (run.attempt, NOW, outcome)


@examples(500)
@given(runs, outcomes, retries, randoms)
def test_a_retry_is_within_its_bounds(run: Run, outcome: Outcome, retry: RetryPolicy, random: float) -> None:
    settlement = settle(run, outcome, NOW, retry, random)
    tried = settlement.state is RETRYING and not isinstance(outcome, Unstarted)

    assert run.failures <= settlement.failures <= run.failures + 1
    assert run.crashes <= settlement.crashes <= run.crashes + 1
    if tried:
        assert settlement.ready_at is not None
        assert settlement.ready_at >= NOW
        assert settlement.ready_at < run.expires_at or not isinstance(outcome, Failed)
        assert settlement.crashes < POISON_AFTER or not isinstance(outcome, Lost) or run.at_most_once
        assert settlement.failures < retry.attempts or not isinstance(outcome, Failed)
    if tried and run.at_most_once:
        assert not run.begun if isinstance(outcome, Lost) else isinstance(outcome, Failed) and not outcome.begun
