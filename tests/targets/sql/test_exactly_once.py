"""Exactly once: a run that succeeded has its effect once, and any other run has none, whatever is lost on the way."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest

from hourbell.core.run.settle import Failed, Outcome, Succeeded, Unstarted
from hourbell.store.base import LeaseKey, Saved
from hourbell.store.errors import StoreUnavailable
from tests.contract.steps import OTHER_NODE
from tests.database import PostgresDatabase
from tests.faults.proxy import Proxy
from tests.targets.sql.steps import Node, function, take_over

pytestmark = pytest.mark.anyio
SLOW = """insert into public.effects values (current_setting('hourbell.run_id')::uuid,
    current_setting('hourbell.attempt')::integer, 'slow'); perform pg_sleep(60);"""
SESSIONS = "application_name = 'hourbell functions' and datname = current_database()"
LOST = "the function's work was rolled back, or committed together with this run's success"


@pytest.fixture
def proxy(postgres: PostgresDatabase) -> Iterator[Proxy]:
    with Proxy(postgres.url) as opened:
        yield opened


@pytest.fixture
async def far(node: Node, proxy: Proxy) -> AsyncIterator[Node]:
    """A node that reaches the database for its functions over a line that may be cut."""
    async with Node.made(node.database, url=proxy.url) as made:
        yield made


async def terminate(node: Node) -> None:
    """End the sessions of functions, as an administrator may."""
    await node.database.sql(f"select pg_terminate_backend(pid, 5000) from pg_stat_activity where {SESSIONS}")


async def at_work(node: Node) -> None:
    asleep = f"select 1 from pg_stat_activity where wait_event = 'PgSleep' and {SESSIONS}"
    while not await node.database.connection.fetchval(asleep):
        await asyncio.sleep(0.01)


async def no_session(node: Node) -> None:
    """Once the server has ended every session of functions."""
    for _ in range(200):
        if not await node.database.connection.fetchval(f"select 1 from pg_stat_activity where {SESSIONS}"):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("a session of a function is still there")


def assert_lost(outcome: Outcome) -> None:
    assert isinstance(outcome, Failed)
    assert outcome.error.startswith("the connection to the database was lost (")
    assert outcome.error.endswith(LOST)
    assert outcome.retryable


async def test_a_session_ended_during_the_function_leaves_no_effect(node: Node) -> None:
    await node.database.sql(function(SLOW))
    attempt = asyncio.ensure_future(node.attempt(*await node.claim("public.f")))
    await at_work(node)

    await terminate(node)

    outcome, saved = await attempt
    assert_lost(outcome)
    assert (saved, await node.states(), await node.effects()) == (Saved.SAVED, ["retrying"], [])


async def test_a_session_ended_between_the_function_and_the_settlement_leaves_no_effect(node: Node) -> None:
    node.before_settle = lambda: terminate(node)

    outcome, saved = await node.attempt(*await node.claim())

    assert_lost(outcome)
    assert (saved, await node.states(), await node.effects()) == (Saved.SAVED, ["retrying"], [])


async def test_a_connection_cut_between_the_function_and_the_settlement_leaves_no_effect(
    far: Node, proxy: Proxy
) -> None:
    async def cut() -> None:
        proxy.reset()

    far.before_settle = cut
    outcome, saved = await far.attempt(*await far.claim())

    assert_lost(outcome)
    assert (saved, await far.states(), await far.effects()) == (Saved.SAVED, ["retrying"], [])


async def test_a_commit_whose_answer_was_lost_is_a_success_with_its_effect(far: Node, proxy: Proxy) -> None:
    proxy.swallow("settle", 1)
    run, definition = await far.claim()

    outcome, saved = await far.attempt(run, definition)

    assert proxy.swallowed["settle"] == 1
    assert_lost(outcome)
    assert saved is Saved.SUPERSEDED
    assert (await far.states(), await far.effects()) == (["succeeded"], [(run.id, 1)])


async def test_a_node_that_comes_back_late_leaves_no_effect(node: Node) -> None:
    """The function returned, but the lease had run out and another node ran it meanwhile."""
    run, definition = await node.claim()

    async def meanwhile() -> None:
        async with Node.made(node.database, node=OTHER_NODE) as other:
            outcome, _ = await other.attempt(await take_over(node, run, OTHER_NODE), definition)
            assert isinstance(outcome, Succeeded)

    node.before_settle = meanwhile
    outcome, saved = await node.attempt(run, definition)

    assert (outcome, saved) == (Failed("another node has taken over this run"), Saved.SUPERSEDED)
    assert (await node.states(), await node.effects()) == (["succeeded"], [(run.id, 2)])
    assert [row["late_outcome"] for row in await node.database.rows("attempts", "number")] == ["failed", None]


async def test_a_late_failure_is_no_more_than_a_late_outcome(node: Node) -> None:
    run, definition = await node.claim(args={"answer": {"success": False, "message": "no"}})

    async def meanwhile() -> None:
        await take_over(node, run, OTHER_NODE)

    node.before_settle = meanwhile
    outcome, _ = await node.attempt(run, definition)

    assert outcome == Failed("another node has taken over this run")
    row = await node.the_run()
    assert (row["state"], row["attempt"], row["failures"]) == ("running", 2, 0)


async def test_a_node_frozen_between_settlement_and_commit_keeps_nobody_waiting(node: Node) -> None:
    run, definition = await node.claim()

    async def settle_and_freeze() -> None:
        async with node.store.transaction(LeaseKey(run.id, 1)) as opened:
            await opened.connection.execute("insert into public.effects values (null, 1, 'x')")
            assert await opened.settle(node.settled(run, definition, Succeeded()))
            await no_session(node)

    with pytest.raises(StoreUnavailable):
        await settle_and_freeze()
    assert (await node.states(), await node.effects()) == (["running"], [])


async def test_a_dead_node_frees_what_its_function_held(far: Node, proxy: Proxy) -> None:
    """Simulate kill -9: the session ends while the server runs the function."""
    await far.database.sql(function(SLOW))
    attempt = asyncio.ensure_future(far.target.deliver(far.call(*await far.claim("public.f"))))
    await at_work(far)

    proxy.drop()

    assert_lost(await attempt)
    await no_session(far)
    assert await far.effects() == []


async def test_an_unreachable_database_hands_the_run_back_uncharged(far: Node, proxy: Proxy) -> None:
    run, definition = await far.claim(job={"delivery": "at_most_once"})
    proxy.drop()

    outcome, _ = await far.attempt(run, definition)

    assert (outcome, await far.states()) == (Unstarted(), ["pending"])


async def test_a_connection_lost_at_rest_is_replaced(far: Node, proxy: Proxy) -> None:
    await far.succeed()
    proxy.drop()
    proxy.restore()

    with suppress(AssertionError):
        await far.succeed()
    await far.succeed()


async def test_every_attempt_of_a_run_is_undone_but_the_one_that_succeeds(node: Node) -> None:
    await node.database.sql(
        function("""insert into public.effects values (current_setting('hourbell.run_id')::uuid,
            current_setting('hourbell.attempt')::integer, 'x');
            if current_setting('hourbell.attempt')::integer < 3 then raise 'not yet'; end if;""")
    )
    run, definition = await node.claim("public.f")
    await node.attempt(run, definition)
    await node.attempt(await node.claim_again(run), definition)
    await node.attempt(await node.claim_again(run), definition)

    assert (await node.states(), await node.effects()) == (["succeeded"], [(run.id, 3)])
