"""`hourbell run` as an operator uses it: the dead letters are listed, and replayed."""

import asyncio
import json
import sqlite3
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner, Result
from tests.contract.steps import a_waiting_job, claim, finish

from hourbell.cli.db import command as db_command
from hourbell.cli.run import command
from hourbell.core.settle import Failed
from hourbell.settings import load_settings
from hourbell.wiring import open_stores


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for variable in ("DATABASE_URL", "HOURBELL_DATABASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


async def _one_failed() -> str:
    stores = open_stores(load_settings())
    await stores.migrate()
    await a_waiting_job(stores.engine, stores.control)
    [claimed] = await claim(stores.engine)
    await finish(stores.engine, [claimed], Failed("no\x1b[31m such page", retryable=False))
    await stores.close()
    return str(claimed.id)


@pytest.fixture
def failed() -> str:
    return asyncio.run(_one_failed())


def test_a_failed_run_is_listed_and_replayed(failed: str, folder: Path) -> None:
    listed, replayed = run("failed"), run("replay", failed)

    assert listed.stdout.startswith(failed)
    assert "job  permanent  no�[31m such page" in listed.stdout
    assert replayed.exit_code == 0
    with sqlite3.connect(folder / "hourbell.db") as connection:
        states = connection.execute("select kind, state from hourbell_runs order by kind").fetchall()
    connection.close()
    assert states == [("replay", "pending"), ("scheduled", "failed")]


def test_json_is_for_scripts(failed: str) -> None:
    [letter] = json.loads(run("failed", "--json").stdout)
    assert (letter["id"], letter["job_name"], letter["reason"]) == (failed, "job", "permanent")


def test_what_cannot_be_replayed_is_told_and_the_others_are(failed: str) -> None:
    done = run("replay", str(uuid4()), failed)

    assert (done.exit_code, len(done.stdout.split())) == (1, 1)
    assert "there is no such run" in done.stderr


def test_a_bad_id_and_a_missing_database_are_told(folder: Path) -> None:
    bad, missing = run("replay", "x"), run("failed")

    assert (bad.exit_code, missing.exit_code) == (2, 1)
    assert "is not the id of a run" in bad.stderr
    assert "there is no database" in missing.stderr
    assert list(folder.iterdir()) == []


def test_without_dead_letters_there_is_nothing_to_list() -> None:
    CliRunner().invoke(db_command, ["migrate"])
    done = run("failed")

    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "no run has failed\n")
