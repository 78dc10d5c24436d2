"""Arguments: values of every type arrive as they were meant, and none of them is ever read as SQL."""

import json
from collections.abc import AsyncIterator

import pytest

from tests.database import PostgresDatabase
from tests.targets.sql.steps import EFFECTS, Node

pytestmark = pytest.mark.anyio

MAKE = """
create type public.mood as enum ('sad', 'it''s "fine"');
create domain public.percent as integer check (value between 0 and 100);
create domain public.settings as jsonb;
create schema "Odd schema";
create type "Odd schema"."Odd type" as enum ('a');
"""
HOSTILE = [
    "'; drop table public.effects; --",
    "\"; drop table public.effects; --",
    "$1", "$$", "{}", "%s", "\\", "\\'; select 1 --", "a\nb\tc", "ü € 🕰 \u202e", "", " ", "null", "E'\\x41'",
]  # fmt: skip


@pytest.fixture(scope="module")
async def node() -> AsyncIterator[Node]:
    async with PostgresDatabase.made() as postgres, Node.made(postgres) as made:
        await postgres.sql(EFFECTS)
        await postgres.sql(MAKE)
        yield made


async def echo(node: Node, kind: str, value: object) -> object:
    """Return the value that a parameter of a type receives, as text, and its type."""
    await node.database.sql(
        f"""create or replace function public.echo(x {kind}) returns jsonb language sql as $$
        select jsonb_build_object('success', true, 'message', pg_typeof(x)::text, 'details', x::text) $$"""
    )
    try:
        return (await node.succeed("public.echo", args={"x": value}))["details"]
    finally:
        await node.database.sql(f"drop function public.echo({kind})")


@pytest.mark.parametrize(
    ("kind", "value", "arrives"),
    [
        ("integer", 42, "42"),
        ("integer", "42", "42"),
        ("integer", None, None),
        ("bigint", 2**62, str(2**62)),
        ("smallint", -1, "-1"),
        ("numeric", 0.1, "0.1"),
        ("numeric(4,1)", 2.25, "2.25"),  # a parameter has no precision, whatever its declaration says
        ("double precision", 1e300, "1e+300"),
        ("boolean", True, "true"),
        ("boolean", "no", "false"),
        ("text", 5, "5"),
        ("text", True, "true"),
        ("text", {"a": [1]}, '{"a": [1]}'),
        ("varchar", "x", "x"),
        ("char(3)", "abcdef", "abcdef"),
        ('"char"', "a", "a"),
        ("bytea", "\\x00ff", "\\x00ff"),
        ("date", "2026-02-28", "2026-02-28"),
        ("timestamptz", "2026-02-28T12:00:00+02:00", "2026-02-28 10:00:00+00"),
        ("interval", "2 days", "2 days"),
        ("uuid", "6F2B1C1E-0000-4000-8000-000000000001", "6f2b1c1e-0000-4000-8000-000000000001"),
        ("inet", "127.0.0.1", "127.0.0.1/32"),
        ("int4range", "[1,5)", "[1,5)"),
        ("public.mood", 'it\'s "fine"', 'it\'s "fine"'),
        ('"Odd schema"."Odd type"', "a", "a"),
        ("public.percent", 100, "100"),
        ("json", {"a": [1, None, "x"]}, '{"a": [1, null, "x"]}'),
        ("jsonb", "text", '"text"'),
        ("jsonb", [1, 2], "[1, 2]"),
        ("jsonb", None, None),
        ("public.settings", {"a": 1}, '{"a": 1}'),
        ("integer[]", [1, None, 3], "{1,NULL,3}"),
        ("integer[]", [[1, 2], [3, 4]], "{{1,2},{3,4}}"),
        ("integer[]", [], "{}"),
        ("integer[]", "{7,8}", "{7,8}"),
        ("text[]", ['a,b', '"', "\\", "NULL", ""], '{"a,b","\\"","\\\\","NULL",""}'),
        ("boolean[]", [True, False], "{t,f}"),
        ("jsonb[]", [{"a": 1}, [2], "x"], '{"{\\"a\\": 1}",[2],"\\"x\\""}'),
        ("public.mood[]", ["sad"], "{sad}"),
        ("uuid[]", [], "{}"),
    ],
)  # fmt: skip
async def test_a_value_becomes_the_type_of_its_parameter(node: Node, kind: str, value: object, arrives: object) -> None:
    assert await echo(node, kind, value) == arrives


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("kind", ["text", "jsonb", "text[]"])
async def test_a_hostile_string_is_only_a_string(node: Node, kind: str, value: str) -> None:
    arrived = await echo(node, kind, [value] if kind == "text[]" else value)

    if kind == "jsonb":
        assert json.loads(str(arrived)) == value
    elif kind == "text":
        assert arrived == value
    else:
        assert await node.database.connection.fetchval("select $1::text::text[]", arrived) == [value]
    assert await node.effects() == []


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("integer", "'; drop table effects", "invalid input syntax for type integer"),
        ("integer", 1.5, "invalid input syntax for type integer"),
        ("integer", 2**40, "out of range"),
        ("integer", [1], 'invalid input syntax for type integer: "[1]"'),
        ("integer[]", 5, "malformed array literal"),
        ("integer[]", ["x"], "invalid input syntax for type integer"),
        ("integer[]", [[1], [2, 3]], "invalid input for query argument $1"),
        ("date", "2026-02-30", "out of range"),
        ("uuid", "x", "invalid input syntax for type uuid"),
        ("public.mood", "angry", "invalid input value for enum"),
        ("public.percent", 101, "violates check constraint"),
        ("text", "a\0b", "args.x holds a NUL character"),
        ("text[]", ["a\0b"], "args.x holds a NUL character"),
        ("text", "\ud800", "args.x holds half of a surrogate pair"),
        ("jsonb", "a\0b", "unsupported Unicode escape sequence"),
    ],
)  # fmt: skip
async def test_a_value_that_does_not_fit_fails_for_good_before_the_call(
    node: Node, kind: str, value: object, said: str
) -> None:
    await node.database.sql(
        f"""create or replace function public.echo(x {kind}) returns jsonb language plpgsql as $$
        begin insert into public.effects values (null, 1, 'called'); end $$"""
    )
    run, definition = await node.claim("public.echo", args={"x": 1})
    definition.target["args"]["x"] = value  # type: ignore[index]

    outcome = await node.target.deliver(node.call(run, definition))

    await node.database.sql(f"drop function public.echo({kind})")
    assert said in getattr(outcome, "error", "")
    assert (outcome.retryable, outcome.begun) == (False, False)  # type: ignore[union-attr]
    assert await node.effects() == []
