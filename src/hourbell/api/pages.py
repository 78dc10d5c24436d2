"""Responses for pages of lists: limited in bytes."""

import json
from collections.abc import Callable
from itertools import accumulate, takewhile
from typing import Any, TypeVar

from starlette.responses import Response

from hourbell.control.pages import Page

T = TypeVar("T")
Json = dict[str, Any]

MAX_PAGE_BYTES = 4 * 1024 * 1024
_AROUND_ITEMS = 4_096  # bytes for the field names and the longest cursor
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode


def page_response(page: Page[T], render_item: Callable[[T], Json], more: Json | None = None) -> Response:
    """Build the response of a page, with `more` fields beside its items.

    A page over MAX_PAGE_BYTES is cut short; its cursor leads to the rest. The first item is always included, so that a
    client that follows the cursors makes progress.
    """
    items = [render_item(each) for each in page.items]
    body = _body(items, page, more or {})
    if len(body) > MAX_PAGE_BYTES:
        count = max(1, _fitting(items, MAX_PAGE_BYTES - _AROUND_ITEMS))
        body = _body(items[:count], page.first(count), more or {})
    return Response(body, media_type="application/json")


def _body(items: list[Json], page: Page[Any], more: Json) -> bytes:
    return _encode({"items": items, "next_cursor": page.next_cursor, **more}).encode()


def _fitting(items: list[Json], max_bytes: int) -> int:
    """Count the first items that fit into `max_bytes` together, with a comma after each."""
    ends = accumulate(len(_encode(item).encode()) + 1 for item in items)
    return sum(1 for _ in takewhile(lambda end: end <= max_bytes, ends))
