"""`hourbell db` on both databases, and what it says when they are unreachable."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hourbell.cli.local.db import command
from hourbell.store.migrations import load_migrations
from tests.database import PostgresDatabase

TITLES = [f"{migration.number:04}_{migration.name}" for migration in load_migrations("hourbell.store.sqlite")]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and an environment without settings."""
    monkeypatch.chdir(tmp_path)
    for variable in ("DATABASE_URL", "HOURBELL_DATABASE_URL", "HOURBELL_REQUIRE_DATABASE"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_migrate_lists_the_migrations_it_ran_and_a_second_run_finds_none(folder: Path) -> None:
    first, second = run("migrate"), run("migrate")

    assert (first.exit_code, first.stdout.splitlines()) == (0, [f"{title}  applied" for title in TITLES])
    assert (second.exit_code, second.stdout) == (0, "")
    assert second.stderr == f"the schema is up to date: {folder}/hourbell.db\n"


def test_status_fails_while_migrations_are_pending() -> None:
    before = run("status")
    run("migrate")
    after = run("status")

    assert (before.exit_code, before.stdout.split()) == (1, [word for title in TITLES for word in (title, "pending")])
    assert before.stderr == f"{len(TITLES)} pending; run: hourbell db migrate\n"
    assert (after.exit_code, after.stdout.split()) == (0, [word for title in TITLES for word in (title, "applied")])


@pytest.mark.parametrize("arguments", [["status"], ["sql"], ["sql", "--pending"]])
def test_status_creates_no_file(arguments: list[str], folder: Path) -> None:
    run(*arguments)

    assert list(folder.iterdir()) == []


def test_json_output_is_machine_readable() -> None:
    pending, run_now, applied = run("status", "--json"), run("migrate", "--json"), run("status", "--json")

    assert json.loads(pending.stdout)[0] == {"number": 15, "name": "baseline", "applied": False}
    assert json.loads(run_now.stdout) == json.loads(applied.stdout)
    assert [row["applied"] for row in json.loads(applied.stdout)] == [True] * len(TITLES)


def test_sql_prints_every_migration_or_only_the_pending_ones() -> None:
    run("migrate")
    everything, pending = run("sql"), run("sql", "--pending")

    assert everything.stdout.startswith("-- migration 0015_baseline, sha256 ")
    assert "create table hourbell_jobs" in everything.stdout
    assert (pending.exit_code, pending.stdout) == (0, "")


def test_printing_sql_for_postgresql_needs_no_server() -> None:
    result = run("sql", "--database-url", "postgresql://localhost:1/jobs")

    assert result.exit_code == 0
    assert "create table hourbell.jobs" in result.stdout


def test_the_database_comes_from_the_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "sqlite:///other.db")

    assert run("migrate").exit_code == 0
    assert (folder / "other.db").exists()
    assert not (folder / "hourbell.db").exists()


@pytest.mark.parametrize("verb", ["migrate", "status"])
def test_an_unreachable_database_is_reported_without_its_password(verb: str) -> None:
    result = run(verb, "--database-url", "postgresql://u:hunter2@127.0.0.1:1/jobs")

    assert result.exit_code == 1
    assert result.stderr.startswith("error: the database is unreachable: postgresql://u:***@127.0.0.1:1/jobs\n")
    assert "check that it can be reached" in result.stderr
    assert "hunter2" not in result.output


@pytest.mark.parametrize("verb", ["migrate", "status"])
def test_a_file_that_is_not_a_database_is_reported(verb: str, folder: Path) -> None:
    (folder / "hourbell.db").write_text("a letter, and not a short one. " * 200)
    result = run(verb)

    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: the database cannot be used: {folder}/hourbell.db\n")
    assert "the file is not a SQLite database\n" in result.stderr


def test_a_missing_folder_is_reported() -> None:
    result = run("migrate", "--database-url", "sqlite:////nowhere/at/all.db")

    assert result.exit_code == 1
    assert result.stderr.startswith("error: the database is unreachable: /nowhere/at/all.db\n")
    assert "  there is no folder /nowhere/at\n  create it, or name another file in --database-url\n" in result.stderr


def test_bad_settings_exit_with_2_and_a_malformed_url_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    malformed = run("status", "--database-url", "mysql://localhost")
    monkeypatch.setenv("HOURBELL_LEASE", "soon")
    bad = run("status")

    assert (malformed.exit_code, bad.exit_code) == (1, 2)
    assert malformed.stderr.startswith("error: --database-url is 'mysql://localhost'; write postgresql://")
    assert bad.stderr.startswith("error: HOURBELL_LEASE is 'soon'; write a duration")


def test_a_missing_required_database_url_exits_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOURBELL_REQUIRE_DATABASE", "1")

    assert run("migrate").exit_code == 2


def test_every_help_starts_with_examples() -> None:
    for arguments in ([], ["migrate"], ["status"], ["sql"], ["prune"]):
        assert run(*arguments, "--help").stdout.startswith("Examples:\n  hourbell db ")


@pytest.mark.anyio
async def test_postgresql_is_migrated_the_same_way() -> None:
    async with PostgresDatabase.made(migrated=False) as database:
        url = ("--database-url", database.url)
        before = await asyncio.to_thread(run, "status", *url)
        first = await asyncio.to_thread(run, "migrate", *url)
        after = await asyncio.to_thread(run, "status", *url)
        left = await asyncio.to_thread(run, "sql", "--pending", *url)

    assert (before.exit_code, first.exit_code, after.exit_code, left.exit_code) == (1, 0, 0, 0)
    assert before.stdout.split()[:2] == ["0015_baseline", "pending"]
    assert first.stdout.split()[:2] == ["0015_baseline", "applied"]
    assert after.stdout.split() == first.stdout.split()
    assert left.stdout == ""


@pytest.mark.anyio
async def test_a_missing_database_is_reported() -> None:
    async with PostgresDatabase.made() as database:
        url = database.url.replace("hourbell_test_", "no_such_")
        result = await asyncio.to_thread(run, "status", "--database-url", url)

    assert result.exit_code == 1
    assert "does not exist" in result.stderr


@pytest.mark.anyio
async def test_a_schema_of_a_newer_release_is_left_alone() -> None:
    async with PostgresDatabase.made() as database:
        await database.sql("insert into hourbell.migrations values (9999, 'later', 'x', now())")
        result = await asyncio.to_thread(run, "migrate", "--database-url", database.url)

    assert result.exit_code == 1
    assert "upgrade Hourbell" in result.stderr
