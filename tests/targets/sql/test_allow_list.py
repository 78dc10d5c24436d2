"""The allow-list: jobs made by the API or from files call only what it names, by identity and not by text."""

from collections.abc import AsyncIterator

import pytest

from tests.database import PostgresDatabase
from tests.targets.sql.steps import EFFECT, EFFECTS, Node, function

pytestmark = pytest.mark.anyio
ALLOW = {
    "public.effect(jsonb)",
    'public."Quoted"(pg_catalog.int4, character varying)',
    "PUBLIC.Loud()",
    "public.gone(integer)",
    "nonsense(((",
    "public.overloaded(integer)",
    "elsewhere:public.quiet()",
}


@pytest.fixture
async def node(postgres: PostgresDatabase) -> AsyncIterator[Node]:
    await postgres.sql(EFFECTS)
    await postgres.sql(EFFECT)
    await postgres.sql(function("", 'public."Quoted"(a integer, b varchar)'))
    await postgres.sql(function("", "public.loud()"))
    await postgres.sql(function("", "public.quiet()"))
    await postgres.sql(function("", "public.overloaded(a integer)"))
    await postgres.sql(function("", "public.overloaded(b text)"))
    async with Node.made(postgres, allow=ALLOW) as made:
        yield made


async def test_a_signature_may_be_written_in_any_way_that_means_the_function(node: Node) -> None:
    for maker in ("api", "file"):
        await node.succeed(managed_by=maker)
        await node.succeed("public.Quoted", managed_by=maker, args={"a": 1, "b": "x"})
        await node.succeed("public.loud", managed_by=maker)
        await node.succeed("public.overloaded", managed_by=maker, args={"a": 1})


async def test_a_function_that_is_not_on_the_allow_list_fails_permanently(node: Node) -> None:
    quiet = await node.fail("public.quiet", managed_by="api")
    other = await node.fail("public.overloaded", managed_by="file", args={"b": "x"})

    assert quiet.error == "public.quiet() is not on the allow-list; ask the operator to add it"
    assert other.error == "public.overloaded(text) is not on the allow-list; ask the operator to add it"
    assert (quiet.retryable, quiet.begun, other.retryable) == (False, False, False)


async def test_rows_made_by_sql_or_code_call_what_they_like(node: Node) -> None:
    await node.succeed("public.quiet", managed_by="sql")
    await node.succeed("public.quiet", managed_by="code")


async def test_a_recreated_function_of_the_same_signature_is_allowed_too(node: Node) -> None:
    await node.database.sql("drop function public.loud()")
    await node.database.sql(function("", "public.loud()"))

    await node.succeed("public.loud", managed_by="api")


async def test_a_function_of_another_schema_is_another_function(node: Node) -> None:
    await node.database.sql("create schema evil")
    await node.database.sql(function("", "evil.loud()"))

    assert "evil.loud() is not on the allow-list" in (await node.fail("evil.loud", managed_by="api")).error
