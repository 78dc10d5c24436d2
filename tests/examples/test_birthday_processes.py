"""The birthdays with real processes: a node is killed with -9 when the greeting was sent and the answer is lost."""

import asyncio
import base64
import signal
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.database import Database, PostgresDatabase
from tests.examples.processes import EXAMPLES, Line, Receiver, free_port, run
from tests.faults.process import Server
from tests.sqlite_database import SqliteDatabase

pytestmark = [pytest.mark.anyio, pytest.mark.full]

PEOPLE = 40
LOAD, RECEIVER = EXAMPLES / "birthdays" / "load.py", EXAMPLES / "birthdays" / "receiver.py"
ZONES = ("UTC", "Africa/Abidjan", "Africa/Accra", "Atlantic/Reykjavik")  # the same time, all the year
SECRET = "whsec_YW4gZXhhbXBsZSwgbm90IGEgc2VjcmV0LCAzMmJ5dGU="
SETTINGS = {
    "BIRTHDAY_SECRET": SECRET,
    "HOURBELL_SECRET_KEY": base64.b64encode(bytes(32)).decode(),
    "HOURBELL_LEASE": "3s",
    "HOURBELL_REAP_INTERVAL": "1s",
}


@pytest.fixture(params=["postgres", pytest.param("sqlite", marks=pytest.mark.sweep)])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """A database that has never seen Hourbell."""
    made: AbstractAsyncContextManager[Database] = (
        PostgresDatabase.made(migrated=False) if request.param == "postgres" else SqliteDatabase.in_file(migrated=False)
    )
    async with made as opened:
        yield opened


def url_of(database: Database) -> str:
    return database.url if isinstance(database, PostgresDatabase) else f"sqlite:///{database.path}"  # type: ignore[attr-defined]


async def load(database: Database, folder: Path, url: str, settings: dict[str, str]) -> None:
    """Load people whose birthday is in a few seconds; once more with more of them if it had passed by then."""
    for seconds in (3, 10, 30):
        soon = datetime.now(UTC) + timedelta(seconds=seconds)
        lines = [f"p{number:03},Person,{number:03},2000-{soon:%m-%d},{ZONES[number % 4]}" for number in range(PEOPLE)]
        (folder / "people.csv").write_text("\n".join(["id,first_name,last_name,birthday,timezone", *lines]))
        arguments = (LOAD, "people.csv", "--url", url, "--at", f"{soon:%H:%M:%S}")
        await asyncio.to_thread(run, folder, *arguments, **settings)
        jobs = await database.rows("jobs")
        assert len(jobs) == PEOPLE
        if await database.rows("runs") or jobs[0]["next_at"] <= soon:
            return


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await is_so():
            await asyncio.sleep(0.05)


async def test_everybody_is_greeted_once_although_the_node_is_killed(database: Database, tmp_path: Path) -> None:
    settings = SETTINGS | {"DATABASE_URL": url_of(database)}

    async def some_are_greeted() -> bool:
        return receiver.log.count("birthday") >= PEOPLE // 4

    async def all_is_done() -> bool:
        return [row["state"] for row in await database.rows("runs")] == ["succeeded"] * PEOPLE

    with Receiver(tmp_path, RECEIVER, free_port(), **settings) as receiver:
        async with Line(receiver.port) as line:
            line.is_mute = True
            with Server(tmp_path, name="first", **settings).wait_until_serving() as node:
                await load(database, tmp_path, line.url, settings)
                await until(some_are_greeted)
                node.signal(signal.SIGKILL)
            line.is_mute = False
            with Server(tmp_path, name="second", **settings).wait_until_serving():
                await until(all_is_done)

    printed = Counter(line for line in receiver.log.splitlines() if "birthday" in line)
    assert printed == {f"Hey, Person {number:03} it's your birthday": 1 for number in range(PEOPLE)}
    assert receiver.log.count("again") >= PEOPLE // 4
    with closing(sqlite3.connect(tmp_path / "greetings.db")) as greetings:
        assert greetings.execute("select count(*), count(distinct person) from greetings").fetchone() == (
            PEOPLE,
            PEOPLE,
        )
