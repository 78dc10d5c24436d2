"""Functions of other databases: called in a transaction of their own, which is committed before the run is settled."""

from collections.abc import AsyncIterator

import pytest

from hourbell.core.run.settle import Failed, Succeeded
from hourbell.store.base import Saved
from hourbell.store.postgres.function_connections import FunctionConnections
from tests.database import PostgresDatabase
from tests.targets.sql.steps import EFFECT, EFFECTS, Node, function

pytestmark = pytest.mark.anyio


@pytest.fixture
async def reports() -> AsyncIterator[PostgresDatabase]:
    async with PostgresDatabase.made(migrated=False) as made:
        await made.sql(EFFECTS)
        await made.sql(EFFECT)
        yield made


@pytest.fixture
async def node(postgres: PostgresDatabase, reports: PostgresDatabase) -> AsyncIterator[Node]:
    others = {
        "reports": FunctionConnections(reports.url, size=3),
        "away": FunctionConnections("postgresql://nobody@127.0.0.1:1/nothing"),
    }
    allow = {"public.effect(jsonb)", "reports:public.allowed()"}
    async with Node.made(postgres, others=others, allow=allow) as made:
        yield made


async def effects(reports: PostgresDatabase) -> int:
    return int(await reports.connection.fetchval("select count(*) from public.effects"))


async def test_every_database_has_a_lane_with_as_many_slots_as_connections(node: Node) -> None:
    assert node.target.lanes() == ("sql:default", "sql:reports", "sql:away")
    assert [node.target.slots(lane) for lane in node.target.lanes()] == [2, 3, 10]


async def test_success_is_committed_there_and_settled_here(node: Node, reports: PostgresDatabase) -> None:
    run, definition = await node.claim(database="reports")

    outcome, saved = await node.attempt(run, definition)

    assert (outcome, saved) == (Succeeded({"success": True, "message": "done"}), Saved.SAVED)
    assert (await node.states(), await effects(reports)) == (["succeeded"], 1)


async def test_failure_is_undone_there(node: Node, reports: PostgresDatabase) -> None:
    failed = await node.fail(database="reports", args={"answer": {"success": False, "message": "no"}})

    assert (failed.error, await node.states(), await effects(reports)) == ("no", ["retrying"], 0)


async def test_an_unknown_database_name_is_refused_with_the_known_ones(node: Node) -> None:
    run, definition = await node.claim(database="reports")
    definition.target["database"] = "nowhere"  # type: ignore[index]

    outcome = await node.target.deliver(node.call(run, definition))

    assert outcome == Failed(
        "no database named 'nowhere' in the settings; there are: default, reports, away",
        retryable=False,
        begun=False,
    )


async def test_a_call_to_an_unreachable_database_is_retried(node: Node) -> None:
    failed = await node.fail(database="away")

    assert failed.error.startswith("the database is unreachable: ")
    assert (failed.retryable, failed.begun) == (True, False)


async def test_a_signature_is_allowed_in_the_database_it_is_written_for(node: Node, reports: PostgresDatabase) -> None:
    await reports.sql(function("", "public.allowed()"))

    await node.succeed("public.allowed", database="reports", managed_by="api")
    failed = await node.fail(database="reports", managed_by="api")
    assert "is not on the allow-list" in failed.error


async def test_a_session_ended_before_the_commit_leaves_the_outcome_unknown(
    node: Node, reports: PostgresDatabase
) -> None:
    await reports.sql(function("perform pg_terminate_backend(pg_backend_pid());"))

    failed = await node.fail("public.f", database="reports")

    assert failed.error.endswith("it is not known whether the function's work was committed")
    assert failed.retryable
