"""How a method of the async client becomes one that blocks, with the same parameters and the type of its result."""

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from hourbell.client.background import Background
from hourbell.client.pages import Page, Pages
from hourbell.client.reading import Answer

A = TypeVar("A", bound=Answer)
G = TypeVar("G")
P = ParamSpec("P")
T = TypeVar("T")


class Front(Generic[G]):
    """A group of methods that wait for those of the group behind them.

    `owner` is the client: it is closed when nobody has it any more, and whoever has one of its groups has it, too.
    """

    def __init__(self, behind: G, background: Background, owner: object = None) -> None:
        self._behind = behind
        self._background = background
        self._owner = owner


class BlockingPages(Generic[A]):
    """An iterable of all items, or of the first `limit`; `page()` is one answer of the API."""

    def __init__(self, behind: Pages[A], front: Front[Any]) -> None:
        self._behind = behind
        self._front = front

    def __iter__(self) -> Iterator[A]:
        yield from self._front._background.iterate(aiter(self._behind))

    def page(self, *, limit: int | None = None, cursor: str | None = None) -> Page[A]:
        """At most `limit` items, up to 500, from where `next_cursor` of the page before leads to."""
        return self._front._background.run(self._behind.page(limit=limit, cursor=cursor))


def blocking(method: Callable[Concatenate[G, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Front[G], P], T]:
    @functools.wraps(method)
    def call(front: Front[G], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return front._background.run(method(front._behind, *args, **kwargs))

    return call


def paged(method: Callable[Concatenate[G, P], Pages[A]]) -> Callable[Concatenate[Front[G], P], BlockingPages[A]]:
    @functools.wraps(method)
    def call(front: Front[G], /, *args: P.args, **kwargs: P.kwargs) -> BlockingPages[A]:
        return BlockingPages(method(front._behind, *args, **kwargs), front)

    return call


def streamed(method: Callable[Concatenate[G, P], AsyncIterator[T]]) -> Callable[Concatenate[Front[G], P], Iterator[T]]:
    @functools.wraps(method)
    def call(front: Front[G], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        yield from front._background.iterate(method(front._behind, *args, **kwargs))

    return call
