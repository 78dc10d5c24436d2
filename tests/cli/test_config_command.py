"""`hourbell config show`: every setting, where it came from, and no secret."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hourbell.cli.main import hourbell
from hourbell.settings import READERS

KEY = "A" * 43 + "="


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(hourbell, ["config", "show", *arguments])


def rows(**environment: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(run("--json", **environment).stdout)["settings"]}


def test_every_setting_has_its_default() -> None:
    found = rows()

    assert list(found) == [*READERS, "url", "token"]
    assert {row["origin"] for row in found.values()} == {"default"}
    assert (found["lease"]["value"], found["slots"]["value"], found["require_database"]["value"]) == ("1m", 1000, False)
    assert (found["http_addr"]["value"], found["url"]["value"]) == ("127.0.0.1:8080", "http://127.0.0.1:8080")
    assert (found["lease"]["variable"], found["database_url"]["variable"]) == ("HOURBELL_LEASE", "DATABASE_URL")


def test_the_source_of_every_value_is_shown(folder: Path) -> None:
    (folder / "hourbell.toml").write_text('lease = "90s"\nslots = 7\n')
    found = rows(HOURBELL_SLOTS="9", HTTP_ADDR=":9000", HOURBELL_ALLOW_NETWORKS="10.0.0.0/8, 192.168.1.7")

    reported = {name: (found[name]["value"], found[name]["origin"]) for name in ("lease", "slots", "http_addr")}
    assert reported == {
        "lease": ("1m30s", "hourbell.toml"),
        "slots": (9, "HOURBELL_SLOTS"),
        "http_addr": (":9000", "HTTP_ADDR"),
    }
    assert found["allow_networks"]["value"] == "10.0.0.0/8, 192.168.1.7/32"


def test_no_secret_is_shown(folder: Path) -> None:
    (folder / "token").write_text("hb_canary2")
    environment = {
        "DATABASE_URL": "postgresql://me:canary@db.example.com/jobs",
        "HOURBELL_SECRET_KEY": KEY,
        "HOURBELL_SQL_DATABASES": "reports=postgresql://me:canary@db.example.com/reports",
        "REDIS_URL": "redis://:canary@localhost",
        "HOURBELL_TOKEN": "hb_canary",
    }
    shown = run(**environment)

    assert shown.exit_code == 0
    assert "postgresql://me:***@db.example.com/jobs" in shown.stdout
    for output in (shown.output, run("--json", **environment).output):
        assert "canary" not in output
        assert KEY not in output
    del environment["HOURBELL_TOKEN"]
    token = rows(HOURBELL_TOKEN_FILE=str(folder / "token"), **environment)["token"]
    assert (token["value"], token["origin"]) == ("***", "HOURBELL_TOKEN_FILE")


def test_invalid_settings_are_reported_and_the_others_shown() -> None:
    done = run(HOURBELL_LEASE="soon", HOURBELL_SLOTS="0", HOURBELL_API_RATE="7", HOURBELL_SECRET_KEY="canary")

    assert done.exit_code == 2
    assert "error: HOURBELL_LEASE: write a duration of 1s or more" in done.stderr
    assert "error: HOURBELL_SLOTS: write a number from 1 to 100000" in done.stderr
    assert "error: HOURBELL_SECRET_KEY: " in done.stderr
    assert "canary" not in done.output
    lines = {line.split()[0]: line.split() for line in done.stdout.splitlines()}
    assert lines["HOURBELL_API_RATE"] == ["HOURBELL_API_RATE", "7", "HOURBELL_API_RATE"]
    assert lines["HOURBELL_LEASE"] == ["HOURBELL_LEASE", "soon", "HOURBELL_LEASE", "(bad)"]


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"HOURBELL_REQUIRE_DATABASE": "1"}, "HOURBELL_REQUIRE_DATABASE forbids the default"),
        ({"HOURBELL_URL": "ftp://x"}, "Write the server's address as in http://127.0.0.1:8080"),
        ({"HOURBELL_TOKEN_FILE": "/nowhere"}, "HOURBELL_TOKEN_FILE names /nowhere, which cannot be read"),
        ({"DATABASE_URL": "mysql://me:canary@x/y"}, "write postgresql://user:password@host/database"),
    ],
)
def test_settings_that_conflict_are_reported(environment: dict[str, str], message: str) -> None:
    done = run(**environment)

    assert (done.exit_code, "canary" in done.output) == (2, False)
    assert message in " ".join(done.stderr.split())


@pytest.mark.parametrize("text", ["lease = ", "leas = 3"])
def test_an_unreadable_file_is_reported(folder: Path, text: str) -> None:
    (folder / "hourbell.toml").write_text(text)
    done = run()

    assert (done.exit_code, "hourbell.toml" in done.stderr, "HOURBELL_LEASE" in done.stdout) == (2, True, True)


def test_unknown_variables_are_reported() -> None:
    misspelled = run(HOURBELL_ALOW_NETWORKS="10.0.0.0/8")
    unknown = run(HOURBELL_VERSION="1.2", HOURBELL_SERVICE_PORT="8080")

    assert (misspelled.exit_code, unknown.exit_code) == (2, 0)
    assert "HOURBELL_ALOW_NETWORKS is not a setting; did you mean HOURBELL_ALLOW_NETWORKS?" in misspelled.stderr
    assert unknown.stderr == (
        "warning: HOURBELL_VERSION is not a setting; unset it, or see docs/settings.md for the names\n"
    )
