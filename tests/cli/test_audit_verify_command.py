"""`hourbell audit verify`: what it prints, and how it exits."""

import asyncio
import json
import re
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner, Result

from hourbell.cli.local.db import command as db
from hourbell.cli.local.token import command as token
from hourbell.cli.server.audit import command
from hourbell.core.access.audit_chain import extend_chain
from hourbell.settings import load_settings
from hourbell.wiring import open_stores, seal_keys

KEY = "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a database, and an environment without settings."""
    monkeypatch.chdir(tmp_path)
    for variable in ("DATABASE_URL", "HOURBELL_DATABASE_URL", "HOURBELL_SECRET_KEY", "HOURBELL_URL"):
        monkeypatch.delenv(variable, raising=False)
    assert CliRunner().invoke(db, ["migrate"]).exit_code == 0
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["verify", *arguments])


def add_tokens(*names: str) -> None:
    for name in names:
        assert CliRunner().invoke(token, ["create", name, "--role", "viewer"]).exit_code == 0
    asyncio.run(chain())


async def chain() -> None:
    """Do what the loop of a node does."""
    settings = load_settings({})
    stores, seals = open_stores(settings), seal_keys(settings)
    now = await stores.engine.sample_time()
    await stores.audit_chain.extend(lambda head, rows: extend_chain(head, rows, now, seals))
    await stores.close()


def tamper(*statements: str) -> None:
    connection = apsw.Connection("hourbell.db")
    for (name,) in connection.execute("select name from sqlite_schema where type = 'trigger'").fetchall():
        if str(name).startswith("hourbell_audit"):
            connection.execute(f"drop trigger {name}").fetchall()
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


def test_an_unbroken_chain_exits_with_0_and_prints_the_newest_hash() -> None:
    add_tokens("one", "two")

    result = run()

    assert (result.exit_code, result.stderr) == (0, "")
    first, second = result.stdout.splitlines()
    assert first == "the audit chain is unbroken: 2 rows, no seal was checked: it needs HOURBELL_SECRET_KEY"
    assert re.fullmatch(r"newest hash, at position 2: [0-9a-f]{64}", second)


def test_a_changed_row_exits_with_1_and_shows_its_position() -> None:
    add_tokens("one", "two")
    tamper("update hourbell_audit set actor = 'mallory' where id = 1")

    result = run()

    assert result.exit_code == 1
    expected = (
        r"broken row_changed at position 1, 20\S+: the audit row 1 or its link was changed: it does not fit its hash"
    )
    assert re.fullmatch(expected, result.stdout.splitlines()[0])


def test_json_output_is_machine_readable() -> None:
    add_tokens("one", "two")
    tamper("delete from hourbell_audit where id = 2")

    result = run("--json")

    body = json.loads(result.stdout)
    assert (result.exit_code, body["intact"], body["position"], body["break_count"]) == (1, False, 2, 1)
    [found] = body["breaks"]
    assert (found["kind"], found["position"], found["audit_id"]) == ("row_removed", 2, 2)


def test_a_saved_hash_reveals_that_the_newest_rows_were_removed() -> None:
    add_tokens("one", "two")
    kept = json.loads(run("--json").stdout)["hash"]
    add_tokens("three")
    assert run("--expect", kept.upper()).exit_code == 0
    tamper("delete from hourbell_audit where id > 1", "delete from hourbell_audit_chain where audit_id > 1")

    assert run().exit_code == 0
    result = run("--expect", kept)
    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        1,
        f"broken hash_missing at no position: the chain does not contain the expected hash {kept}: "
        "rows were removed or changed since then",
    )


def test_with_the_key_a_recomputed_chain_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOURBELL_SECRET_KEY", KEY)
    add_tokens("one")
    assert run().stdout.startswith("the audit chain is unbroken: 1 row, sealed up to position 1\n")
    tamper("update hourbell_audit_chain set seal = 'forged'")

    assert "broken seal_wrong at position 1" in run().stdout
    monkeypatch.delenv("HOURBELL_SECRET_KEY")
    assert run().exit_code == 0


def test_from_skips_the_rows_before_a_position() -> None:
    add_tokens("one", "two")
    tamper("update hourbell_audit set actor = 'mallory' where id = 1")

    assert (run("--from", "1").exit_code, run("--from", "2").exit_code) == (1, 0)


def test_rows_that_stay_unchained_for_long_are_noted() -> None:
    """Without a node nothing was chained yet, which is not a break."""
    tamper("insert into hourbell_audit (at, actor, action, subject) values (0, 'x', 'x', 'x')")
    tamper("insert into hourbell_audit_unchained values (1)")

    result = run()
    assert result.exit_code == 0
    note = "note: 1 row waiting to be chained since 1970-01-01T00:00:00+00:00; start a node\n"
    assert result.stderr == note


def test_verification_needs_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOURBELL_URL", "no address")

    assert run().exit_code == 0


@pytest.mark.parametrize("given", ["abc", "g" * 64, ""])
def test_an_invalid_hash_is_refused(given: str) -> None:
    result = run("--expect", given)

    assert (result.exit_code, "write the 64 hexadecimal digits" in result.stderr) == (2, True)


def test_a_missing_database_is_not_created(folder: Path) -> None:
    result = run("--database-url", "sqlite:///other.db")

    assert (result.exit_code, (folder / "other.db").exists()) == (1, False)


def test_an_older_schema_is_reported() -> None:
    tamper("delete from hourbell_migrations where number = 15")

    result = run()
    assert (result.exit_code, result.stderr) == (1, "error: the schema is not up to date; run: hourbell db migrate\n")
