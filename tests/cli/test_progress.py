"""Progress is shown on a terminal only: none of it reaches a pipe, and none of it stays."""

import io
import json
import re
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from hourbell.cli.shared.progress import Progress
from tests.cli.live import Live, live

ERASED = "\r\x1b[K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_with_a_total_is_a_bar_that_is_erased_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    monkeypatch.setattr("hourbell.cli.shared.progress._OFTEN", 0.0)
    with Progress("importing", 200) as progress:
        progress.add(100)

    assert f"{ERASED}importing: [############------------] 50%" in screen.getvalue()
    assert screen.getvalue().endswith(ERASED)


def test_progress_without_a_total_is_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    monkeypatch.setattr("hourbell.cli.shared.progress._OFTEN", 0.0)
    with Progress("removing old runs", unit="removed") as progress:
        progress.add(1_200)

    assert screen.getvalue().split(ERASED)[1:-1] == ["removing old runs: …", "removing old runs: 1,200 removed"]


def test_no_progress_is_written_to_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", pipe := io.StringIO())
    with Progress("importing", 10) as progress:
        progress.add(10)

    assert pipe.getvalue() == ""


def test_a_backfill_shows_progress(node: Live) -> None:
    node.ok("job", "create", "filled", "--schedule", "@daily", "--url", node.receiver, "--method", "GET")
    args = ("job", "backfill", "filled", "--from", "2026-03-01", "--to", "2026-03-03")
    piped = node.run(*args, "--dry-run")
    status, screen = node.terminal(*args)

    assert (status, f"{ERASED}making runs: …{ERASED}" in screen) == (0, True)
    assert (piped.exit_code, ERASED in piped.output) == (0, False)


def test_a_migration_shows_progress(node: Live, tmp_path: Path) -> None:
    status, screen = node.terminal("db", "migrate", "--database-url", f"sqlite:///{tmp_path}/new.db")

    assert (status, "migrating the schema: …" in screen) == (0, True)
    assert "0015_baseline  applied" in screen


def test_pruning_asks_and_then_removes_old_runs(tmp_path: Path) -> None:
    with live(tmp_path) as node:
        node.create("pruned")
        node.ok("job", "trigger", "pruned", "--wait")
        time.sleep(1.1)
        args = (
            "db",
            "prune",
            "--older-than",
            "1s",
            "--keep",
            "0",
            "--database-url",
            f"sqlite:///{tmp_path}/hourbell.db",
        )

        asked = node.run(*args)
        assert (asked.exit_code, "add --yes" in asked.stderr) == (2, True)
        assert "whether to remove runs older than 1s, keeping each job's last 0" in asked.stderr
        status, screen = node.terminal(*args, typed="y\n")
        assert (status, "removing old runs: " in screen, "removed 1 run" in screen) == (0, True, True)
        assert json.loads(node.ok(*args, "--yes", "--json")) == {"removed": 0}
        assert node.json("run", "list", "--job", "pruned")["items"] == []


def test_a_missing_or_outdated_database_is_reported(node: Live, tmp_path: Path) -> None:
    url = ("--yes", "--database-url", f"sqlite:///{tmp_path}/old.db")
    missing = node.run("db", "prune", *url)
    sqlite3.connect(tmp_path / "old.db").execute("create table other (id)").connection.close()
    old = node.run("db", "prune", *url)

    assert (missing.exit_code, old.exit_code) == (1, 1)
    assert re.search("there is no database", missing.stderr)
    assert "hourbell db migrate" in old.stderr
