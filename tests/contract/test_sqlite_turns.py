"""Priorities of writers: the engine goes before users, and users still make progress."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.writer import ENGINE_IN_A_ROW, ReadWriteSplit, WriterThread

pytestmark = pytest.mark.anyio


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[WriterThread]:
    runner = WriterThread(str(tmp_path / "hourbell.db"))
    yield runner
    await runner.close()


class Turns:
    """Operations that note their turn, behind one that holds the thread until all of them wait."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.begin = threading.Event()

    def hold(self, _session: Session) -> None:
        assert self.begin.wait(10)

    def of(self, name: str) -> Callable[[Session], None]:
        return lambda _session: self.taken.append(name)


async def test_the_engine_writes_before_users_who_came_earlier(writer: WriterThread) -> None:
    turns, users = Turns(), ReadWriteSplit(writer, writer)
    waiting = [asyncio.ensure_future(each) for each in (writer.write(turns.hold), users.write(turns.of("import")))]
    waiting += [asyncio.ensure_future(writer.write(turns.of(name))) for name in ("plan", "claim")]
    await asyncio.sleep(0)
    turns.begin.set()
    await asyncio.gather(*waiting)

    assert turns.taken == ["plan", "claim", "import"]


async def test_users_have_their_turn_however_much_the_engine_writes(writer: WriterThread) -> None:
    turns, users = Turns(), ReadWriteSplit(writer, writer)
    waiting = [asyncio.ensure_future(writer.write(turns.hold))]
    waiting += [asyncio.ensure_future(users.write(turns.of("user"))) for _ in range(2)]
    waiting += [asyncio.ensure_future(writer.write(turns.of("engine"))) for _ in range(3 * ENGINE_IN_A_ROW)]
    await asyncio.sleep(0)
    turns.begin.set()
    await asyncio.gather(*waiting)

    indexes = [index for index, name in enumerate(turns.taken) if name == "user"]
    assert indexes == [ENGINE_IN_A_ROW, 2 * ENGINE_IN_A_ROW + 1]
