"""Limits: time, locks and names, kept by the server and, where a function refuses, by the node."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from hourbell.core.run.settle import Outcome
from tests.database import PostgresDatabase
from tests.targets.sql.steps import Node, function

pytestmark = pytest.mark.anyio
REFUSES = """
declare until timestamptz := clock_timestamp() + interval '1 minute';
begin
    insert into public.effects values (null, 1, 'x');
    while clock_timestamp() < until loop
        begin perform pg_sleep(1); exception when query_canceled then end;
    end loop;
end;
"""


async def sessions(database: PostgresDatabase) -> list[str]:
    """Return the state of the sessions for functions."""
    rows = await database.connection.fetch(
        """select state from pg_stat_activity
        where application_name = 'hourbell functions' and datname = current_database()"""
    )
    return [row["state"] for row in rows]


async def until_asleep(database: PostgresDatabase) -> None:
    """Once a function is at work."""
    asleep = "select 1 from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()"
    while not await database.connection.fetchval(asleep):
        await asyncio.sleep(0.01)


@pytest.fixture
async def active() -> AsyncIterator[Any]:
    """Begins attempts as tasks, as the runner does, and ends them with the test."""
    tasks: list[asyncio.Task[Any]] = []

    def begin(attempt: Awaitable[Any]) -> asyncio.Task[Any]:
        tasks.append(asyncio.ensure_future(attempt))
        return tasks[-1]

    yield begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_server_ends_what_takes_too_long(node: Node) -> None:
    await node.database.sql(function("insert into effects values (null, 1, 'x'); perform pg_sleep(60);"))

    failed = await node.fail("public.f", timeout="1s")

    assert (failed.error, failed.retryable) == ("timed out after 1s", True)
    assert (await node.states(), await node.effects()) == (["retrying"], [])


async def test_a_function_cannot_give_itself_more_time(node: Node) -> None:
    await node.database.sql(
        function("set statement_timeout = 0; perform set_config('statement_timeout', '0', true); perform pg_sleep(60);")
    )

    assert (await node.fail("public.f", timeout="1s")).error == "timed out after 1s"


async def test_a_function_that_refuses_to_be_cancelled_is_ended_with_its_session(node: Node) -> None:
    await node.database.sql(function(REFUSES))

    failed = await node.fail("public.f", timeout="1s")

    assert failed.error == "timed out after 1s"
    assert (await node.states(), await node.effects(), await sessions(node.database)) == (["retrying"], [], [])


async def test_a_cancelled_call_is_cancelled_on_the_server_and_rolled_back(node: Node, active: Any) -> None:
    await node.database.sql(function("insert into effects values (null, 1, 'x'); perform pg_sleep(60);"))
    run, definition = await node.claim("public.f")
    task: asyncio.Task[Outcome] = active(node.target.deliver(node.call(run, definition)))
    await until_asleep(node.database)

    task.cancel()

    await asyncio.wait([task], timeout=5)
    assert task.cancelled()
    assert (await sessions(node.database), await node.effects(), await node.states()) == (["idle"], [], ["running"])


async def test_a_lock_is_waited_for_as_long_as_the_target_says(node: Node) -> None:
    await node.database.sql(function("lock table public.effects;"))
    async with node.database.connection.transaction():
        await node.database.connection.execute("lock table public.effects")
        failed = await node.fail("public.f", lock_timeout="1s")

    assert isinstance(failed.result, dict)
    assert (failed.result["details"]["sqlstate"], failed.retryable) == ("55P03", True)


async def test_the_search_path_is_the_targets_with_temporary_objects_last(node: Node) -> None:
    await node.database.sql('create schema "My Schema"')
    await node.database.sql(
        function("return jsonb_build_object('success', true, 'message', current_setting('search_path'));")
    )

    assert (await node.succeed("public.f"))["message"] == "public, pg_temp"
    assert (await node.succeed("public.f", search_path=["pg_temp", "My Schema", "$user", "public"]))[
        "message"
    ] == '"My Schema", "$user", public, pg_temp'


async def test_a_functions_own_search_path_holds(node: Node) -> None:
    await node.database.sql(
        function(
            "return jsonb_build_object('success', true, 'message', current_setting('search_path'));",
            options="security definer set search_path = pg_catalog, public",
        )
    )

    assert (await node.succeed("public.f"))["message"] == "pg_catalog, public"


async def test_a_node_makes_as_many_calls_at_once_as_it_has_connections(node: Node) -> None:
    assert node.target.lanes() == ("sql:default",)
    assert node.target.slots("sql:default") == 2
    assert node.target.slots("sql:unknown") == 0
