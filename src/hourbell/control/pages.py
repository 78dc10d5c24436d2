"""Pages of lists: a cursor is where the last page ended, as text that says nothing to whoever holds it."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar
from uuid import UUID

from hourbell.store.lists import Place

T = TypeVar("T")

MOST = 500


class BadCursor(ValueError):
    """The text is not a cursor of this list."""

    def __init__(self) -> None:
        super().__init__("this is not a cursor of this list; take next_cursor from the answer before, or leave it out")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Items of a list. `cursor_after` makes the cursor of the page that begins after the item of an index."""

    items: Sequence[T]
    has_more: bool
    cursor_after: Callable[[int], str]

    @property
    def next_cursor(self) -> str | None:
        return self.cursor_after(len(self.items) - 1) if self.has_more else None

    def first(self, count: int) -> "Page[T]":
        """The page as far as its first items; what is left begins the next page."""
        return (
            self
            if count >= len(self.items)
            else Page(self.items[:count], has_more=True, cursor_after=self.cursor_after)
        )


def page_of(found: Sequence[T], limit: int, cursor_after: Callable[[T], str]) -> Page[T]:
    """A page of at most `limit` items, of which one more was looked for."""
    return Page(found[:limit], has_more=len(found) > limit, cursor_after=lambda index: cursor_after(found[index]))


def cursor_of(kind: str, *parts: str | int | datetime | UUID | None) -> str:
    """A cursor of a list, made of what its next page begins after."""
    plain = [_plain(part) for part in parts]
    return base64.urlsafe_b64encode(json.dumps([kind, *plain]).encode()).decode().rstrip("=")


def parts_of(kind: str, cursor: str, count: int) -> list[object]:
    """What a cursor was made of; BadCursor if it is not one of that list."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        found = json.loads(text)
    except (binascii.Error, ValueError, RecursionError):
        raise BadCursor from None
    if not isinstance(found, list) or len(found) != count + 1 or found[0] != kind:
        raise BadCursor
    return found[1:]


def place_of(key: object, found_id: object, *, is_time: bool) -> Place:
    try:
        place_key = _instant_of(key) if is_time else (None if key is None else str(key))
        place = Place(place_key, UUID(str(found_id)))
    except (ValueError, OverflowError):
        raise BadCursor from None
    if isinstance(place.key, str) and "\0" in place.key:
        raise BadCursor
    return place


def _instant_of(key: object) -> datetime:
    """An instant in UTC: one near the ends of the calendar has no other offset, and databases have other ends."""
    instant = datetime.fromisoformat(str(key))
    if instant.tzinfo is None:
        raise BadCursor
    return instant.astimezone(UTC)


def number_of(part: object) -> int:
    if type(part) is not int or not 0 <= part < 2**63:
        raise BadCursor
    return part


def _plain(part: str | int | datetime | UUID | None) -> str | int | None:
    if isinstance(part, datetime):
        return part.isoformat()
    return str(part) if isinstance(part, UUID) else part
