"""`hourbell token` as an operator uses it: shown once and alone, listed without its text, and revoked by name."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hourbell.cli.local.access import command as access_command
from hourbell.cli.local.db import command as db_command
from hourbell.cli.local.token import command
from hourbell.core.access.token_text import is_token_text


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder."""
    monkeypatch.chdir(tmp_path)
    for variable in ("DATABASE_URL", "HOURBELL_DATABASE_URL", "HOURBELL_SECRET_KEY"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def listed() -> list[dict[str, str | None]]:
    found: list[dict[str, str | None]] = json.loads(run("list", "--json").stdout)
    return found


def test_a_token_is_printed_alone_and_only_when_created(folder: Path) -> None:
    made = run("create", "admin", "--role", "admin")
    text = made.stdout.removesuffix("\n")

    assert made.exit_code == 0
    assert is_token_text(text)
    assert "admin is admin, valid until" in made.stderr
    assert "made the database" in made.stderr  # there was none: this may come before the first start
    assert text not in made.stderr
    assert text not in run("list").output + run("list", "--json").output
    assert all(text.encode() not in path.read_bytes() for path in folder.iterdir())


def test_a_token_lasts_90_days_unless_set() -> None:
    run("create", "usual", "--role", "viewer")
    run("create", "short", "--role", "viewer", "--expires", "12h")
    run("create", "long", "--role", "viewer", "--expires", "never")

    rows = {row["name"]: row for row in listed()}
    lasts = {name: _lasts(row) for name, row in rows.items()}
    assert lasts == {"usual": timedelta(days=90), "short": timedelta(hours=12), "long": None}


def _lasts(row: dict[str, str | None]) -> timedelta | None:
    created, expires = row["created_at"], row["expires_at"]
    assert created is not None
    return datetime.fromisoformat(expires) - datetime.fromisoformat(created) if expires else None


def test_json_output_has_the_token_once_and_all_its_fields() -> None:
    body = json.loads(run("create", "ci", "--role", "editor", "--json").stdout)
    text = body.pop("token")

    assert is_token_text(text)
    assert [body] == listed()
    assert (body["name"], body["role"], body["revoked_at"], body["last_used_at"]) == ("ci", "editor", None, None)


def test_a_token_is_revoked_once_by_name_or_id() -> None:
    for name in ("one", "two"):
        run("create", name, "--role", "viewer")
    two = next(row["id"] for row in listed() if row["name"] == "two")

    assert (run("revoke", "one").exit_code, run("revoke", str(two)).exit_code) == (0, 0)
    assert all(row["revoked_at"] for row in listed())
    again = run("revoke", "one")
    assert (again.exit_code, again.stdout) == (3, "")
    assert "there is no token 'one' that is not revoked" in again.stderr


def test_two_tokens_with_one_name_need_the_id() -> None:
    ids = {json.loads(run("create", "ci", "--role", "viewer", "--json").stdout)["id"] for _ in range(2)}
    done = run("revoke", "ci")

    assert done.exit_code == 5
    assert "there are 2 tokens named 'ci'" in done.stderr
    assert all(each in done.stderr for each in ids)


def test_revoking_the_last_token_warns_that_servers_stay_closed() -> None:
    run("create", "one", "--role", "viewer")
    run("create", "two", "--role", "viewer")

    assert "hourbell access open" not in run("revoke", "one").stderr
    assert "no token is left, and servers stay closed; `hourbell token create`" in run("revoke", "two").stderr


def test_access_can_be_opened_again_only_when_no_token_is_valid() -> None:
    missing = CliRunner().invoke(access_command, ["open"])
    run("create", "one", "--role", "viewer")
    refused = CliRunner().invoke(access_command, ["open"])
    run("revoke", "one")
    done = CliRunner().invoke(access_command, ["open"])

    assert (missing.exit_code, refused.exit_code, done.exit_code) == (1, 5, 0)
    assert "there is no database" in missing.stderr
    assert "a token is still valid; revoke them first, see hourbell token list" in refused.stderr
    assert done.stderr == "open: everybody on the server's machine may do everything, until a token is made\n"


def test_a_list_of_tokens_is_readable() -> None:
    run("create", "ci", "--role", "viewer", "--expires", "never")
    assert "ci  viewer  valid until it is revoked, not used yet" in run("list").stdout

    run("revoke", "ci")
    assert "ci  viewer  revoked 20" in run("list").stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["create", "a", "--role", "god"], 2, "'god' is not one of"),
        (["create", "a"], 2, "--role"),
        (["create", "a", "--role", "admin", "--expires", "soon"], 2, "as in 90d, or never"),
        (["create", "a", "--role", "admin", "--expires", "0s"], 2, "as in 90d, or never"),
        (["create", " ", "--role", "admin"], 2, "write a name of 1 to 100 printable characters"),
        (["list"], 1, "there is no database"),
        (["revoke", "a"], 1, "there is no database"),
    ],
)
def test_failures_are_reported(arguments: list[str], exit_code: int, message: str) -> None:
    done = run(*arguments)

    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert message in done.stderr


def test_a_refused_command_creates_no_database(folder: Path) -> None:
    run("create", " ", "--role", "admin")

    assert list(folder.iterdir()) == []


def test_an_empty_list_explains_how_to_create_a_token() -> None:
    CliRunner().invoke(db_command, ["migrate"])

    assert "hourbell token create admin --role admin" in run("list").stderr


def test_every_help_starts_with_examples() -> None:
    for arguments in ([], ["create"], ["list"], ["revoke"]):
        assert run(*arguments, "--help").stdout.startswith("Examples:\n  ")
