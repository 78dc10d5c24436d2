"""Pages of lists as answers: at most so many bytes, and a mark for each value that is too long for a list."""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from starlette.responses import Response

from hourbell.control.pages import Page

T = TypeVar("T")
Json = dict[str, Any]

MAX_PAGE_BYTES = 4 * 1024 * 1024
_AROUND_ITEMS = 4_096  # bytes for the names and the longest cursor
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode


def page_response(page: Page[T], render_item: Callable[[T], Json]) -> Response:
    """Answer with a page. One that would be longer than MAX_PAGE_BYTES ends earlier; its cursor leads to the rest.

    The first item is always there, so that whoever follows the cursors comes to an end.
    """
    items: list[bytes] = []
    left = MAX_PAGE_BYTES - _AROUND_ITEMS
    for each in page.items:
        item = _encode(render_item(each)).encode()
        left -= len(item) + 1
        if items and left < 0:
            break
        items.append(item)
    cursor = _encode(page.first(len(items)).next_cursor).encode()
    body = b'{"items":[%b],"next_cursor":%b}' % (b",".join(items), cursor)
    return Response(body, media_type="application/json")


def mark_omitted(item: Json, omitted: Sequence[str], url: str) -> Json:
    """Name the values that an item of a list lacks because they are long, and the address that shows them."""
    return {**item, "omitted": [{"field": field, "url": url} for field in omitted]} if omitted else item
