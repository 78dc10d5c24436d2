"""Resolution of a target's function, and the errors if there is none or several."""

from collections.abc import AsyncIterator

import pytest

from tests.database import PostgresDatabase
from tests.targets.sql.steps import Node

pytestmark = pytest.mark.anyio

ANSWER = "select jsonb_build_object('success', true, 'message', {})"
FUNCTIONS = f"""
create function public.over(days integer) returns jsonb language sql as $${ANSWER.format("'one: ' || days")}$$;
create function public.over(days integer, keep boolean) returns jsonb language sql as $${ANSWER.format("'two'")}$$;
create function public.over(name text) returns json language sql as
    $$select json_build_object('success', true, 'message', 'by name ' || name)$$;
create function public.over("Odd name" uuid) returns jsonb language sql as $${ANSWER.format("'odd'")}$$;
create function public.same(a integer) returns jsonb language sql as $${ANSWER.format("'integer'")}$$;
create function public.same(a text) returns jsonb language sql as $${ANSWER.format("'text'")}$$;
create function public.defaults(a integer, b integer default 2, c integer default 3) returns jsonb language sql as
    $${ANSWER.format("concat(a, b, c)")}$$;
create function public.whole(jsonb) returns jsonb language sql as $${ANSWER.format("$1::text")}$$;
create function public.mixed(json) returns jsonb language sql as $${ANSWER.format("'whole'")}$$;
create function public.mixed(a integer) returns jsonb language sql as $${ANSWER.format("'named'")}$$;
create function public.twice(json) returns jsonb language sql as $${ANSWER.format("'json'")}$$;
create function public.twice(jsonb) returns jsonb language sql as $${ANSWER.format("'jsonb'")}$$;
create function public.nameless(integer) returns jsonb language sql as $${ANSWER.format("'x'")}$$;
create function public.many(variadic xs integer[]) returns jsonb language sql as
    $${ANSWER.format("array_length(xs, 1)::text")}$$;
create function public.out(a integer, out b jsonb) language sql as $${ANSWER.format("'out ' || a")}$$;
create function public.inout(inout a jsonb) language sql as $$select a$$;
create function public.returns_text() returns text language sql as $$select ''$$;
create function public.returns_nothing() returns void language sql as $$select$$;
create function public.returns_set() returns setof jsonb language sql as $${ANSWER.format("'x'")}$$;
create function public.returns_table(a integer) returns table (b jsonb) language sql as $${ANSWER.format("'x'")}$$;
create procedure public.procedure() language sql as $$select 1$$;
create aggregate public.aggregate(jsonb) (sfunc = jsonb_concat, stype = jsonb);
create schema "Odd ""schema";
create function "Odd ""schema"."F; drop ""table"() returns jsonb language sql as $${ANSWER.format("'odd'")}$$;
"""


@pytest.fixture(scope="module")
async def node() -> AsyncIterator[Node]:
    async with PostgresDatabase.made() as postgres, Node.made(postgres) as made:
        await postgres.sql(FUNCTIONS)
        yield made


@pytest.mark.parametrize(
    ("function", "args", "answers"),
    [
        ("public.over", {"days": 3}, "one: 3"),
        ("over", {"keep": True, "days": 3}, "two"),
        ("public.over", {"name": "x"}, "by name x"),
        ("public.defaults", {"a": 1}, "123"),
        ("public.defaults", {"c": 9, "a": 1}, "129"),
        ("public.whole", {"a": [1], "b": None}, '{"a": [1], "b": null}'),
        ("public.whole", {}, "{}"),
        ("public.mixed", {"a": 1}, "named"),
        ("public.mixed", {"b": 1}, "whole"),
        ("public.many", {"xs": [1, 2, 3]}, "3"),
        ("public.out", {"a": 1}, "out 1"),
        ("public.inout", {"a": {"success": True, "message": "in and out"}}, "in and out"),
    ],
)
async def test_the_function_is_chosen_by_the_names_of_its_parameters(
    node: Node, function: str, args: dict[str, object], answers: str
) -> None:
    assert (await node.succeed(function, args=args))["message"] == answers


@pytest.mark.parametrize(
    ("function", "args", "said"),
    [
        ("public.nothing", {}, "there is no function public.nothing; create it, or correct the target"),
        ("nowhere.over", {"days": 1}, "there is no function nowhere.over;"),
        ("public.OVER", {"days": 1}, "there is no function public.OVER;"),
        ("over", {"hours": 1}, 'no parameters fit the args given (hours); there is public.over("Odd name" uuid)'),
        ("public.defaults", {"b": 1}, "public.defaults(a integer, b integer DEFAULT 2, c integer DEFAULT 3)"),
        ("public.nameless", {}, "no parameters fit the args given (none); there is public.nameless(integer)"),
        ("public.same", {"a": 1}, "only one must be left: public.same(a integer); public.same(a text)"),
        ("public.twice", {"a": 1}, "the args fit several functions, and only one must be left: public.twice(json);"),
        ("public.returns_text", {}, "public.returns_text() returns text; it must return json or jsonb"),
        ("public.returns_nothing", {}, "returns void; it must return json or jsonb"),
        ("public.returns_set", {}, "returns a set; write one that returns a single json or jsonb"),
        ("public.returns_table", {"a": 1}, "public.returns_table(integer) returns a set"),
        ("public.procedure", {}, "public.procedure() is a procedure; name a function"),
        ("public.aggregate", {}, "public.aggregate(jsonb) is an aggregate; name a function"),
        ("pg_catalog.row_number", {}, "row_number() is a window function; name a function"),
    ],
)  # fmt: skip
async def test_a_function_that_cannot_be_called_fails_permanently(
    node: Node, function: str, args: dict[str, object], said: str
) -> None:
    failed = await node.fail(function, args=args)

    assert said in failed.error
    assert (failed.retryable, failed.begun) == (False, False)


async def test_an_unusual_function_name_works(node: Node) -> None:
    assert (await node.succeed('Odd "schema.F; drop "table'))["message"] == "odd"
