"""Errors of the server: what is kept of them, whether they are tried again, and that nothing else is left of them."""

import pytest

from hourbell.core.run.settle import Failed
from tests.targets.sql.steps import Node, function

pytestmark = pytest.mark.anyio
WRITE = "insert into public.effects values (null, 1, 'undone');"


async def test_an_error_keeps_every_field_of_the_servers_error(node: Node) -> None:
    await node.database.sql(
        "create table public.things (id integer primary key, n integer constraint small check (n < 9))"
    )
    await node.database.sql(function(WRITE + "insert into public.things values (1, 10);"))

    failed = await node.fail("public.f")

    row = await node.the_run()
    assert failed.error == 'new row for relation "things" violates check constraint "small"'
    assert isinstance(failed.result, dict)
    details = failed.result["details"]
    assert (details["sqlstate"], details["constraint"], details["table"]) == ("23514", "small", "things")
    assert details["detail"] == "Failing row contains (1, 10)."
    assert details["context"].splitlines()[-1] == "PL/pgSQL function f() line 2 at SQL statement"
    assert (row["state"], row["result"], await node.effects()) == ("retrying", failed.result, [])


async def test_a_raised_exception_keeps_its_hint_and_its_code(node: Node) -> None:
    await node.database.sql(function(WRITE + "raise 'no % left', 'tea' using errcode = 'TEA01', hint = 'buy some';"))

    failed = await node.fail("public.f")

    assert isinstance(failed.result, dict)
    assert (failed.error, failed.result["details"]["hint"]) == ("no tea left", "buy some")
    assert (failed.result["details"]["sqlstate"], failed.retryable) == ("TEA01", True)


async def test_the_stored_part_of_an_error_is_bounded(node: Node) -> None:
    await node.database.sql(
        function("raise exception using message = repeat('m', 99999), detail = repeat('d', 99999);")
    )

    failed = await node.fail("public.f")

    assert isinstance(failed.result, dict)
    assert (len(failed.error), len(failed.result["details"]["detail"])) == (4_000, 2_000)


@pytest.mark.parametrize(
    ("body", "sqlstate", "retryable"),
    [
        ("perform public.not_there();", "42883", False),
        ("execute 'selekt 1';", "42601", False),
        ("raise insufficient_privilege;", "42501", False),
        ("perform 1 from public.not_there;", "42P01", True),
        ("perform 1 / 0;", "22012", True),
        ("raise deadlock_detected;", "40P01", True),
        ("raise serialization_failure;", "40001", True),
        ("raise lock_not_available;", "55P03", True),
        ("commit;", "2D000", True),
    ],
)
async def test_only_what_another_try_would_meet_again_is_permanent(
    node: Node, body: str, sqlstate: str, retryable: bool
) -> None:
    await node.database.sql(function(WRITE + body))

    failed = await node.fail("public.f")

    assert isinstance(failed.result, dict)
    assert (failed.result["details"]["sqlstate"], failed.retryable) == (sqlstate, retryable)
    assert await node.effects() == []
    assert await node.states() == ["retrying" if retryable else "failed"]


async def test_a_deferred_constraint_fails_before_the_settlement(node: Node) -> None:
    await node.database.sql("create table public.pairs (id integer unique deferrable initially deferred)")
    await node.database.sql(function(WRITE + "insert into public.pairs values (1), (1);"))

    failed = await node.fail("public.f")

    assert isinstance(failed.result, dict)
    assert failed.result["details"]["sqlstate"] == "23505"
    assert (await node.states(), await node.effects()) == (["retrying"], [])


async def test_a_commit_that_is_refused_is_a_failure_with_its_code(node: Node) -> None:
    """A trigger on our own table, deferred to the commit: later than anything a function can do."""
    await node.database.sql(
        """create function public.refuse() returns trigger language plpgsql as $$
        begin raise 'not on a Sunday' using errcode = 'SUN00'; end $$;
        create constraint trigger refuse after update on hourbell.runs deferrable initially deferred
        for each row when (new.state = 'succeeded') execute function public.refuse()"""
    )

    failed = await node.fail()

    assert isinstance(failed.result, dict)
    assert (failed.error, failed.result["details"]["sqlstate"]) == ("not on a Sunday", "SUN00")
    assert (await node.states(), await node.effects()) == (["retrying"], [])


async def test_a_cursor_with_hold_does_nothing_after_the_commit(node: Node) -> None:
    await node.database.sql(function(WRITE.replace("null", "gen_random_uuid()"), "public.late()"))
    await node.database.sql(function("execute 'declare c cursor with hold for select public.late()';"))

    await node.succeed("public.f")

    assert await node.effects() == []


async def test_a_function_that_aborts_a_nested_block_may_succeed(node: Node) -> None:
    await node.database.sql(
        function("begin insert into effects values (null, 1, 'x'); perform 1 / 0; exception when others then end;")
    )

    await node.succeed("public.f")

    assert await node.effects() == []


async def test_a_role_a_function_took_does_not_meet_the_settlement(node: Node) -> None:
    await node.database.sql(function("set local role pg_read_all_data; set search_path = 'nowhere';"))

    await node.succeed("public.f")

    assert await node.states() == ["succeeded"]


async def test_a_function_that_is_not_there_has_not_begun(node: Node) -> None:
    failed = await node.fail("public.not_there", job={"delivery": "at_most_once"})

    assert failed == Failed(failed.error, retryable=False, begun=False)
