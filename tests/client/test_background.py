"""The thread behind the sync client, when Ctrl-C arrives at a bad moment."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from hourbell.client.background import Background


async def numbers() -> AsyncIterator[int]:
    yield 1


def test_after_an_interrupt_during_the_thread_start_the_client_can_be_used_and_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = threading.Event()

    async def close() -> None:
        closed.set()

    background, start = Background(close), threading.Thread.start
    started: list[threading.Thread] = []

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        started.append(thread)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(background.iterate(numbers()))
    started[0].join(10)
    assert not started[0].is_alive()

    assert list(background.iterate(numbers())) == [1]
    background.close()
    assert closed.is_set()


def test_an_interrupt_after_the_handover_only_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    handed = asyncio.run_coroutine_threadsafe
    ran = threading.Event()

    async def close() -> None: ...

    async def work() -> None:
        ran.set()

    def interrupted(*args: object) -> None:
        handed(*args).result()  # type: ignore[arg-type]
        raise KeyboardInterrupt

    background = Background(close)
    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        background.run(work())

    assert ran.is_set()
    background.close()
