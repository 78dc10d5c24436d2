"""Hostile functions under a login of their own: whatever they try is denied, ended or without effect on others."""

import asyncio

import pytest

from hourbell.core.run.settle import Succeeded
from tests.database import PostgresDatabase
from tests.targets.sql.steps import Node, function

pytestmark = pytest.mark.anyio
TERMINATE = "perform pg_terminate_backend(pid) from pg_stat_activity where application_name = 'hourbell';"
SETTLE = """hourbell.settle_run({nonce}, {run}, 1, 'succeeded', null, null, 0, 0, '{{"forged": true}}', now(), true,
    null, now(), 'succeeded', null, null, null, null)"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("set session authorization postgres;", "permission denied to set session authorization"),
        ("set role postgres;", "permission denied to set role"),
        ("set local role pg_execute_server_program;", "permission denied to set role"),
        ("copy (select 1) to program 'touch /tmp/hourbell-was-here';", "permission denied to COPY to or from"),
        ("copy public.effects from '/etc/passwd';", "permission denied to COPY from a file"),
        ("perform pg_read_file('/etc/passwd');", "permission denied for function pg_read_file"),
        ("perform * from hourbell.runs;", "permission denied for table runs"),
        ("perform * from hourbell.secrets;", "permission denied for table secrets"),
        ("perform * from hourbell.function_calls;", "permission denied for table function_calls"),
        ("update hourbell.jobs set enabled = false;", "permission denied for table jobs"),
        ("perform hourbell.trigger_job('job-0');", "permission denied for table jobs"),
        ("create function hourbell.f() returns integer language sql as 'select 1';", "permission denied for schema"),
        ("alter function hourbell.settle_run owner to current_user;", "must be owner of function"),
        ("load 'auto_explain';", "access to library \"auto_explain\" is not allowed"),
        ("set session_replication_role = replica;", "permission denied to set parameter"),
        (TERMINATE, "permission denied to terminate process"),
    ],
)  # fmt: skip
async def test_a_forbidden_operation_of_a_function_is_denied(apart: Node, body: str, said: str) -> None:
    await apart.database.sql(function("insert into public.effects values (null, 1, 'x');" + body))

    failed = await apart.fail("public.f")

    assert said in failed.error
    assert isinstance(failed.result, dict)
    assert (failed.result["details"]["sqlstate"], await apart.effects()) == ("42501", [])


async def test_no_table_of_ours_is_open_to_the_login(apart: Node, login: str) -> None:
    rows = await apart.database.connection.fetch(
        "select relname from pg_class where relnamespace = 'hourbell'::regnamespace and relkind in ('r', 'v', 'S') "
        f"and has_table_privilege('{login}', oid, 'select, insert, update, delete, truncate')"
    )

    assert rows == []


async def test_resetting_the_role_gains_nothing(apart: Node, login: str) -> None:
    await apart.database.sql(
        function("reset role; reset session authorization; set session authorization default;"
                 "return jsonb_build_object('success', true, 'message', current_user);")
    )  # fmt: skip

    assert (await apart.succeed("public.f"))["message"] == login


async def test_objects_that_shadow_ours_are_not_met(apart: Node) -> None:
    await apart.database.sql(
        function("""
        create temp table runs (like public.effects); create temp table effects (x integer);
        create domain pg_temp.uuid as text check (false); create domain pg_temp.int4 as text check (false);
        create function pg_temp.sha256(bytea) returns bytea language sql as 'select null::bytea';
        create function pg_temp.coalesce(a text) returns text language sql as 'select ''x''::text';
        set search_path = pg_temp, pg_catalog;""")
    )

    await apart.succeed("public.f")
    await apart.succeed()

    assert sorted(await apart.states()) == ["succeeded", "succeeded"]
    assert len(await apart.effects()) == 1


async def test_statements_prepared_or_dropped_under_our_names_hurt_nobody(apart: Node) -> None:
    prepare = "".join(f"execute 'prepare __asyncpg_stmt_{n}__ as select 666';" for n in range(1, 20))
    await apart.database.sql(function("execute 'deallocate all';" + prepare))

    for _ in range(4):  # on both connections
        await apart.succeed("public.f")
        await apart.succeed()

    assert len(await apart.effects()) == 4


async def test_locks_and_listening_end_with_the_call(apart: Node) -> None:
    await apart.database.sql(function("perform pg_advisory_lock(1); listen hourbell;"))
    await apart.succeed("public.f")

    assert await apart.database.connection.fetchval("select pg_try_advisory_lock(1)") is True


async def test_a_guessed_nonce_settles_nothing(apart: Node) -> None:
    guesses = ["null", "''", "sha256('guess')", "'\\x00'", "decode(repeat('00', 32), 'hex')"]
    own = "current_setting('hourbell.run_id')::uuid"
    tries = " or ".join(SETTLE.format(nonce=guess, run=own) for guess in guesses)
    await apart.database.sql(function(f"return jsonb_build_object('success', false, 'message', ({tries})::text);"))

    assert (await apart.fail("public.f")).error == "false"
    row = await apart.the_run()
    assert (row["state"], row["result"]) == ("retrying", {"success": False, "message": "false"})


async def test_a_function_cannot_settle_another_run(apart: Node) -> None:
    """Not even with the digest in hand, and not while the other run's function is at work."""
    victim, definition = await apart.claim(job={"priority": "high"})

    async def attack() -> None:
        digest = (await apart.database.rows("function_calls"))[0]["nonce_digest"].hex()
        nonce = f"decode('{digest}', 'hex')"
        settle = SETTLE.format(nonce=nonce, run=f"'{victim.id}'::uuid")
        await apart.database.sql(function(f"if {settle} then raise 'settled another run'; end if;", "public.attack()"))
        apart.before_settle = nothing
        await apart.succeed("public.attack")

    async def nothing() -> None: ...

    apart.before_settle = attack
    outcome, _ = await apart.attempt(victim, definition)

    assert isinstance(outcome, Succeeded)
    assert [row["result"] for row in await apart.database.rows("runs")] == 2 * [{"success": True, "message": "done"}]


