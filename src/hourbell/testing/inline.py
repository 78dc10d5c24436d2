"""Runs coroutines that never wait, such as those of an in-memory database, without an event loop."""

from collections.abc import Awaitable
from typing import TypeVar

Answer = TypeVar("Answer")


def answer_of(awaitable: Awaitable[Answer]) -> Answer:
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    raise RuntimeError("this was not to wait for anything")
