"""The audit chain in a store, and its verification, page by page in bounded memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from hourbell.core.access.audit_chain import GENESIS, GRACE, AuditedChange, Break, ChainCheck, Link, SealKeys
from hourbell.store.control.session import Session, Sessions
from hourbell.store.errors import ChainExtended
from hourbell.store.rows import Row

PAGE_ROWS = 100
PAGE_BYTES = 262_144  # of JSON; a page ends with the row that exceeds it
MAX_BREAKS = 100  # that a verdict stores
_LOWEST_ID = -(2**63)
Extend = Callable[[Link | None, Sequence[AuditedChange]], Sequence[Link]]


class ChainedRow(NamedTuple):
    """A link with its audit row; None if the row is gone or the link is a checkpoint."""

    link: Link
    change: AuditedChange | None


class Stray(NamedTuple):
    """An audit row that has no link and does not wait for one, or that was removed while it waited."""

    audit_id: int
    at: datetime | None  # None if the row is gone


class Waiting(NamedTuple):
    """Audit rows that wait for their link."""

    rows: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True)
class Extended:
    """The result of one attempt to extend the chain."""

    head: Link | None  # the newest link before the attempt
    links: Sequence[Link] = ()  # appended
    is_lost: bool = False  # another node was faster; nothing was written
    has_more: bool = False  # more rows may be waiting


class Fetch(Protocol):
    """Runs one named statement that changes nothing."""

    async def __call__(self, statement: str, /, **values: Any) -> Sequence[Row]: ...


class ChainReader:
    """Reads the chain. Each verb is short and changes nothing."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def head(self) -> Link | None:
        """Return the newest link, or None if the chain is empty."""
        return next(map(link_of, await self._fetch("chain_head")), None)

    async def page(self, after: int) -> list[ChainedRow]:
        """Return the next links after a position with their rows: at most PAGE_ROWS, fewer if rows are large."""
        rows = await self._fetch("chain_page", after=after, max_rows=PAGE_ROWS, max_bytes=PAGE_BYTES)
        return [chained_row(row) for row in rows]

    async def strays(self, after_id: int, limit: int) -> list[Stray]:
        """Return the first rows after an id that no loop will chain."""
        rows = await self._fetch("strays", after_id=after_id, limit=limit)
        return [Stray(row["audit_id"], row["at"]) for row in rows]

    async def waiting(self) -> Waiting:
        """Return the number of rows that wait for their link, and the time of the oldest."""
        [row] = await self._fetch("count_unchained")
        return Waiting(row["total"], row["oldest_at"])

    async def highest_id(self) -> int:
        """Return the highest id of an audit row; 0 if there is none."""
        [row] = await self._fetch("highest_audit_id")
        return int(row["id"])


class AuditChainStore(ChainReader):
    def __init__(self, sessions: Sessions) -> None:
        super().__init__(sessions.fetch)
        self._sessions = sessions

    async def extend(self, decide: Extend) -> Extended:
        """Let `decide` link waiting rows to the newest link, and append the links it returns in one transaction.

        A row waits from its commit until it has a link. If two nodes extend the chain at the same time, one appends
        and the other changes nothing. If `decide` returns no links, nothing is written.
        """

        async def link_rows(session: Session) -> tuple[Link | None, bool, Sequence[Link]]:
            head = next(map(link_of, await session.fetch("chain_head")), None)
            rows = await session.fetch("unchained", max_rows=PAGE_ROWS, max_bytes=PAGE_BYTES)
            return head, bool(rows), decide(head, [change_of(row) for row in rows])

        async def append(session: Session) -> None:
            await session.append_links(links)
            audit_ids = [link.audit_id for link in links if link.audit_id is not None]
            await session.execute("dequeue_links", audit_ids=audit_ids)

        head, has_rows, links = await self._sessions.snapshot(link_rows)  # keeps hashing off SQLite's writer thread
        if not links:
            return Extended(head)
        try:
            await self._sessions.transact(append)
        except ChainExtended:
            return Extended(head, is_lost=True, has_more=True)
        return Extended(head, links, has_more=has_rows)


