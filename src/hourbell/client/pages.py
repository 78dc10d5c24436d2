"""Lists of the API: a single page, or all items, with pages fetched as they are needed."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

from hourbell.answers.base import Answer, Json
from hourbell.client.api_client import object_of
from hourbell.client.batches import Batches
from hourbell.client.errors import UnexpectedAnswer
from hourbell.client.reading import read

A = TypeVar("A", bound=Answer)
_AT_ONCE = 200  # page size while iterating over all items
_MAX_PAGE_ITEMS = 500


@dataclass(frozen=True, slots=True)
class Page(Sequence[A], Generic[A]):
    """One page of a list. `next_cursor` is the page cursor of the next page; None if this is the last one."""

    items: tuple[A, ...]
    next_cursor: str | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, kind: type[A], raw: Any) -> "Page[A]":
        items = object_of(raw).get("items")
        if not isinstance(items, list):
            raise UnexpectedAnswer("The server's answer is not a list.")
        return cls(tuple(read(kind, item) for item in items), raw.get("next_cursor"), raw)

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> A: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[A, ...]: ...
    def __getitem__(self, index: int | slice) -> A | tuple[A, ...]:
        return self.items[index]


class Pages(Generic[A]):
    """An async iterable over all items, or over the first `limit`; `page()` returns a single page."""

    def __init__(
        self,
        kind: type[A],
        fetch: Callable[[Mapping[str, object]], Awaitable[Any]],
        query: Mapping[str, object],
        limit: int | None,
    ) -> None:
        self._kind = kind
        self._fetch = fetch
        self._query = query
        self._limit = limit

    async def page(self, *, limit: int | None = None, cursor: str | None = None) -> Page[A]:
        """Return one page of at most `limit` items (max 500), from the `next_cursor` of the previous page."""
        size = limit if limit is not None else min(_AT_ONCE if self._limit is None else self._limit, _MAX_PAGE_ITEMS)
        return Page.of(self._kind, await self._fetch({**self._query, "limit": size, "cursor": cursor}))

    def __aiter__(self) -> Batches[A]:
        return Batches(self._each())

    async def _each(self) -> AsyncGenerator[Sequence[A], None]:
        left, cursor = self._limit, None
        while left is None or left > 0:
            page = await self.page(limit=_AT_ONCE if left is None else min(left, _AT_ONCE), cursor=cursor)
            yield page.items[:left]
            left = None if left is None else left - len(page)
            cursor = page.next_cursor
            if cursor is None:
                return
