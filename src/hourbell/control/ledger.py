"""The ledger of jobs: what became of each scheduled time, and figures about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from hourbell.control.jobs import Jobs
from hourbell.control.pages import BadCursor, Page, cursor_of, number_of, parts_of, position_of
from hourbell.core.run.fates import Fate
from hourbell.core.run.states import WAITING, RunState
from hourbell.core.schedule.zones import local_time_at
from hourbell.store.list_reader import ListStore
from hourbell.store.lists import JobView, ListPosition
from hourbell.store.times import RunTime, SkipTime

MAX_SCANNED = 5_000  # runs that one page of the ledger looks at, where only some fates are asked for
_AT_ONCE = 500
_KIND = "times"
_SKIP, _RUN = 0, 1  # at the same time, runs come before skips

_STATES: dict[Fate, frozenset[RunState]] = {
    Fate.SUCCEEDED: frozenset({RunState.SUCCEEDED}),
    Fate.LATE: frozenset({RunState.SUCCEEDED}),
    Fate.FAILED: frozenset({RunState.FAILED}),
    Fate.CANCELLED: frozenset({RunState.CANCELLED}),
    Fate.RUNNING: frozenset({RunState.RUNNING}),
    Fate.WAITING: WAITING,
    Fate.SKIPPED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class TimesFilter:
    """A filter of scheduled times: at or after `since`, before `until`, with one of the fates (none: any)."""

    since: datetime | None = None
    until: datetime | None = None
    fates: frozenset[Fate] = frozenset()

    def wants(self, fate: Fate) -> bool:
        return not self.fates or fate in self.fates

    @property
    def states(self) -> frozenset[RunState] | None:
        return frozenset().union(*(_STATES[fate] for fate in self.fates)) if self.fates else None


@dataclass(frozen=True, slots=True)
class LedgerItem:
    """One scheduled time of a job, or the times that one skip covers, and its fate."""

    at: datetime
    local: datetime  # without a zone
    until: datetime | None  # the last of several times
    count: int
    fate: Fate
    version: int | None  # of the job, as far as it is known
    run: RunTime | None = None
    skip: SkipTime | None = None

    @property
    def key(self) -> "_Key":
        if self.run is not None:
            return self.run.scheduled_at, _RUN, self.run.id.int
        assert self.skip is not None
        return self.skip.last_at, _SKIP, self.skip.id


_Key = tuple[datetime, int, int]  # a place in the ledger: what is newer is greater


class Ledger:
    """Queries on the scheduled times of jobs."""

    def __init__(self, jobs: Jobs, lists: ListStore) -> None:
        self._jobs = jobs
        self._lists = lists

    async def times(self, ref: str, wanted: TimesFilter, limit: int, cursor: str | None = None) -> Page[LedgerItem]:
        """List what became of the scheduled times of a job, newest first.

        Of runs, at most 5,000 are looked at: a page of a rare fate may hold fewer items than there are, and its cursor
        leads on.
        """
        view = await self._jobs.get(ref, deleted=True)
        after = None if cursor is None else _key_of(cursor)
        runs, scanned_to = await self._runs(view.job.id, wanted, limit + 1, after)
        skips = await self._skips(view.job.id, wanted, limit + 1, after)
        items = sorted([*map(_run_item, runs), *(await self._skip_items(view, skips))], key=_key, reverse=True)
        if scanned_to is not None:
            items = [item for item in items if item.key > scanned_to]

        def cursor_after(index: int) -> str:
            is_last = index == min(len(items), limit) - 1
            at, kind, number = (
                scanned_to if scanned_to is not None and is_last and len(items) <= limit else items[index].key
            )
            return cursor_of(_KIND, at, kind, UUID(int=number) if kind == _RUN else number)

        has_more = len(items) > limit or scanned_to is not None
        return Page(items[:limit], has_more=has_more, cursor_after=cursor_after)

    async def _runs(
        self, job_id: UUID, wanted: TimesFilter, count: int, after: _Key | None
    ) -> tuple[list[RunTime], _Key | None]:
        """Return up to `count` runs, and the place where the search was given up if it was."""
        states = wanted.states
        if states is not None and not states:
            return [], None
        place = None if after is None else _run_place(after)
        found: list[RunTime] = []
        scanned, at_once = 0, count
        while scanned < MAX_SCANNED:
            page = await self._lists.run_times(
                job_id, at_once, states=states, since=wanted.since, until=wanted.until, after=place
            )
            found += [run for run in page if wanted.wants(run.fate)]
            if len(found) >= count or len(page) < at_once:
                return found[:count], None
            scanned += len(page)
            place = ListPosition(page[-1].scheduled_at, page[-1].id)
            at_once = max(count, _AT_ONCE)
        assert place is not None
        assert isinstance(place.key, datetime)
        return found, (place.key, _RUN, place.id.int)

    async def _skips(self, job_id: UUID, wanted: TimesFilter, count: int, after: _Key | None) -> list[SkipTime]:
        if not wanted.wants(Fate.SKIPPED):
            return []
        before = None
        if after is not None:
            at, kind, number = after
            before = (at, number) if kind == _SKIP else (at, 2**63 - 1)
        return await self._lists.skip_times(job_id, count, since=wanted.since, until=wanted.until, before=before)

    async def _skip_items(self, view: JobView, skips: Sequence[SkipTime]) -> list[LedgerItem]:
        versions = await self._lists.version_times(view.job.id) if skips else []
        zone = view.job.definition.timezone
        return [
            LedgerItem(
                at=skip.first_at,
                local=_local(zone, skip.first_at),
                until=None if skip.last_at == skip.first_at else skip.last_at,
                count=skip.count,
                fate=Fate.SKIPPED,
                # What was due at the moment of a change belongs to the version before it.
                version=next((version for version, since in versions if since < skip.last_at), None),
                skip=skip,
            )
            for skip in skips
        ]


def _run_item(run: RunTime) -> LedgerItem:
    local = run.local_at or run.scheduled_at.replace(tzinfo=None)
    return LedgerItem(run.scheduled_at, local, None, 1, run.fate, run.job_version, run=run)


def _key(item: LedgerItem) -> _Key:
    return item.key


def _local(zone: str, at: datetime) -> datetime:
    try:
        return local_time_at(zone, at)[0]
    except ValueError:  # plain SQL may have written any text
        return at.replace(tzinfo=None)


def _run_place(after: _Key) -> ListPosition:
    """Return the place among runs that is the same as one in the ledger."""
    at, kind, number = after
    return ListPosition(at, UUID(int=number) if kind == _RUN else UUID(int=0))


def _key_of(cursor: str) -> _Key:
    at, kind, found_id = parts_of(_KIND, cursor, 3)
    if number_of(kind) == _RUN:
        place = position_of(at, found_id, is_time=True)
        number = place.id.int
    elif kind == _SKIP:
        place = position_of(at, UUID(int=0), is_time=True)
        number = number_of(found_id)
    else:
        raise BadCursor
    assert isinstance(place.key, datetime)
    return place.key, number_of(kind), number
