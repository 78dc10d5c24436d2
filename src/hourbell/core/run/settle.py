"""Settling: the effect of an attempt's outcome on its run.

Every end of an attempt is decided here: success, failure, cancel, shutdown and a lost lease (`settle_lost`, called when
runs are reaped). Three ends are decided in the store instead, because no attempt ended, or because only the transaction
that writes has the facts:

- `cancel_waiting_run` and `cancel_waiting_of_jobs` cancel waiting runs (for a user, or because a newer run replaces
  them): the state in the row decides, and a copy of it would be out of date.
- The verb `expire` fails runs that waited past `expires_at`: it compares times, and the lanes that live nodes serve,
  over many rows at once.
- A settlement that would let a run wait again becomes a cancel if one was requested (`with_cancels` in
  `store/engine/records.py`): the request is read in the transaction that writes the settlement. No other end changes.

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
MAX_RETRY_AFTER = timedelta(hours=1)
_SUCCEEDED = RunState.SUCCEEDED  # the state of nearly all runs; reading it from the enum costs ten times as much


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of a receiver, stored with the attempt for display."""

    status_code: int | None = None
    excerpt: str | None = None
    phases: Mapping[str, float] = field(default_factory=dict)  # seconds


@dataclass(frozen=True, slots=True)
class Succeeded:
    result: object = None
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed attempt: the target returned an error or did not answer."""

    error: str
    retryable: bool = True
    retry_after: timedelta | None = None
    result: object = None
    begun: bool = True  # False if no effect is possible yet: no address, no connection
    answer: Answer | None = None
    pauses_job: str | None = None  # why to pause the job: its receiver is permanently gone


@dataclass(frozen=True, slots=True)
class Lost:
    """An expired lease: the node died, or was unreachable for too long."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """An attempt that its own node's shutdown stopped midway."""


@dataclass(frozen=True, slots=True)
class Unstarted:
    """A run returned before anything left the process."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """An attempt that was stopped on request."""


Outcome = Succeeded | Failed | Lost | Interrupted | Unstarted | Cancelled


class Settlement(NamedTuple):
    """The next state of a run, written only if `attempt` is still the run's current one."""

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


def settle(run: Run, outcome: Outcome, now: datetime, retry: RetryPolicy, random: float = 0.0) -> Settlement:
    """Decide the effect of an attempt's outcome on its run.

    `random` is a random number in [0, 1) that spreads the wait if the policy has a `spread`.
    """
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
            return _retried(run, outcome, now, retry, random)
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


def _retried(run: Run, outcome: Failed, now: datetime, retry: RetryPolicy, random: float) -> Settlement:
    failures = run.failures + 1
    wait = retry.wait_after(failures, random)
    if wait is None:
        return _ended(run, outcome, RunState.FAILED, now, Reason.EXHAUSTED, failures=failures)
    if outcome.retry_after is not None:
        wait = max(wait, min(outcome.retry_after, MAX_RETRY_AFTER))
    if wait >= run.expires_at - now:
        return _ended(run, outcome, RunState.FAILED, now, Reason.EXPIRED, failures=failures)
    return Settlement(run, outcome, RunState.RETRYING, now, None, now + wait, failures, run.crashes)


def hand_back(run: Run, now: datetime) -> Settlement:
    """Return a run that has not begun to its former waiting state, as if it had not been claimed."""
    return Settlement(run, Unstarted(), _waits_as(run), now, None, run.ready_at, run.failures, run.crashes)


def settle_lost(run: Run, now: datetime, deaths: int, poison_after: int = POISON_AFTER) -> Settlement:
    """Settle a run whose lease ran out: it counts as a crash, not as a failure, and is ready again at once.

    `deaths` is the number of earlier attempts whose nodes are dead according to the current tables. If a node sent
    another heartbeat, or its outcome arrived late, the run did not kill it. A crash that was forgiven once stays
    forgiven. This attempt counts as a crash too, because its node was silent for a whole lease, unless it is known that
    nothing had begun.

    An at_most_once run fails if its effect may have begun.
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
    """Return the deaths from which a run is a suspect: it then runs alone, so that only it can cause the next death."""
    return max(SUSPECT_AFTER, poison_after - 1)


def _ready_at_once(run: Run, outcome: Outcome, now: datetime, crashes: int) -> Settlement:
    """Schedule another attempt without a wait, even for an old run: downtime may be the cause of its age."""
    return Settlement(run, outcome, RunState.RETRYING, now, None, now, run.failures, crashes)


def _waits_as(run: Run) -> RunState:
    """Return the waiting state of a run that is handed back as if it had not been claimed."""
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
