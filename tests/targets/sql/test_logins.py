"""A login of their own for functions: what is written is the same, and only the node that claimed a run settles it."""

from collections.abc import Mapping
from typing import Any

import pytest

from hourbell.core.run.policies import RetryPolicy
from hourbell.core.run.settle import Failed, Succeeded
from hourbell.store.base import Saved
from hourbell.store.control.actor import Actor
from tests.contract.steps import DAY, OTHER_NODE
from tests.database import PostgresDatabase, Row
from tests.targets.sql.steps import EFFECT, EFFECTS, NOW, SECOND, Node, function, take_over

pytestmark = pytest.mark.anyio
OUTCOMES: Mapping[str, Mapping[str, Any]] = {
    "success": {},
    "details": {"args": {"answer": {"success": True, "message": "ü", "details": {"a": [1, None, 2.5]}}}},
    "failure": {"args": {"answer": {"success": False, "message": "no"}}},
    "last failure": {"args": {"answer": {"success": False, "message": "no"}}, "retry": RetryPolicy(1, (SECOND,))},
    "malformed": {"args": {"answer": []}},
    "error": {"name": "public.broken"},
    "permanent": {"name": "public.not_there"},
    "at most once": {"name": "public.broken", "job": {"delivery": "at_most_once"}},
}


async def written(node: Node) -> list[list[Row]]:
    """Return the rows after every kind of outcome; the last is a run with a requested cancellation."""
    await node.database.sql(function("raise 'broken';", "public.broken()"))
    for options in OUTCOMES.values():
        await node.run(**options)
    run, definition = await node.claim("public.broken")
    await node.control.cancel_run(run.id, Actor("somebody", NOW))
    await node.attempt(run, definition)
    return [await node.database.rows(table) for table in ("runs", "attempts", "job_stats", "function_calls")]


async def test_rows_are_the_same_under_both_logins(apart: Node) -> None:
    async with PostgresDatabase.made() as other:
        await other.sql(EFFECTS)
        await other.sql(EFFECT)
        async with Node.made(other) as own:
            expected = await written(own)

    found = await written(apart)

    assert found == expected
    runs, attempts, stats, calls = found
    states = ["succeeded", "succeeded", "retrying", "failed", "retrying", "retrying", "failed", "failed", "cancelled"]
    by_job = sorted(runs, key=lambda run: run["job_id"])
    assert [run["state"] for run in by_job] == states
    assert (len(attempts), len(stats), calls) == (9, 9, [])


async def test_a_function_runs_under_its_login(apart: Node, login: str) -> None:
    await apart.database.sql(
        function("return jsonb_build_object('success', true, 'message', current_user || ' ' || session_user);")
    )

    assert (await apart.succeed("public.f"))["message"] == f"{login} {login}"


async def test_success_is_settled_by_the_functions_own_transaction(apart: Node) -> None:
    run, definition = await apart.claim()

    assert await apart.attempt(run, definition) == (Succeeded({"success": True, "message": "done"}), Saved.REPEATED)
    assert (await apart.effects(), await apart.states()) == ([(run.id, 1)], ["succeeded"])
    assert await apart.database.rows("function_calls") == []


async def test_the_nonce_is_known_by_its_digest_only_while_the_function_is_at_work(apart: Node) -> None:
    seen: list[Row] = []

    async def poll() -> None:
        seen.extend(await apart.database.rows("function_calls"))

    apart.before_settle = poll
    run, definition = await apart.claim()
    await apart.attempt(run, definition)

    [row] = seen
    assert (row["run_id"], row["attempt"], len(row["nonce_digest"])) == (run.id, 1, 32)


async def test_an_attempt_that_was_taken_over_is_rolled_back(apart: Node) -> None:
    run, definition = await apart.claim()

    async def lose() -> None:
        await take_over(apart, run, OTHER_NODE)

    apart.before_settle = lose
    outcome, saved = await apart.attempt(run, definition)

    assert (outcome, saved) == (Failed("another node has taken over this run"), Saved.SUPERSEDED)
    assert (await apart.effects(), await apart.states()) == ([], ["running"])


async def test_a_nonce_that_was_left_is_overwritten_by_the_next_attempt_only(apart: Node) -> None:
    run, definition = await apart.claim()
    await apart.database.sql(f"insert into hourbell.function_calls values ('{run.id}', 0, 'left')")
    outcome, _ = await apart.attempt(run, definition)
    assert isinstance(outcome, Succeeded)

    run, definition = await apart.claim()
    await apart.database.sql(f"insert into hourbell.function_calls values ('{run.id}', 2, 'of a later one')")
    outcome, _ = await apart.attempt(run, definition)
    assert outcome == Failed("another node has taken over this run")
    assert [row["attempt"] for row in await apart.database.rows("function_calls")] == [2]


async def test_a_nonce_that_was_left_goes_with_its_run(apart: Node) -> None:
    run, definition = await apart.claim()
    await apart.attempt(run, definition)
    await apart.database.sql(f"insert into hourbell.function_calls values ('{run.id}', 1, 'left')")

    await apart.engine.prune(NOW + 40 * DAY, DAY, 0, 100)

    assert (await apart.database.rows("runs"), await apart.database.rows("function_calls")) == ([], [])


async def test_a_login_without_the_right_to_settle_is_reported(apart: Node, login: str) -> None:
    await apart.database.sql(f"revoke execute on function hourbell.settle_run from {login}")

    failed = await apart.fail()

    assert (failed.error, failed.retryable) == ("permission denied for function settle_run", True)
    assert await apart.effects() == []


async def test_nobody_may_settle_without_being_granted_it(postgres: PostgresDatabase) -> None:
    may = "select has_function_privilege('public', p.oid, 'execute') from pg_proc p where proname = 'settle_run'"

    assert await postgres.connection.fetchval(may) is False
