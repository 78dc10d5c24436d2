"""Paginated lists: fetch as many items as requested and merge the pages into one body."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.shared.output import Output, View, note

if TYPE_CHECKING:
    from hourbell.client import BlockingPages

Function = Callable[..., None]
_PAGE = 500


def number_option(function: Function) -> Function:
    return click.option(
        "-n", "--number", type=click.IntRange(1, 1_000_000), default=50, help="The maximum number.  [default: 50]"
    )(function)


def show_list(
    pages: "BlockingPages[Any]", number: int, output: Output, view: View, nothing: str | Callable[[], str]
) -> None:
    """Print up to `number` items, then note whether there are more. An empty list prints the `nothing` message."""
    page = pages.page(limit=min(number, _PAGE))
    items, body = list(page), page.raw
    while page.next_cursor is not None and len(items) < number:
        page = pages.page(limit=min(number - len(items), _PAGE), cursor=page.next_cursor)
        items += page
        body = {**body, "items": [*body["items"], *page.raw["items"]], "next_cursor": page.next_cursor}
    output.items(items, view, body)
    if not items and output.is_for_people:
        note(nothing if isinstance(nothing, str) else nothing())
    if page.next_cursor is not None and output.format != "json":
        note(f"there are more than these {len(items)}; -n shows more")