@pytest.mark.parametrize(
    "body",
    [
        "raise '%', repeat('x', 2000000);",
        "raise exception using message = 'short', detail = repeat('x', 2000000);",
        "raise notice '%', repeat('x', 2000000);",
        "perform set_config('search_path', repeat('x', 2000000), true); raise info '%', repeat('x', 1100000);",
    ],
)
async def test_a_message_that_is_too_large_ends_the_session(apart: Node, body: str) -> None:
    """The driver needs seconds for an error of 100 MB, in which the node does nothing else."""
    await apart.database.sql(function("insert into public.effects values (null, 1, 'x');" + body))

    assert "an error or a notice of more than 1048576 bytes" in (await apart.fail("public.f")).error
    await apart.succeed()
    assert len(await apart.effects()) == 1


async def test_messages_of_a_usual_size_do_no_harm(apart: Node) -> None:
    await apart.database.sql(function("for i in 1..500 loop raise notice '%', repeat('x', 10000); end loop;"))

    await apart.succeed("public.f")
    await apart.database.sql(function("raise '%', repeat('x', 900000);"))
    assert (await apart.fail("public.f")).error == 4_000 * "x"


async def test_rows_of_any_size_are_read(apart: Node) -> None:
    async with apart.connections.transaction() as connection:
        assert await connection.fetchval("select length($1 || repeat('x', 2000000))", "x") == 2_000_001
        assert len(await connection.fetchval("select repeat('x', 2000000)")) == 2_000_000


@pytest.mark.full
async def test_a_function_that_never_ends_is_ended(apart: Node) -> None:
    await apart.database.sql(
        function("""set statement_timeout = 0; set client_connection_check_interval = 0;
        loop begin perform pg_sleep(1); exception when query_canceled then end; end loop;""")
    )

    assert (await apart.fail("public.f", timeout="1s")).error == "timed out after 1s"
    await no_function_is_at_work(apart.database)
    await apart.succeed()


async def no_function_is_at_work(database: PostgresDatabase) -> None:
    """Wait until none is; for ever if one never ends."""
    at_work = """select count(*) from pg_stat_activity where application_name = 'hourbell functions'
        and datname = current_database() and state <> 'idle'"""
    async with asyncio.timeout(10):
        while await database.connection.fetchval(at_work):
            await asyncio.sleep(0.05)
