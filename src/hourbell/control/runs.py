"""Operations on runs: list, read, cancel, replay and discard, one run or all that match."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from hourbell.control.calculations import calculate_much
from hourbell.control.jobs import key_used_before
from hourbell.control.pages import MAX_PAGE_ITEMS, BadCursor, Page, cursor_of, number_of, parts_of, position_of
from hourbell.control.user import User, admit_all
from hourbell.control.waiting import waits_for
from hourbell.core.access.roles import Role
from hourbell.core.run.states import ENDS, WAITING, RunState
from hourbell.core.values.ids import keyed_id
from hourbell.store.base import LIVE_FOR
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict
from hourbell.store.lists.query import AttemptView, ListPosition, RunList, RunQuery, RunView
from hourbell.store.lists.reader import ListStore
from hourbell.store.lists.times import FailedRun

_KIND = "runs"
MAX_GROUPED_RUNS = 5_000  # failed runs that are grouped
MAX_NAMES = 10  # of jobs that a group names
_SCANNED_AT_ONCE = 1_000


class BulkAction(StrEnum):
    REPLAY = "replay"
    CANCEL = "cancel"
    DISCARD = "discard"


# The states of runs that an action applies to, in this order.
_FOR = {
    BulkAction.REPLAY: (RunState.FAILED,),
    BulkAction.CANCEL: (RunState.PENDING, RunState.RETRYING, RunState.RUNNING),
    BulkAction.DISCARD: (RunState.FAILED,),
}


@dataclass(frozen=True, slots=True)
class RunFilter:
    """A filter of runs. `since` and `until` compare the end of a run, or its scheduled time if it has not ended."""

    state: RunState | None = None
    job_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None
    subject: str | None = None  # of the run's job
    fingerprint: str | None = None  # of failed runs that nobody has replayed or discarded


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failed runs of one cause, which nobody has replayed or discarded."""

    fingerprint: str
    error: str | None  # of the newest
    reason: str | None
    lane: str
    count: int
    first_at: datetime
    last_at: datetime
    jobs: Sequence[str]  # the names of up to ten, those with most failures first
    job_count: int
    sample_run_id: UUID  # the newest


