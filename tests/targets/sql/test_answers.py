"""A function's return value becomes the run's outcome, and its work is committed only on success."""

import json
from typing import Any

import pytest

from hourbell.core.run.policies import RetryPolicy
from hourbell.core.run.settle import Failed, Succeeded, Unstarted
from hourbell.store.base import Saved
from hourbell.targets.sql.answer import read_answer
from tests.targets.sql.steps import NOW, SECOND, Node, function

pytestmark = pytest.mark.anyio


async def test_success_is_settled_by_the_functions_own_transaction(node: Node) -> None:
    run, definition = await node.claim()

    outcome, saved = await node.attempt(run, definition)

    row = await node.the_run()
    assert (outcome, saved) == (Succeeded({"success": True, "message": "done"}), Saved.REPEATED)
    assert (row["state"], row["result"], row["finished_at"]) == ("succeeded", outcome.result, NOW + SECOND)
    assert await node.effects() == [(run.id, 1)]


async def test_details_are_kept(node: Node) -> None:
    answer = {"success": True, "message": "5 deleted", "details": {"deleted": 5, "tables": ["a", "ü"]}}

    assert await node.succeed(args={"answer": answer}) == answer
    assert (await node.the_run())["result"] == answer


async def test_failure_undoes_the_work_keeps_the_result_and_is_tried_again(node: Node) -> None:
    answer = {"success": False, "message": "the shop is closed", "details": {"until": 9}}

    failed = await node.fail(args={"answer": answer})

    row = await node.the_run()
    assert (failed.error, failed.retryable) == ("the shop is closed", True)
    assert (row["state"], row["failures"], row["result"]) == ("retrying", 1, answer)
    assert await node.effects() == []
    [attempt] = await node.database.rows("attempts")
    assert (attempt["outcome"], attempt["error"]) == ("failed", "the shop is closed")


async def test_the_last_failure_ends_the_run(node: Node) -> None:
    await node.fail(args={"answer": {"success": False, "message": "no"}}, retry=RetryPolicy(1, (SECOND,)))

    row = await node.the_run()
    assert (row["state"], row["reason"], await node.effects()) == ("failed", "exhausted", [])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("null", "returned a JSON null"),
        ("[1]", "returned an array"),
        ('"done"', "returned a string"),
        ("true", "returned a boolean"),
        ("1", "returned a number"),
        ("{}", "returned no success"),
        ('{"success": "yes", "message": "m"}', "returned success as a string"),
        ('{"success": 1, "message": "m"}', "returned success as a number"),
        ('{"success": true}', "returned no message"),
        ('{"success": true, "message": null}', "returned message as a JSON null"),
        ('{"success": false, "message": {}}', "returned message as an object"),
        ('{"success": true, "message": "m", "details": 1' + 5_000 * "0" + "}", "cannot be kept"),
        ('{"success": true, "message": "m", "details": ' + 5_000 * "[" + 5_000 * "]" + "}", "cannot be kept"),
        ('{"success": true, "message": "m", "details": 1' + 400 * "0" + ".5}", "cannot be kept"),
    ],
)
def test_an_answer_that_is_not_what_it_must_be_is_a_failure(answer: str, said: str) -> None:
    failed = read_answer(len(answer), answer)

    assert isinstance(failed, Failed)
    assert said in failed.error
    assert '{"success": true or false, "message": text}' in failed.error
    assert failed.retryable


async def test_a_malformed_answer_undoes_the_work(node: Node) -> None:
    failed = await node.fail(args={"answer": {"success": "yes", "message": "m"}})

    assert failed.error.startswith("the function returned success as a string")
    assert (await node.states(), await node.effects()) == (["retrying"], [])
    assert (await node.the_run())["result"] == {"success": "yes", "message": "m"}


async def test_null_is_a_failure(node: Node) -> None:
    await node.database.sql(function("return null;"))

    assert (await node.fail("public.f")).error.startswith("the function returned null")


async def test_an_answer_that_is_too_large_is_not_fetched(node: Node) -> None:
    await node.database.sql(function("return jsonb_build_object('success', true, 'message', repeat('x', 10000000));"))

    failed = await node.fail("public.f")

    assert failed.error == "the function returned 10000032 bytes; it may return at most 65536"
    assert (await node.the_run())["result"] is None


async def test_an_answer_may_be_json_of_the_largest_size(node: Node) -> None:
    answer: Any = {"success": True, "message": ""}
    answer["message"] = "x" * (65_536 - len(json.dumps(answer)))
    await node.database.sql(
        function(f"return '{json.dumps(answer)}';", "public.large()").replace("returns jsonb", "returns json")
    )

    assert await node.succeed("public.large") == answer


@pytest.mark.parametrize("text", [r'{"success": true, "message": "\u0000"}', r'{"success": true, "message": "\ud800"}'])
async def test_json_that_cannot_be_stored_is_a_failure(node: Node, text: str) -> None:
    made = function(f"insert into effects values (null, 1, 'x'); return '{text}';")
    await node.database.sql(made.replace("returns jsonb", "returns json"))

    failed = await node.fail("public.f")

    assert isinstance(failed.result, dict)
    assert failed.result["details"]["sqlstate"] in ("22P05", "22P02")
    assert await node.effects() == []


async def test_a_function_declared_stable_is_called_once(node: Node) -> None:
    await node.database.sql("create sequence public.calls")
    await node.database.sql(function("perform nextval('public.calls');", options="stable"))

    await node.succeed("public.f")

    assert await node.database.connection.fetchval("select last_value from public.calls") == 1


async def test_nothing_runs_if_the_attempt_may_not_begin(node: Node) -> None:
    node.begins = False

    assert await node.run() == Unstarted()
    assert (await node.effects(), (await node.the_run())["result"]) == ([], None)


async def test_a_function_knows_its_run(node: Node) -> None:
    await node.database.sql(
        function("""return jsonb_build_object('success', true, 'message', '', 'details', jsonb_build_array(
            current_setting('hourbell.run_id')::uuid, current_setting('hourbell.job_name'),
            current_setting('hourbell.scheduled_at')::timestamptz, current_setting('hourbell.attempt')::int));""")
    )

    run_id, name, scheduled_at, attempt = (await node.succeed("public.f"))["details"]

    row = await node.the_run()
    assert (run_id, name, attempt) == (str(row["id"]), "job-0", 1)
    assert scheduled_at == row["scheduled_at"].isoformat()


async def test_a_run_leaves_nothing_to_the_next_one(node: Node) -> None:
    leave = "perform set_config('hourbell.left', 'x', false); create temp table left_behind (); prepare p as select 1;"
    query = """return jsonb_build_object('success', true, 'message', '', 'details', jsonb_build_array(
        current_setting('hourbell.left', true), to_regclass('pg_temp.left_behind'),
        (select count(*) from pg_prepared_statements), pg_backend_pid()));"""
    await node.database.sql(function(leave, "public.leave()"))
    await node.database.sql(function(query))
    before = (await node.succeed("public.f"))["details"]
    await node.succeed("public.leave")

    after = (await node.succeed("public.f"))["details"]

    assert after[0] in (None, "")
    assert after[1:] == before[1:] == [None, 0, before[3]]


async def test_an_invalid_target_fails_permanently(node: Node) -> None:
    run, definition = await node.claim()
    object.__setattr__(definition, "target", {"type": "sql", "function": ""})

    outcome, _ = await node.attempt(run, definition)

    assert isinstance(outcome, Failed)
    assert (outcome.error, outcome.retryable, outcome.begun) == ("the sql target needs function", False, False)
