"""Wrappers that make async methods blocking, with the same parameters and result types."""

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from hourbell.answers.base import Answer
from hourbell.client.background import Background
from hourbell.client.pages import Page, Pages

A = TypeVar("A", bound=Answer)
G = TypeVar("G")
P = ParamSpec("P")
T = TypeVar("T")


class SyncFacade(Generic[G]):
    """Base class of objects with blocking methods around an async object.

    `owner` is the client, which is closed when it is garbage-collected: a reference to one of its groups keeps it open.
    """

    def __init__(self, inner: G, background: Background, owner: object = None) -> None:
        self._inner = inner
        self._background = background
        self._owner = owner


class BlockingPages(Generic[A]):
    """An iterable over all items, or over the first `limit`; `page()` returns a single page."""

    def __init__(self, inner: Pages[A], facade: SyncFacade[Any]) -> None:
        self._inner = inner
        self._facade = facade

    def __iter__(self) -> Iterator[A]:
        yield from self._facade._background.iterate(aiter(self._inner))

    def page(self, *, limit: int | None = None, cursor: str | None = None) -> Page[A]:
        """Return one page of at most `limit` items (max 500), from the `next_cursor` of the previous page."""
        return self._facade._background.run(self._inner.page(limit=limit, cursor=cursor))


def blocking(method: Callable[Concatenate[G, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[SyncFacade[G], P], T]:
    @functools.wraps(method)
    def call(facade: SyncFacade[G], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return facade._background.run(method(facade._inner, *args, **kwargs))

    return call


def paged(method: Callable[Concatenate[G, P], Pages[A]]) -> Callable[Concatenate[SyncFacade[G], P], BlockingPages[A]]:
    @functools.wraps(method)
    def call(facade: SyncFacade[G], /, *args: P.args, **kwargs: P.kwargs) -> BlockingPages[A]:
        return BlockingPages(method(facade._inner, *args, **kwargs), facade)

    return call


def streamed(
    method: Callable[Concatenate[G, P], AsyncIterator[T]],
) -> Callable[Concatenate[SyncFacade[G], P], Iterator[T]]:
    @functools.wraps(method)
    def call(facade: SyncFacade[G], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        yield from facade._background.iterate(method(facade._inner, *args, **kwargs))

    return call