@dataclass(slots=True)
class Verdict:
    """The result of a verification: the first breaks, and counts."""

    breaks: list[Break] = field(default_factory=list)
    break_count: int = 0
    head: Link | None = None
    rows: int = 0
    sealed_position: int = 0
    chained_late: int = 0
    waiting: int = 0
    waiting_since: datetime | None = None  # set if rows have waited longer than nodes need

    @property
    def is_intact(self) -> bool:
        return self.break_count == 0

    def add(self, found: Break) -> None:
        self.break_count += 1
        if len(self.breaks) < MAX_BREAKS:
            self.breaks.append(found)


async def verify_chain(
    reader: ChainReader, now: datetime, seals: SealKeys, *, expect: str | None = None, start: int = 1
) -> Verdict:
    """Verify every link from a position on, that each link has its row, and that each row has a link.

    `expect` is a hash that was once the newest: it must still be in the chain.
    """
    verdict = await verify_links(reader, now, seals, expect=expect, start=start)
    await _find_strays(reader, now, verdict)
    return verdict


async def verify_links(
    reader: ChainReader, now: datetime, seals: SealKeys, *, expect: str | None = None, start: int = 1
) -> Verdict:
    """Verify every link from a position on, and that each has its row."""
    verdict, check = Verdict(), ChainCheck(seals, start=start, previous=GENESIS if start == 1 else None)
    after = _LOWEST_ID if start == 1 else start - 2  # include the link before `start`: its hash is needed
    is_expected = expect is None
    while page := await reader.page(after):
        for link, change in page:
            is_expected = is_expected or link.hash == expect
            if link.position < start and start > 1:
                check = ChainCheck(seals, start=start, previous=link.hash)
                continue
            for found in check.check(link, change):
                verdict.add(found)
        after = page[-1].link.position
    for found in check.finish(now):
        verdict.add(found)
    if not is_expected:
        message = f"the chain does not contain the expected hash {expect}: rows were removed or changed since then"
        verdict.add(Break("hash_missing", message))
    verdict.head, verdict.rows = check.head, check.rows
    verdict.sealed_position, verdict.chained_late = check.sealed_position, check.chained_late
    return verdict


async def verify_newest(reader: ChainReader, now: datetime, seals: SealKeys, count: int) -> Verdict:
    """Verify the newest `count` links and the newest `count` audit rows."""
    head = await reader.head()
    verdict = await verify_links(reader, now, seals, start=1 if head is None else max(1, head.position - count + 1))
    await _find_strays(reader, now, verdict, after_id=await reader.highest_id() - count)
    return verdict


async def _find_strays(reader: ChainReader, now: datetime, verdict: Verdict, after_id: int = _LOWEST_ID) -> None:
    """Report rows that no loop will chain, and count those that wait for their link."""
    for stray in await reader.strays(after_id, MAX_BREAKS):
        if stray.at is None:
            message = f"the audit row {stray.audit_id} was removed before it was chained"
            verdict.add(Break("row_removed", message, audit_id=stray.audit_id))
        else:
            message = f"the audit row {stray.audit_id} has no link: it was inserted without the table's trigger"
            verdict.add(Break("row_unchained", message, audit_id=stray.audit_id, at=stray.at))
    verdict.waiting, oldest_at = await reader.waiting()
    verdict.waiting_since = oldest_at if oldest_at is not None and oldest_at < now - GRACE else None


def link_of(row: Row) -> Link:
    return Link(*(row[name] for name in Link._fields))


def change_of(row: Row) -> AuditedChange:
    return AuditedChange(*(row[name] for name in AuditedChange._fields))


def chained_row(row: Row) -> ChainedRow:
    """Read a chain row joined with its audit row, whose columns are null if it is gone."""
    return ChainedRow(link_of(row), None if row["at"] is None else change_of(row))
