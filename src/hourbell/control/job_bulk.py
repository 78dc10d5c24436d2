"""Bulk actions on jobs: named ones, or all that match a filter, each in its own transaction."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from hourbell.control.history import History
from hourbell.control.jobs import Jobs, check_pause
from hourbell.control.user import NotAllowed, User, admit_all
from hourbell.core.access.roles import Role
from hourbell.core.values.field_errors import BodyError, FieldError
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict
from hourbell.store.lists.query import JobQuery, JobState, JobView

MAX_CHANGED_JOBS = 1_000  # jobs that a call changes
MAX_MATCHED_JOBS = 10_000  # jobs that a filter is evaluated for
_MATCHED_AT_ONCE = 100  # jobs that are read at once: the engine has its turns between them
MAX_PAYLOAD_BYTES = 16 * 1024 * 1024  # of all runs of a call, each of which stores its payload


class JobAction(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    TRIGGER = "trigger"
    DELETE = "delete"
    TAG = "tag"
    UNTAG = "untag"


_NEEDED = {JobAction.DELETE: Role.EDITOR, JobAction.TAG: Role.EDITOR, JobAction.UNTAG: Role.EDITOR}


@dataclass(frozen=True, slots=True)
class BulkChange:
    """An action with its options. Without a payload of its own, `payload` is None."""

    action: JobAction
    note: str = ""
    until: datetime | None = None
    tags: tuple[str, ...] = ()
    payload: object = None

    def is_pending(self, view: JobView) -> bool:
        """Return True if the action would change the job."""
        tags = set(view.job.definition.tags)
        match self.action:
            case JobAction.PAUSE:
                return view.state is not JobState.PAUSED
            case JobAction.RESUME:
                return not view.job.definition.enabled
            case JobAction.TAG:
                return not tags.issuperset(self.tags)
            case JobAction.UNTAG:
                return not tags.isdisjoint(self.tags)
            case _:
                return True


@dataclass(frozen=True, slots=True)
class Matched:
    """The jobs that a bulk action is for. `count` also has those that it would not change."""

    count: int
    pending: Sequence[JobView]
    missing: Sequence[str] = ()  # names of no job
    has_more: bool = False


def _check_payload(payload: object, jobs: int) -> None:
    size = len(json.dumps(payload))
    if size * jobs > MAX_PAYLOAD_BYTES:
        message = f"{size:,} bytes for each of {jobs} jobs are more than {MAX_PAYLOAD_BYTES:,} bytes"
        raise BodyError([FieldError("/payload", message, "choose fewer jobs, or a shorter payload")])


@dataclass(frozen=True, slots=True)
class ChangedJob:
    id: UUID
    name: str
    run_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class RefusedJob:
    name: str
    message: str


@dataclass(frozen=True, slots=True)
class JobBulkResult:
    """The result of a bulk action; `has_more` if further jobs match that it would change."""

    matched: int
    done: Sequence[ChangedJob] = ()
    refused: Sequence[RefusedJob] = ()
    has_more: bool = False


class JobBulk:
    def __init__(self, store: ControlStore, jobs: Jobs, history: History, *, now: Callable[[], datetime]) -> None:
        self._store = store
        self._jobs = jobs
        self._history = history
        self._now = now

    async def act(
        self,
        change: BulkChange,
        wanted: Sequence[str] | JobQuery,
        user: User,
        *,
        expect: int | None = None,
        dry_run: bool = False,
        admit: Callable[[int], None] = admit_all,
    ) -> JobBulkResult:
        """Act on the jobs, at most 1,000 of them; a dry run counts them.

        Jobs of a filter that the action would not change are counted and left alone, so a further call continues with
        the rest. Raises Conflict (`count_changed`), and changes nothing, if not as many jobs match as expected. `admit`
        is called with the number of jobs before the first is changed, and may raise. A call with an idempotency key
        acts once: if it was interrupted, repeating it raises `AlreadyAsked`.
        """
        user.must_be(_NEEDED.get(change.action, Role.OPERATOR), f"to {change.action} jobs")
        check_pause(change.note, change.until, self._now())
        matched = await self._match(change, wanted)
        if expect is not None and matched.count != expect:
            raise Conflict(
                "count_changed", f"{matched.count} jobs match now, not {expect}; look at them again, and repeat"
            )
        if dry_run:
            return JobBulkResult(matched.count, has_more=matched.has_more)
        _check_payload(change.payload, len(matched.pending))
        admit(len(matched.pending))
        await self._store.take_key(user.actor(self._now()))
        one = replace(user, request=replace(user.request, key=None))  # the key belongs to the whole call
        done: list[ChangedJob] = []
        refused = [RefusedJob(name, "there is no job of this name") for name in matched.missing]
        for view in matched.pending:
            name = view.job.definition.name
            try:
                done.append(ChangedJob(view.job.id, name, await self._act(change, view, one)))
            except (Conflict, NotAllowed) as error:
                refused.append(RefusedJob(name, str(error)))
            except BodyError as error:
                refused.append(RefusedJob(name, "; ".join(str(each) for each in error.errors)))
        return JobBulkResult(matched.count, done, refused, matched.has_more)

    async def _match(self, change: BulkChange, wanted: Sequence[str] | JobQuery) -> Matched:
        if isinstance(wanted, JobQuery):
            return await self._match_filter(change, wanted)
        found: dict[UUID, JobView] = {}
        missing = []
        for ref in wanted:
            try:
                view = await self._jobs.get(ref)
            except Conflict:
                missing.append(ref)
            else:
                found[view.job.id] = view
        return Matched(len(found) + len(missing), list(found.values()), missing)

    async def _match_filter(self, change: BulkChange, query: JobQuery) -> Matched:
        count, pending, cursor = 0, [], None
        while count < MAX_MATCHED_JOBS:
            page = await self._history.jobs(query, _MATCHED_AT_ONCE, cursor)
            count += len(page.items)
            pending += [view for view in page.items if change.is_pending(view)]
            cursor = page.next_cursor
            if cursor is None:
                break
        has_more = cursor is not None or len(pending) > MAX_CHANGED_JOBS
        return Matched(count, pending[:MAX_CHANGED_JOBS], has_more=has_more)

    async def _act(self, change: BulkChange, view: JobView, user: User) -> UUID | None:
        ref = str(view.job.id)
        match change.action:
            case JobAction.PAUSE:
                await self._jobs.pause(ref, user, note=change.note, until=change.until)
            case JobAction.RESUME:
                await self._jobs.resume(ref, user)
            case JobAction.TRIGGER:
                return await self._jobs.trigger(ref, user, payload=change.payload)
            case JobAction.DELETE:
                await self._jobs.delete(ref, user)
            case JobAction.TAG:
                await self._jobs.retag(ref, user, add=change.tags)
            case JobAction.UNTAG:
                await self._jobs.retag(ref, user, remove=change.tags)
        return None
