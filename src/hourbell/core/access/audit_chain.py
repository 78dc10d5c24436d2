"""The audit chain: every audit row gets a position, and a hash over its content and the previous hash.

A changed row no longer matches its hash, and a removed or inserted row no longer matches its neighbours. The hash is
plain SHA-256, so that anybody can check it against a copy stored elsewhere. A seal is an HMAC of the hash by a key that
is not in the database: an attacker who can only write the tables cannot recompute a sealed chain. A hash covers every
earlier row, so one valid seal vouches for all of them, including rows sealed by a key that was rotated away.

A row gets its position when it is chained, after its commit. So a row that became visible late is chained late, and ids
used up by a rolled-back transaction leave no gap.
"""

import hashlib
import hmac
import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

GENESIS = "0" * 64  # the hash before the first link
LATE = timedelta(hours=1)  # max time by which an older row may commit after a younger one
GRACE = timedelta(minutes=10)  # time allowed to seal the newest links and to chain new rows
_FORMAT = "hourbell audit chain 1"
_MAX_DIGITS = 400  # more than a float has


class AuditedChange(NamedTuple):
    """The content of an audit row that its hash covers. JSON is text; an id is hexadecimal."""

    id: int
    at: datetime
    actor: str
    action: str
    subject: str
    before: str | None
    after: str | None
    token: str | None
    ip: str | None
    request_id: str | None


class Link(NamedTuple):
    """One position of the chain."""

    position: int
    audit_id: int | None  # None: a checkpoint, which only seals the links before it
    chained_at: datetime
    hash: str
    key_id: str | None = None
    seal: str | None = None


@dataclass(frozen=True, slots=True)
class SealKeys:
    """Keys that seal links, by id; the newest one seals. Without any, links have no seals."""

    keys: Mapping[str, bytes] = field(default_factory=dict)
    newest: str | None = None


@dataclass(frozen=True, slots=True)
class Break:
    """One break of the chain: its kind, a message and its position."""

    kind: str
    message: str
    position: int | None = None
    audit_id: int | None = None
    at: datetime | None = None  # when the row was written, or chained if the row is missing


def extend_chain(
    head: Link | None, changes: Sequence[AuditedChange], now: datetime, seals: SealKeys, *, is_start: bool = False
) -> list[Link]:
    """Link changes to the end of the chain, in the given order.

    Without changes, add a checkpoint that seals the chain if its newest link has no seal. At the start of a node
    (`is_start`), also add one if another key sealed the newest link, so that a rotated key can be thrown away.
    """
    if changes:
        return _linked(head, changes, now, seals)
    if head is None or seals.newest is None:
        return []
    is_sealed = head.key_id == seals.newest if is_start else head.key_id is not None
    return [] if is_sealed else _linked(head, [None], now, seals)


def _linked(head: Link | None, changes: Sequence[AuditedChange | None], now: datetime, seals: SealKeys) -> list[Link]:
    position, previous = (0, GENESIS) if head is None else (head.position, head.hash)
    links = []
    for change in changes:
        position += 1
        previous = link_hash(previous, position, now, change)
        seal = None if seals.newest is None else _seal(seals.keys[seals.newest], previous)
        links.append(Link(position, change.id if change else None, now, previous, seals.newest, seal))
    return links


def link_hash(previous: str, position: int, chained_at: datetime, change: AuditedChange | None) -> str:
    """Hash a link, as hexadecimal text. The hash of the same content is the same on every database."""
    content = None
    if change is not None:
        at, before, after = _instant(change.at), _canonical(change.before), _canonical(change.after)
        content = change._replace(at=at, before=before, after=after)  # type: ignore[arg-type]
    text = json.dumps([_FORMAT, previous, position, _instant(chained_at), content], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _seal(key: bytes, link: str) -> str:
    return hmac.digest(key, link.encode(), "sha256").hex()


def _instant(at: datetime) -> str:
    return (at.astimezone(UTC) if at.tzinfo else at).isoformat(timespec="microseconds")


def _canonical(text: str | None) -> str | None:
    """Normalize JSON text, because databases reorder keys and rewrite numbers; return other text unchanged."""
    if text is None:
        return None
    try:
        value = json.loads(text, parse_float=_number, object_pairs_hook=_object)
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, ArithmeticError, RecursionError):
        return text


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice: which value counts depends on the reader")
    return found


