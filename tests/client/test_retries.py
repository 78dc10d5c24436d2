"""Requests that the network loses are repeated where that is safe, and act once."""

import socket

import pytest

from hourbell.client import (
    AsyncClient,
    Conflict,
    Retries,
    ServerOutOfReach,
    TooManyRequests,
    Unavailable,
    VersionMismatch,
)
from tests.api.whole import HOOK, a_job
from tests.client.served import Pauses, Served

pytestmark = pytest.mark.anyio

LOST = "drop-the-answer"


async def test_a_post_whose_answer_was_lost_is_repeated_and_acts_once(server: Served) -> None:
    await server.client.jobs.create(a_job())
    server.weather.seen.clear()
    server.weather.coming = [LOST, "drop", LOST]

    triggered = await server.client.jobs.trigger("report")

    assert [run.id async for run in server.client.runs.list()] == [triggered.run_id]
    assert len(server.weather.keys[:4]) == 4
    assert len(set(server.weather.keys[:4])) == 1


async def test_every_post_gets_its_own_key_unless_one_is_given(server: Served) -> None:
    await server.client.jobs.create(a_job())
    first = await server.client.jobs.trigger("report")
    second = await server.client.jobs.trigger("report")
    third = await server.client.jobs.trigger("report", idempotency_key="mine")
    fourth = await server.client.jobs.trigger("report", idempotency_key="mine")

    assert len({first.run_id, second.run_id, third.run_id}) == 3
    assert fourth.run_id == third.run_id
    assert server.weather.keys[-1] == "mine"


async def test_retried_create_replay_and_discard_act_once(server: Served) -> None:
    server.weather.coming = [LOST]
    made = await server.client.jobs.create(a_job())
    run = (await server.client.jobs.trigger("report")).run_id
    server.weather.coming = [LOST]
    assert (await server.client.runs.cancel(run)).ended
    server.weather.coming = [LOST]
    replayed = await server.client.runs.replay(run)

    assert made.version == 1
    assert {each.id async for each in server.client.runs.list()} == {run, replayed.run_id}


async def test_a_secret_whose_answer_was_lost_is_reported_as_lost(server: Served) -> None:
    server.weather.coming = [LOST]

    with pytest.raises(Conflict) as caught:
        await server.client.jobs.create(a_job(target={**HOOK, "secret": "generate"}))

    assert (caught.value.code, caught.value.is_in_doubt) == ("answer_not_kept", True)
    assert "may have made the change itself" in caught.value.__notes__[0]
    assert (await server.client.jobs.get("report")).version == 1


async def test_retry_after_of_the_server_is_honoured(server: Served) -> None:
    server.weather.coming = ["429 7", "503 3", "502", "504"]

    assert (await server.client.whoami()).kind == "open"
    first, second, third, fourth = server.pauses.waits
    assert 7 <= first < 7.5
    assert 3 <= second < 3.5
    assert third < fourth < 5


async def test_a_too_long_retry_after_is_an_error_at_once(server: Served) -> None:
    server.weather.coming = ["429 3600"]

    with pytest.raises(TooManyRequests) as caught:
        await server.client.whoami()
    assert (caught.value.retry_after, server.pauses.waits) == (3600, [])


async def test_retries_are_limited_in_number_and_time(server: Served) -> None:
    server.weather.coming = ["503"] * 20
    with pytest.raises(Unavailable, match="HTTP 503: from a proxy"):
        await server.client.overview()
    assert len(server.weather.seen) == 6

    server.weather.seen.clear()
    async with server.another(tries=100, patience=2.0) as client:
        with pytest.raises(Unavailable):
            await client.overview()
    assert 3 <= len(server.weather.seen) <= 6


async def test_a_delete_by_id_is_repeated_and_a_404_counts_as_success(server: Served) -> None:
    made = await server.client.jobs.create(a_job())
    server.weather.coming = [LOST]

    await server.client.jobs.delete(made.id)

    assert [seen.method for seen in server.weather.seen[-2:]] == ["DELETE", "DELETE"]


async def test_a_delete_by_name_is_not_repeated_if_it_may_have_acted(server: Served) -> None:
    await server.client.jobs.create(a_job())
    server.weather.seen.clear()
    server.weather.coming = [LOST]

    with pytest.raises(ServerOutOfReach) as caught:
        await server.client.jobs.delete("report")
    assert (caught.value.is_in_doubt, len(server.weather.seen)) == (True, 1)

    server.weather.coming = ["429 1"]  # nothing was done, for sure
    await server.client.jobs.create(a_job())
    await server.client.jobs.delete("report")


async def test_a_patch_is_repeated_only_with_an_expected_version(server: Served) -> None:
    await server.client.jobs.create(a_job())
    server.weather.coming = [LOST]
    with pytest.raises(ServerOutOfReach):
        await server.client.jobs.patch("report", {"description": "one"})
    server.weather.coming = [LOST]
    with pytest.raises(VersionMismatch) as caught:
        await server.client.jobs.patch("report", {"description": "two"}, expect_version=2)

    assert caught.value.is_in_doubt
    assert (await server.client.jobs.get("report")).description == "two"


async def test_a_put_is_repeated_unless_it_sets_a_secret(server: Served) -> None:
    server.weather.coming = [LOST]
    assert (await server.client.jobs.replace("report", a_job())).version == 1

    server.weather.coming = [LOST]
    with pytest.raises(ServerOutOfReach) as caught:
        await server.client.jobs.replace("other", a_job("other", target={**HOOK, "secret": "generate"}))
    assert caught.value.is_in_doubt


async def test_an_unreachable_server_is_reported_with_advice() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    pauses = Pauses()

    async with AsyncClient(f"http://127.0.0.1:{port}", retries=pauses.retries()) as client:
        with pytest.raises(
            ServerOutOfReach, match=r"cannot be reached at http.*\(Connection refused\); start it with `h"
        ):
            await client.jobs.delete("report")
    assert len(pauses.waits) == 5  # also by name: nothing was sent


async def test_a_silent_server_is_not_waited_for_forever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        async with AsyncClient(url, timeout=0.2, retries=Retries(tries=1)) as client:
            with pytest.raises(ServerOutOfReach, match="did not answer in time"):
                await client.whoami()


async def test_retry_waits_grow_and_vary() -> None:
    pauses = Pauses()
    retries = pauses.retries(tries=50)
    waits = [retries.wait_after(tries, 0.0, None) or 0 for tries in range(1, 12)]

    assert all(0.1 * 2.0**n <= wait <= 5 for n, wait in zip(range(5), waits, strict=False))
    assert max(waits) <= 5
    assert len({retries.spread(1.0) for _ in range(10)}) == 10
    assert Retries().wait_after(1, 59.99, None) is None
