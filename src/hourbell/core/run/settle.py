"""Settling: what the outcome of an attempt does to its run.

Every end of an attempt is decided here: success, failure, cancel, shutdown and a lost lease (`settle_lost`, called when
runs are reaped). Three ends are decided where the rows are, because no attempt ended, or because only the transaction
that writes knows what decides:

- Runs that wait are cancelled by `cancel_waiting_run` and `cancel_waiting_of_jobs` (by a user, or because a newer run
  takes their place): the state in the row decides, and a copy of it would be out of date.
- Runs that waited past `expires_at` fail by the verb `expire`: a comparison of times and of the lanes that live
  nodes serve, over many rows at once.
- A settlement that would let a run wait again becomes a cancel if somebody asked for one (`with_cancels` in
  `store/records.py`): the request is read in the transaction that writes the settlement. No other end is changed by it.

Each of these writes changes a run only while it is in the state that was decided on, and settlements also check the
attempt.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, assert_never

from hourbell.core.run.policies import RetryPolicy
from hourbell.core.run.run import Run
from hourbell.core.run.states import Reason, RunState

POISON_AFTER = 3
SUSPECT_AFTER = 2
LONGEST_RETRY_AFTER = timedelta(hours=1)
_SUCCEEDED = RunState.SUCCEEDED  # as nearly all runs are; asking the enum for it costs ten times as much


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver answered, kept with the attempt for people."""

    status_code: int | None = None
    excerpt: str | None = None
    phases: Mapping[str, float] = field(default_factory=dict)  # seconds


@dataclass(frozen=True, slots=True)
class Succeeded:
    result: object = None
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The target answered badly or not at all."""

    error: str
    retryable: bool = True
    retry_after: timedelta | None = None
    result: object = None
    begun: bool = True  # False if nothing can have happened yet: no address, no connection
    answer: Answer | None = None
    pauses_job: str | None = None  # why the job should not go on: its receiver is gone for good


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease ran out: its node died, or was away for too long."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Stopped by its own node's shutdown, in the middle."""


@dataclass(frozen=True, slots=True)
class Unstarted:
    """Handed back before anything left the process."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Stopped because somebody asked for it."""


Outcome = Succeeded | Failed | Lost | Interrupted | Unstarted | Cancelled


class Settlement(NamedTuple):
    """The next state of a run, to be written only where `attempt` is still the run's."""

    run: Run
    outcome: Outcome
    state: RunState
    at: datetime
    reason: Reason | None = None
    ready_at: datetime | None = None
    failures: int = 0
    crashes: int = 0

    @property
    def attempt(self) -> int:
        return self.run.attempt


def settle(run: Run, outcome: Outcome, now: datetime, retry: RetryPolicy, luck: float = 0.0) -> Settlement:
    """Decide what an attempt's outcome does to its run. `luck` in [0, 1) spreads the wait where the policy says so."""
    match outcome:
        case Succeeded():
            return Settlement(run, outcome, _SUCCEEDED, now, None, None, run.failures, run.crashes)
        case Cancelled():
            return _ended(run, outcome, RunState.CANCELLED, now)
        case Failed(retryable=False):
            return _ended(run, outcome, RunState.FAILED, now, Reason.PERMANENT, failures=run.failures + 1)
        case Failed(begun=True) if run.at_most_once:
            return _ended(run, outcome, RunState.FAILED, now, Reason.LOST, failures=run.failures + 1)
        case Failed():
            return _retried(run, outcome, now, retry, luck)
        case Unstarted():
            return hand_back(run, now)
        case Interrupted() if run.at_most_once:
            return _ended(run, outcome, RunState.FAILED, now, Reason.LOST)
        case Interrupted():
            return _ready_at_once(run, outcome, now, run.crashes)
        case Lost():
            return settle_lost(run, now, run.crashes)
        case _:
            assert_never(outcome)


def _retried(run: Run, outcome: Failed, now: datetime, retry: RetryPolicy, luck: float) -> Settlement:
    failures = run.failures + 1
    wait = retry.wait_after(failures, luck)
    if wait is None:
        return _ended(run, outcome, RunState.FAILED, now, Reason.EXHAUSTED, failures=failures)
    if outcome.retry_after is not None:
        wait = max(wait, min(outcome.retry_after, LONGEST_RETRY_AFTER))
    if wait >= run.expires_at - now:
        return _ended(run, outcome, RunState.FAILED, now, Reason.EXPIRED, failures=failures)
    return Settlement(run, outcome, RunState.RETRYING, now, None, now + wait, failures, run.crashes)


def hand_back(run: Run, now: datetime) -> Settlement:
    """Return a run of which nothing has begun to where it waited, as if it had not been claimed."""
    return Settlement(run, Unstarted(), _waits_as(run), now, None, run.ready_at, run.failures, run.crashes)


def settle_lost(run: Run, now: datetime, deaths: int, poison_after: int = POISON_AFTER) -> Settlement:
    """Decide for a run whose lease ran out: charged to crashes, not to failures, and ready again at once.

    `deaths` is the number of earlier attempts whose nodes are gone, as the tables say now. A node that was heard again,
    or whose outcome came late, was not killed by the run. What was forgiven once stays forgiven. This attempt counts,
    too, because its node was silent for a whole lease, unless it is known that nothing had begun.

    A run that may happen at most once is over if its effect may have begun.
    """
    if run.at_most_once:
        if run.begun:
            return _ended(run, Lost(), RunState.FAILED, now, Reason.LOST, crashes=run.crashes + 1)
        return _ready_at_once(run, Lost(), now, run.crashes)
    crashes = min(deaths, run.crashes) + 1
    if crashes >= poison_after:
        return _ended(run, Lost(), RunState.FAILED, now, Reason.POISON, crashes=crashes)
    return _ready_at_once(run, Lost(), now, crashes)


def suspect_after(poison_after: int) -> int:
    """The deaths from which a run is a suspect: one more, alone, would be its own fault."""
    return max(SUSPECT_AFTER, poison_after - 1)


def _ready_at_once(run: Run, outcome: Outcome, now: datetime, crashes: int) -> Settlement:
    """Another attempt without a wait, however old the run is: it may be downtime that made it so."""
    return Settlement(run, outcome, RunState.RETRYING, now, None, now, run.failures, crashes)


def _waits_as(run: Run) -> RunState:
    """The waiting state of a run that is handed back as if it had not been claimed."""
    return RunState.PENDING if run.failures == 0 and run.crashes == 0 else RunState.RETRYING


def _ended(
    run: Run,
    outcome: Outcome,
    state: RunState,
    now: datetime,
    reason: Reason | None = None,
    *,
    failures: int | None = None,
    crashes: int | None = None,
) -> Settlement:
    return Settlement(
        run,
        outcome,
        state,
        now,
        reason,
        failures=run.failures if failures is None else failures,
        crashes=run.crashes if crashes is None else crashes,
    )
