import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.client.served import Served, served
from tests.sqlite_database import SqliteDatabase


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOURBELL_URL", "HOURBELL_TOKEN", "HOURBELL_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    """A server for this machine alone, without any token yet."""
    async with SqliteDatabase.in_memory() as database, served(database) as made:
        yield made


@pytest.fixture
def live_url() -> Iterator[str]:
    """The API in a thread of its own, for programs that are not async."""
    stop, url = threading.Event(), queue.Queue[str]()

    async def main() -> None:
        async with SqliteDatabase.in_memory() as database, served(database) as made:
            url.put(made.url)
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    try:
        yield url.get(timeout=30)
    finally:
        stop.set()
        thread.join()
