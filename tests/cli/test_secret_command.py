"""`hourbell secret` as an operator uses it: shown once, read from stdin, with clear errors."""

import json
import sqlite3
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hourbell.cli.local.db import command as db_command
from hourbell.cli.local.secret import command
from hourbell.core.access.signing import secret_bytes

JOB = """insert into hourbell_jobs (name, schedule, target)
values ('hook', '* * * * *', '{"type": "http", "url": "https://example.com"}'),
       ('task', '* * * * *', '{"type": "task", "name": "a"}')"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database with a webhook in an otherwise empty folder."""
    monkeypatch.chdir(tmp_path)
    for variable in ("DATABASE_URL", "HOURBELL_DATABASE_URL", "HOURBELL_SECRET_KEY"):
        monkeypatch.delenv(variable, raising=False)
    CliRunner().invoke(db_command, ["migrate"])
    with sqlite3.connect(tmp_path / "hourbell.db") as connection:
        connection.execute(JOB)
    connection.close()
    return tmp_path


def run(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(command, arguments, input=given)


def test_a_secret_is_printed_alone_and_only_when_created(folder: Path) -> None:
    made = run("create", "hook")

    assert made.exit_code == 0
    secret_bytes(made.stdout.strip())
    assert made.stdout.strip() not in run("list", "hook").output
    assert stat.S_IMODE((folder / "hourbell.db.key").stat().st_mode) == 0o600
    assert made.stdout.strip().encode() not in (folder / "hourbell.db").read_bytes()


def test_a_rotation_keeps_the_old_secret_valid_for_a_while() -> None:
    first, second = run("create", "hook"), run("rotate", "hook", "--keep-old", "48h")

    assert second.exit_code == 0
    assert first.stdout != second.stdout
    rows = json.loads(run("list", "hook", "--json").stdout)
    assert [(row["field"], row["valid_until"] is None) for row in rows] == [("signing", True), ("signing", False)]


def test_a_header_is_read_from_stdin() -> None:
    assert run("set", "hook", "header:Authorization", given="Bearer x\n").exit_code == 0
    assert run("list", "hook").stdout.startswith("header:Authorization  since ")
    assert run("remove", "hook", "header:Authorization").exit_code == 0
    assert "has no secrets" in run("list", "hook").stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["create", "nobody"], 3, "there is no job named 'nobody'"),
        (["list", "nobody"], 3, "there is no job named 'nobody'"),
        (["rotate", "hook"], 3, "the job has no signing secret yet; create one"),
        (["create", "task"], 5, "only a job with an http target has secrets"),
        (["remove", "hook", "signing"], 3, "the job has no secret 'signing'"),
        (["set", "hook", "password"], 2, "write signing, or header: and the name of a header"),
        (["rotate", "hook", "--keep-old", "soon"], 2, "write a duration of up to 365d"),
    ],
)
def test_failures_are_reported(arguments: list[str], exit_code: int, message: str) -> None:
    done = run(*arguments, given="canary")

    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert message in done.stderr
    assert "canary" not in done.stderr


def test_a_key_other_than_the_databases_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    run("create", "hook")
    monkeypatch.setenv("HOURBELL_SECRET_KEY", "A" * 43 + "=")

    done = run("rotate", "hook")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "is not the one that sealed" in done.stderr


def test_every_help_starts_with_examples() -> None:
    for arguments in ([], ["create"], ["rotate"], ["set"], ["list"], ["remove"]):
        assert run(*arguments, "--help").stdout.startswith("Examples:\n  ")
