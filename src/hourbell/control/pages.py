"""Pages of lists. A cursor is the position where a page ended, as opaque text."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar
from uuid import UUID

from hourbell.store.lists.query import ListPosition

T = TypeVar("T")

MAX_PAGE_ITEMS = 500


class BadCursor(ValueError):
    """A text that is not a cursor of the list."""

    def __init__(self) -> None:
        super().__init__(
            "the cursor does not belong to this list; use next_cursor of the previous response, or omit it"
        )


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Items of a list. `cursor_after` returns the cursor of the page that begins after the item at an index."""

    items: Sequence[T]
    has_more: bool
    cursor_after: Callable[[int], str]

    @property
    def next_cursor(self) -> str | None:
        return self.cursor_after(len(self.items) - 1) if self.has_more else None

    def first(self, count: int) -> "Page[T]":
        """Return the page cut to its first items; the next page begins with the rest."""
        return (
            self
            if count >= len(self.items)
            else Page(self.items[:count], has_more=True, cursor_after=self.cursor_after)
        )


def page_of(found: Sequence[T], limit: int, cursor_after: Callable[[T], str]) -> Page[T]:
    """Build a page of at most `limit` items from a query for one more than that."""
    return Page(found[:limit], has_more=len(found) > limit, cursor_after=lambda index: cursor_after(found[index]))


def cursor_of(kind: str, *parts: str | int | datetime | UUID | None) -> str:
    """Encode the position of the last item as a cursor of a list."""
    plain = [_plain(part) for part in parts]
    return base64.urlsafe_b64encode(json.dumps([kind, *plain]).encode()).decode().rstrip("=")


def parts_of(kind: str, cursor: str, count: int) -> list[object]:
    """Decode a cursor; raise BadCursor if it is not one of that list."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        found = json.loads(text)
    except (binascii.Error, ValueError, RecursionError):
        raise BadCursor from None
    if not isinstance(found, list) or len(found) != count + 1 or found[0] != kind:
        raise BadCursor
    return found[1:]


def position_of(key: object, found_id: object, *, is_time: bool) -> ListPosition:
    try:
        sort_key = _instant_of(key) if is_time else (None if key is None else str(key))
        position = ListPosition(sort_key, UUID(str(found_id)))
    except (ValueError, OverflowError):
        raise BadCursor from None
    if isinstance(position.key, str) and "\0" in position.key:
        raise BadCursor
    return position


def _instant_of(key: object) -> datetime:
    """Parse an instant and convert it to UTC. Near the ends of the calendar that raises OverflowError."""
    instant = datetime.fromisoformat(str(key))
    if instant.tzinfo is None:
        raise BadCursor
    return instant.astimezone(UTC)


def text_of(part: object) -> str:
    """Return a text that both databases can store."""
    if not isinstance(part, str) or "\0" in part or any("\ud800" <= character <= "\udfff" for character in part):
        raise BadCursor
    return part


def number_of(part: object) -> int:
    if type(part) is not int or not 0 <= part < 2**63:
        raise BadCursor
    return part


def _plain(part: str | int | datetime | UUID | None) -> str | int | None:
    if isinstance(part, datetime):
        return part.isoformat()
    return str(part) if isinstance(part, UUID) else part