def _number(text: str) -> int | float:
    """Parse a number with a fraction or an exponent, as an integer if it is one: PostgreSQL writes 1e22 out."""
    exact = Decimal(text)
    if exact.adjusted() < _MAX_DIGITS and exact == exact.to_integral_value():
        return int(exact)
    return float(text)


class ChainCheck:
    """Checks links in order, from a position whose previous hash is known, in bounded memory."""

    def __init__(self, seals: SealKeys, *, start: int = 1, previous: str | None = GENESIS) -> None:
        self._seals = seals
        self._position = start - 1
        self._previous = previous  # None: unknown, so the first hash is trusted
        self._newest_ids: deque[tuple[datetime, int]] = deque()  # of the last hour: (chained at, highest id so far)
        self._settled_id = 0  # the highest id chained over an hour earlier
        self._highest_id = 0
        self.rows = 0
        self.chained_late = 0
        self.sealed_position = 0  # position of the newest link with a valid seal
        self._unsealed: Link | None = None  # the oldest link after that position
        self.head: Link | None = None

    def check(self, link: Link, change: AuditedChange | None) -> Iterator[Break]:
        """Check the next link against its row; `change` is None if the row is missing or the link is a checkpoint."""
        at = change.at if change else link.chained_at
        if link.position <= self._position:
            message = f"the position {link.position} was inserted: the chain begins at 1"
            yield Break("link_inserted", message, link.position, link.audit_id, at)
            return
        if link.position != self._position + 1:
            yield Break("links_removed", _missing(self._position + 1, link.position - 1), link.position, None, at)
            self._previous = None
        if change is None and link.audit_id is not None:
            message = f"the audit row {link.audit_id} was removed"
            yield Break("row_removed", message, link.position, link.audit_id, at)
        elif (
            self._previous is not None
            and link_hash(self._previous, link.position, link.chained_at, change) != link.hash
        ):
            what = "the checkpoint" if change is None else f"the audit row {link.audit_id}"
            message = f"{what} or its link was changed: it does not fit its hash"
            yield Break("row_changed", message, link.position, link.audit_id, at)
        if change is not None:
            yield from self._check_order(link, change)
        yield from self._check_seal(link)
        self._position, self._previous, self.head = link.position, link.hash, link

    def _check_order(self, link: Link, change: AuditedChange) -> Iterator[Break]:
        """Report a row that was inserted among older rows after they were chained."""
        while self._newest_ids and self._newest_ids[0][0] < link.chained_at - LATE:
            self._settled_id = self._newest_ids.popleft()[1]
        if change.id < self._settled_id:
            message = f"the audit row {change.id} was inserted later: younger rows were chained over an hour before it"
            yield Break("row_inserted", message, link.position, change.id, change.at)
        self._highest_id = max(self._highest_id, change.id)
        if self._newest_ids and self._newest_ids[-1][0] == link.chained_at:
            self._newest_ids.pop()
        self._newest_ids.append((link.chained_at, self._highest_id))
        self.rows += 1
        self.chained_late += link.chained_at - change.at > LATE

    def _check_seal(self, link: Link) -> Iterator[Break]:
        key = self._seals.keys.get(link.key_id or "")
        if key is None:
            self._unsealed = self._unsealed or link
        elif _seal(key, link.hash) == link.seal:
            self.sealed_position, self._unsealed = link.position, None
        else:
            message = "the seal is wrong: the hash was not computed by a node that has the key"
            yield Break("seal_wrong", message, link.position, link.audit_id, link.chained_at)

    def finish(self, now: datetime) -> Iterator[Break]:
        """Report that the newest links have no valid seal, if there are keys to check seals with."""
        oldest = self._unsealed
        if self._seals.keys and oldest is not None and abs(oldest.chained_at - now) > GRACE:
            message = (
                "from here on no link has a seal of a key in HOURBELL_SECRET_KEY: nodes run without that key, or the "
                "chain was recomputed; compare it with a hash that you kept, then give every node the key"
            )
            yield Break("unsealed", message, oldest.position, oldest.audit_id, oldest.chained_at)


def _missing(first: int, last: int) -> str:
    return f"the position {first} is missing" if first == last else f"the positions {first} to {last} are missing"