@dataclass(frozen=True, slots=True)
class FailureGroups:
    """Failed runs by cause, the most common first. `is_sampled` if older ones were not counted."""

    items: Sequence[FailureGroup]
    is_sampled: bool


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The result of a bulk action; `has_more` if further runs match."""

    done: Sequence[tuple[UUID, UUID | None]]  # a run, and for a replay the new run
    refused: Sequence[tuple[UUID, str]]
    has_more: bool


class Runs:
    def __init__(
        self,
        store: ControlStore,
        lists: ListStore,
        *,
        now: Callable[[], datetime],
        new_id: Callable[[], UUID],
        live_for: timedelta = LIVE_FOR,
    ) -> None:
        self._store = store
        self._lists = lists
        self._now = now
        self._new_id = new_id
        self._live_for = live_for

    async def page(self, wanted: RunFilter, limit: int, cursor: str | None = None) -> Page[RunView]:
        """List runs: of a job or subject by instant, newest first; of all jobs running, waiting, then ended ones."""
        queries = _queries(wanted)
        step, position = _resume(cursor, len(queries))
        found: list[tuple[int, RunView]] = []
        while step < len(queries) and len(found) <= limit:
            page = await self._lists.runs(queries[step], limit + 1 - len(found), position)
            found += [(step, run) for run in page]
            step, position = step + 1, None

        def cursor_after(index: int) -> str:
            step, last = found[index]
            return cursor_of(_KIND, step, _key(queries[step].runs, last), last.id)

        return Page([run for _, run in found[:limit]], has_more=len(found) > limit, cursor_after=cursor_after)

    async def get(self, run_id: UUID) -> tuple[RunView, list[AttemptView]]:
        """Return a run with its attempts; raise Conflict if there is none."""
        found = await self._lists.run(run_id)
        if found is None:
            raise Conflict("no_such_run", f"there is no run {run_id}; it may have been pruned")
        return found, await self._lists.attempts(run_id)

    async def waits_for(self, runs: Sequence[RunView]) -> dict[UUID, str]:
        """Return the reason why each waiting run has not started, by run id."""
        if not any(run.state in WAITING for run in runs):
            return {}
        now = self._now()
        nodes = await self._lists.nodes(now - self._live_for)
        reasons = ((run.id, waits_for(run, now, nodes)) for run in runs)
        return {run_id: reason for run_id, reason in reasons if reason is not None}

    async def cancel(self, run_id: UUID, user: User) -> bool:
        """Cancel a waiting run, or ask the node of a running one to stop it. Return True if the run has ended."""
        user.must_be(Role.OPERATOR, "to cancel a run")
        has_ended = None
        with user.acting_once():
            has_ended = await self._store.cancel_run(run_id, user.actor(self._now()))
        return (await self.get(run_id))[0].state in ENDS if has_ended is None else has_ended

    async def replay(self, run_id: UUID, user: User) -> UUID:
        """Add a run that repeats an ended or waiting one; return its id.

        The new run has the payload of the old one and the job's current target.
        """
        user.must_be(Role.OPERATOR, "to replay a run")
        key = user.request.key
        new_id = self._new_id() if key is None else keyed_id(run_id, key, user.request.key_milliseconds)
        is_used = user.request.is_fresh and await self._lists.run(new_id) is not None
        with user.acting_once():
            try:
                await self._store.replay_run(run_id, new_id, user.actor(self._now()))
            except Conflict as conflict:
                if conflict.code != "no_such_job":
                    raise
                raise Conflict("job_deleted", "the job of this run was deleted; discard the run") from None
            if is_used:
                raise key_used_before()
        return new_id

    async def discard(self, run_id: UUID, user: User) -> None:
        """Remove a failed run from the dead letters; its history stays."""
        user.must_be(Role.OPERATOR, "to discard a run")
        with user.acting_once():
            await self._store.discard_run(run_id, user.actor(self._now()))

    async def groups(self, wanted: RunFilter, limit: int) -> FailureGroups:
        """Group the newest failed runs that nobody has replayed or discarded by their cause.

        At most 5,000 runs are looked at.
        """
        found = await self._lists.failed_runs(_dead_letters(wanted), MAX_GROUPED_RUNS + 1)
        failed = [run for run in found[:MAX_GROUPED_RUNS] if run.cleared_at is None]
        groups = await calculate_much(_grouped, failed)
        return FailureGroups(groups[:limit], len(found) > MAX_GROUPED_RUNS)

    async def matching(self, action: BulkAction, wanted: RunFilter, limit: int) -> tuple[list[UUID], bool]:
        """Return up to `limit` runs that a bulk action applies to, and True if there are more."""
        if wanted.fingerprint is not None:
            _states(action, wanted)
            return await self._of_cause(wanted, limit)
        found: list[UUID] = []
        for state in _states(action, wanted):
            cursor = None
            while len(found) <= limit:
                page = await self.page(replace(wanted, state=state), MAX_PAGE_ITEMS, cursor)
                found += [run.id for run in page.items if run.cleared_at is None]
                cursor = page.next_cursor
                if cursor is None:
                    break
        return found[:limit], len(found) > limit

    async def _of_cause(self, wanted: RunFilter, limit: int) -> tuple[list[UUID], bool]:
        """Return up to `limit` failed runs with a fingerprint. It reads every failed run until there are enough."""
        query, position = _dead_letters(wanted), None
        found: list[UUID] = []
        while len(found) <= limit:
            page = await self._lists.failed_runs(query, _SCANNED_AT_ONCE, position)
            found += await calculate_much(_ids_of_cause, page, wanted.fingerprint)
            if len(page) < _SCANNED_AT_ONCE:
                break
            key = page[-1].finished_at if query.job_id is None else page[-1].scheduled_at
            position = ListPosition(key, page[-1].id)
        return found[:limit], len(found) > limit

    async def all_matching(
        self,
        action: BulkAction,
        wanted: RunFilter,
        user: User,
        *,
        limit: int,
        per_minute: int,
        admit: Callable[[int], None] = admit_all,
    ) -> BulkResult:
        """Act on the runs that match, each in its own transaction; replays become ready at the rate `per_minute`.

        Replayed and discarded runs match no more, so a further call continues with the rest. `admit` is called with
        the number of runs before the first is changed, and may raise. A call with an idempotency key acts once: if it
        was interrupted, repeating it raises `AlreadyAsked`.
        """
        user.must_be(Role.OPERATOR, f"to {action} runs")
        found, has_more = await self.matching(action, wanted, limit)
        admit(len(found))
        await self._store.take_key(user.actor(self._now()))  # last: a refused call must not use up its key
        done: list[tuple[UUID, UUID | None]] = []
        refused: list[tuple[UUID, str]] = []
        now, apart = self._now(), timedelta(minutes=1) / per_minute
        actor = user.actor(now).without_key()  # the key belongs to the whole call
        for run_id in found:
            try:
                done.append((run_id, await self._act(action, run_id, actor, now + len(done) * apart)))
            except Conflict as conflict:  # changed meanwhile, or its job was deleted
                refused.append((run_id, str(conflict)))
        return BulkResult(done, refused, has_more)

    async def _act(self, action: BulkAction, run_id: UUID, actor: Actor, ready_at: datetime) -> UUID | None:
        match action:
            case BulkAction.REPLAY:
                new_id = self._new_id()
                await self._store.replay_run(run_id, new_id, actor, ready_at=ready_at)
                return new_id
            case BulkAction.CANCEL:
                await self._store.cancel_run(run_id, actor)
            case BulkAction.DISCARD:
                await self._store.discard_run(run_id, actor)
        return None


def _ids_of_cause(runs: Sequence[FailedRun], fingerprint: str | None) -> list[UUID]:
    return [run.id for run in runs if run.cleared_at is None and run.fingerprint == fingerprint]


def _states(action: BulkAction, wanted: RunFilter) -> Sequence[RunState]:
    """Return the states that an action applies to; raise Conflict if the filter names another state."""
    if wanted.state is None:
        return _FOR[action]
    if wanted.state not in _FOR[action]:
        raise Conflict("wrong_state", f"{action} reaches runs that are {' or '.join(_FOR[action])}, not {wanted.state}")
    return (wanted.state,)


def _dead_letters(wanted: RunFilter) -> RunQuery:
    """Return the query for failed runs. Of one job, those that were replayed or discarded are among them."""
    runs = RunList.ENDED if wanted.job_id is None else RunList.OF_JOB
    return RunQuery(runs, RunState.FAILED, wanted.job_id, wanted.since, wanted.until)


def _grouped(runs: Sequence[FailedRun]) -> list[FailureGroup]:
    """Group failed runs by fingerprint, the most common first, then the one that failed last."""
    by_cause: dict[str, list[FailedRun]] = {}
    for run in runs:
        by_cause.setdefault(run.fingerprint, []).append(run)
    groups = [_group(fingerprint, each) for fingerprint, each in by_cause.items()]
    return sorted(groups, key=lambda group: (group.count, group.last_at, group.fingerprint), reverse=True)


def _group(fingerprint: str, runs: Sequence[FailedRun]) -> FailureGroup:
    newest = max(runs, key=lambda run: run.finished_at)
    names = Counter(run.job_name for run in runs if run.job_name is not None)
    return FailureGroup(
        fingerprint=fingerprint,
        error=newest.error,
        reason=newest.reason,
        lane=newest.lane,
        count=len(runs),
        first_at=min(run.finished_at for run in runs),
        last_at=newest.finished_at,
        jobs=[name for name, _ in names.most_common(MAX_NAMES)],
        job_count=len({run.job_id for run in runs}),
        sample_run_id=newest.id,
    )


def _queries(wanted: RunFilter) -> list[RunQuery]:
    """Return the queries that find the matching runs, in display order."""
    if wanted.job_id is not None:
        lists = [RunList.OF_JOB]
    elif wanted.subject is not None:
        lists = [RunList.OF_SUBJECT]
    elif wanted.state is None:
        lists = [RunList.RUNNING, RunList.WAITING, RunList.ENDED]
    elif wanted.state is RunState.RUNNING:
        lists = [RunList.RUNNING]
    else:
        lists = [RunList.WAITING if wanted.state in WAITING else RunList.ENDED]
    chosen = (wanted.state, wanted.job_id, wanted.since, wanted.until, wanted.subject)
    return [RunQuery(each, *chosen) for each in lists]


def _resume(cursor: str | None, steps: int) -> tuple[int, ListPosition | None]:
    if cursor is None:
        return 0, None
    step, key, run_id = parts_of(_KIND, cursor, 3)
    if number_of(step) >= steps:
        raise BadCursor
    return number_of(step), position_of(key, run_id, is_time=True)


def _key(runs: RunList, run: RunView) -> datetime:
    match runs:
        case RunList.WAITING:
            return run.expires_at
        case RunList.ENDED:
            assert run.finished_at is not None
            return run.finished_at
        case RunList.RUNNING | RunList.OF_JOB | RunList.OF_SUBJECT:
            return run.scheduled_at
