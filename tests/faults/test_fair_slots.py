"""Receivers that hang or trickle, enough of them to fill every slot of a node, do not delay a job of another one."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import pytest

from hourbell import clock
from hourbell.store.control.actor import Actor
from tests.database import Database
from tests.faults.databases import database_for, url_of
from tests.faults.process import Server
from tests.targets.http.receivers import OK, Behaviour, Receiver, Talk, answers_and_hangs, receiving, until

pytestmark = pytest.mark.anyio

HANGING, TRIGGERS = 11, 100
QUIET, ATTACKED = 4, 8  # requests to the good receiver, one a second
ALLOWED_SECONDS = 1.0  # later than while it is quiet


async def trickle(talk: Talk) -> None:
    """Answer at once, and then let the body come a byte at a time, for ever."""
    await talk.request()
    await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
    while True:
        await talk.say(b"x")
        await asyncio.sleep(0.5)


class Lateness:
    """A good receiver, which notes by how many seconds each request comes after its scheduled time."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def behave(self, talk: Talk) -> None:
        while True:
            request = await talk.request()
            headers = dict(line.split(": ", 1) for line in request.decode().split("\r\n\r\n")[0].split("\r\n")[1:])
            scheduled_at = datetime.fromisoformat(headers["hourbell-scheduled-at"])
            self.seconds.append((clock.now() - scheduled_at).total_seconds())
            await talk.say(OK)


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    async with database_for("sqlite") as made:
        yield made


@pytest.mark.parametrize(
    "behaviour",
    [pytest.param(answers_and_hangs(), id="hang"), pytest.param(trickle, id="trickle", marks=pytest.mark.full)],
)
async def test_an_attack_on_all_slots_does_not_delay_a_job_that_fires_every_second(
    database: Database, tmp_path: Path, behaviour: Behaviour
) -> None:
    """The attack of the penetration test: 11 hanging origins, 100 triggers each."""
    good = Lateness()
    async with AsyncExitStack() as stack:
        receivers = [await stack.enter_async_context(receiving(behaviour)) for _ in range(HANGING)]
        watched = await stack.enter_async_context(receiving(good.behave))
        stack.enter_context(Server(tmp_path, DATABASE_URL=url_of(database))).wait_until_serving()
        await insert(database, "good", watched, "* * * * * *")
        for number, receiver in enumerate(receivers):
            await insert(database, f"bad-{number}", receiver, "0 0 1 1 *")
        await until(lambda: len(good.seconds) >= QUIET)
        quiet = max(good.seconds[-QUIET + 1 :])
        await trigger_all(database)
        attacked_at = len(good.seconds)
        await until(lambda: sum(len(receiver.requests) for receiver in receivers) >= HANGING * 20)
        await asyncio.sleep(ATTACKED)
        requests = sum(len(receiver.requests) for receiver in receivers)

    lateness = good.seconds[attacked_at:]
    assert len(lateness) >= ATTACKED - 1
    assert max(lateness) <= quiet + ALLOWED_SECONDS
    assert requests >= HANGING * 50, "those that hang are called all the same"


async def insert(database: Database, name: str, receiver: Receiver, schedule: str) -> None:
    target = json.dumps({"type": "http", "url": f"http://127.0.0.1:{receiver.port}/", "timeout": "30s"})
    row = f"('{name}', '{schedule}', '{target}', 'all')"
    await database.sql(f"insert into hourbell.jobs (name, schedule, target, catch_up) values {row}")


async def trigger_all(database: Database) -> None:
    """Trigger every job of a hanging receiver a hundred times."""
    control, store = database.control(), database.engine()
    jobs = [job["id"] for job in await database.rows("jobs") if job["name"].startswith("bad")]
    for _ in range(TRIGGERS):
        now = await store.sample_time()
        for job_id in jobs:
            await control.trigger_job(job_id, uuid4(), Actor("test", now))
