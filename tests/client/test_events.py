"""Events arrive as they happen, and resume where the connection broke."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hourbell.client import AsyncClient, Change, NotAuthenticated, ServerOutOfReach
from hourbell.core.access.roles import Role
from tests.api.whole import a_job
from tests.client.served import Pauses, Served

pytestmark = pytest.mark.anyio


async def heard(listening: AsyncIterator[Change], seconds: float = 20.0) -> Change:
    return await asyncio.wait_for(anext(listening), seconds)


async def until_listening(server: Served, times: int = 1) -> None:
    """Wait until the server has answered so many requests and polled once."""
    while sum(seen.path.endswith("/events") for seen in server.weather.seen) < times:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)


async def test_changes_of_jobs_and_runs_arrive_as_events(server: Served) -> None:
    listening = server.client.events()
    first = asyncio.create_task(heard(listening))
    await until_listening(server)
    made = await server.client.jobs.create(a_job())
    run = (await server.client.jobs.trigger("report")).run_id
    await server.client.runs.cancel(run)
    changes = [await first]
    while not any(change.runs for change in changes):
        changes.append(await heard(listening))

    assert {(job.id, job.version) for change in changes for job in change.jobs} == {(made.id, 1)}
    assert {(each.id, each.state) for change in changes for each in change.runs} == {(run, "cancelled")}


async def test_a_disconnected_listener_resumes_where_it_was(server: Served) -> None:
    server.weather.coming = ["cut 3"]  # the comment, the id to resume from, and one event
    listening = server.client.events()
    first = asyncio.create_task(heard(listening))
    await until_listening(server)
    a = await server.client.jobs.create(a_job("a"))
    assert [job.id for job in (await first).jobs] == [a.id]

    second = asyncio.create_task(heard(listening))
    b = await server.client.jobs.create(a_job("b"))

    assert [job.id for job in (await second).jobs] == [b.id]
    again = [seen for seen in server.weather.seen if seen.path.endswith("/events")][1]
    assert again.headers["last-event-id"].startswith("test-")
    assert 2 <= server.pauses.waits[0] <= 4


async def test_a_listener_disconnected_before_the_first_event_gets_a_reset(server: Served) -> None:
    server.weather.coming = ["cut 1"]
    listening = server.client.events()
    first = asyncio.create_task(heard(listening))
    await until_listening(server)
    await server.client.jobs.create(a_job())

    assert (await first).is_reset


async def test_a_listener_that_was_never_connected_gets_no_reset(server: Served) -> None:
    server.weather.coming = ["503 1", "drop"]
    listening = server.client.events()
    first = asyncio.create_task(heard(listening))
    await until_listening(server, times=3)
    await server.client.jobs.create(a_job())

    assert not (await first).is_reset


async def test_a_listener_without_permission_fails_at_once(server: Served) -> None:
    await server.api.token(Role.ADMIN)

    with pytest.raises(NotAuthenticated):
        await heard(server.client.events())


async def test_listening_fails_after_a_while_if_the_server_stays_away() -> None:
    pauses = Pauses()
    async with AsyncClient("http://127.0.0.1:9", retries=pauses.retries(patience=20)) as client:
        with pytest.raises(ServerOutOfReach):
            await heard(client.events())
    assert 20 <= pauses.now <= 25
