"""Server-sent events over a real connection: content, recipients, resumption and end."""

import asyncio
import json
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from hourbell.core.access.roles import Role
from hourbell.service import _listen, _server
from tests.api.whole import Whole, whole_api
from tests.faults.process import Server
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio

PATH = "/api/v1/events"
LONG = 30.0  # seconds for what takes one or two


@dataclass
class ServerEvent:
    """A block of the stream: an event, or only an id with a comment."""

    id: str | None = None
    event: str | None = None
    data: Any = None
    comment: str | None = None


class Stream:
    """A streamed response, read block by block."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def block(self) -> ServerEvent | None:
        """The next block; None if the stream has ended."""
        reported = ServerEvent()
        async with asyncio.timeout(LONG):
            async for line in self._lines:
                if not line:
                    return reported
                name, _, value = line.partition(": ")
                if name in ("id", "event"):
                    setattr(reported, name, value)
                elif name == "data":
                    reported.data = json.loads(value)
                elif not name:
                    reported.comment = value
        return None

    async def event(self) -> ServerEvent:
        """Return the next event, skipping comments."""
        while (reported := await self.block()) is not None:
            if reported.event is not None:
                return reported
        raise AssertionError("the stream has ended")


@dataclass
class LiveApi:
    api: Whole
    http: httpx.AsyncClient

    @asynccontextmanager
    async def listening(self, last_id: str | None = None, token: str | None = None) -> AsyncIterator[Stream]:
        """A listener, once the server has registered it."""
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
        async with self.http.stream("GET", PATH, headers=headers) as response:
            assert response.status_code == 200
            yield Stream(response)

    async def job(self, name: str) -> str:
        return str((await self.api.job(name))["id"])


@pytest.fixture
async def live_api() -> AsyncIterator[LiveApi]:
    """The whole API behind a real server of this process."""
    async with SqliteDatabase.in_memory() as database, whole_api(database) as api:
        listening, server = _listen("127.0.0.1", 0), _server(api.app)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=LONG) as http:
            yield LiveApi(api, http)
        await api.control.watch.close()
        server.should_exit = True
        await serving


async def test_a_change_through_the_api_is_sent_as_an_event(live_api: LiveApi) -> None:
    async with live_api.listening() as stream:
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        assert (stream.response.headers["cache-control"], await stream.block()) == ("no-store", ServerEvent())
        quiet = await stream.block()
        job_id = await live_api.job("report")
        reported = await stream.event()

    assert quiet is not None
    assert (quiet.comment, quiet.event, bool(quiet.id)) == ("nothing changed", None, True)
    assert (reported.event, reported.data) == ("changes", {"jobs": [{"id": job_id, "version": 1}], "runs": []})


async def test_the_start_and_end_of_a_run_are_sent_as_events(live_api: LiveApi) -> None:
    job_id = await live_api.job("report")
    run_id = (await live_api.api.client.post("/api/v1/jobs/report/trigger")).json()["run_id"]
    at = int(live_api.api.time.now().timestamp()) * 1_000_000
    async with live_api.listening() as stream:
        assert (await stream.event()).data["jobs"]  # created just before: reported rather twice than never
        await live_api.api.database.sql(f"update hourbell.runs set state = 'running', started_at = {at}")
        begun = await stream.event()
        await live_api.api.database.sql(f"update hourbell.runs set state = 'failed', finished_at = {at}")
        ended = await stream.event()

    about = {"id": run_id, "job_id": job_id}
    assert [reported.data["runs"] for reported in (begun, ended)] == [
        [{**about, "state": "running"}],
        [{**about, "state": "failed"}],
    ]


async def test_a_reconnecting_listener_resumes_and_an_unknown_id_gets_a_reset(live_api: LiveApi) -> None:
    async with live_api.listening() as other:
        async with live_api.listening() as stream:
            first = await live_api.job("first")
            reported = await stream.event()
        second = await live_api.job("second")
        heard = [await other.event(), await other.event()]
        async with live_api.listening(reported.id) as stream:
            missed = await stream.event()
        async with live_api.listening("of-another-server-1") as stream:
            unknown = await stream.event()

    assert [event.data["jobs"][0]["id"] for event in heard] == [first, second]
    assert missed == heard[1]
    assert (unknown.event, unknown.data, unknown.id) == ("reset", {}, missed.id)


async def test_a_listener_who_hangs_up_is_forgotten(live_api: LiveApi) -> None:
    watch = live_api.api.control.watch
    async with live_api.listening() as stream:
        await stream.block()
        await stream.block()
        assert watch.listeners == 1

    async with asyncio.timeout(LONG):
        while watch.listeners:
            await asyncio.sleep(0.01)


async def test_a_stream_ends_with_its_token(live_api: LiveApi) -> None:
    access = live_api.api.control.access
    await access.create("other", Role.ADMIN, "test")
    token, text = await access.create("viewer", Role.VIEWER, "test")
    admin = await live_api.api.token(Role.ADMIN)
    assert (await live_api.http.get(PATH)).status_code == 401
    async with live_api.listening(token=text.reveal()) as stream:
        await stream.block()
        await stream.block()
        await access.revoke(token.id, "test")
        body = {"name": "report", "schedule": "0 9 * * *", "target": {"type": "task", "name": "x"}}
        made = await live_api.http.post("/api/v1/jobs", json=body, headers={"Authorization": f"Bearer {admin}"})

        assert made.status_code == 201
        assert await stream.block() is None


def test_a_server_with_an_open_stream_stops_in_order(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        begun, ended = threading.Event(), threading.Event()

        def listen() -> None:
            with httpx.stream("GET", server.url + PATH, trust_env=False, timeout=LONG) as response:
                for _ in response.iter_lines():
                    begun.set()
            ended.set()  # an answer that breaks off raises instead

        server.wait_until_serving()
        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        assert begun.wait(LONG)
        server.signal(signal.SIGTERM)

        assert server.wait(LONG) == 0
        assert ended.wait(LONG)
        assert {event["level"] for event in server.events} == {"info"}
        assert server.names[-1] == "stopped"
