"""Jobs that run commands, on a real node: from a crontab to the output, and what SQL cannot do."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.cli.live import Live, live
from tests.targets.command.steps import marked

CRONTAB = r"""
MAILTO=ops@example.com
SHELL=/bin/bash
# Nightly report
0 3 * * * [[ $0 == /bin/bash ]] && echo "report of $(date +\%Y)"; cat%first%second
*/5 * * * * false
@reboot /opt/at-boot
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="module")
def allowing(folder: Path) -> Iterator[Live]:
    """A node that allows commands, on SQLite in the folder."""
    with live(folder, HOURBELL_COMMANDS="1") as made:
        yield made


def create(node: Live, name: str, command: str, *more: str) -> None:
    node.ok("job", "create", name, "-s", "@yearly", "--command", command, "--retry", "none", *more)


def run_of(node: Live, job: str) -> str:
    return node.ok("job", "trigger", job, "-q").strip()


def ended(node: Live, job: str) -> dict[str, object]:
    """Trigger a job and return its run after it has ended."""
    run = run_of(node, job)
    node.run("run", "watch", run, "--timeout", "30s")
    found: dict[str, object] = node.json("run", "get", run)
    return found


def by_sql(folder: Path, statement: str) -> None:
    [file] = folder.glob("**/*.db")
    with closing(sqlite3.connect(file, timeout=30)) as connection:
        connection.execute(statement)
        connection.commit()


def test_a_crontab_is_imported_applied_and_run(allowing: Live, tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    made = allowing.run(
        "import", "crontab", "-", "--commands", "-z", "Europe/Berlin", "--source", "cron", given=CRONTAB
    )
    assert made.exit_code == 1
    assert "error: line 7: @reboot is not a time; make it a systemd service" in made.stderr
    assert "hourbell channel create mail --type email --set to=ops@example.com" in made.stderr
    file.write_text(made.stdout)

    assert "target: command /bin/bash -c" in allowing.ok("apply", "-f", str(file), "--yes")
    run = ended(allowing, "echo")
    assert run["state"] == "succeeded"
    lines = allowing.ok("run", "logs", str(run["id"]), "--plain").splitlines()
    assert lines == [f"report of {time.gmtime().tm_year}", "first", "second"]
    assert ended(allowing, "false")["state"] == "failed"


def test_the_output_of_a_failed_command_is_found_in_its_error_and_its_log(allowing: Live) -> None:
    create(allowing, "fails", "echo working; echo 'no space left' >&2; exit 3")
    run = ended(allowing, "fails")

    shown = allowing.ok("run", "get", str(run["id"]))
    assert "exit code 3: no space left" in shown
    assert "working" in shown
    assert "exit code 3: no space left" in allowing.ok("job", "get", "fails")


def test_the_output_is_followed_until_the_end(allowing: Live) -> None:
    create(allowing, "slow", "echo one; sleep 1.5; echo two; exit 1")
    followed = allowing.run("run", "logs", "-f", "--plain", run_of(allowing, "slow"))
    assert (followed.stdout.split(), followed.exit_code) == (["one", "two"], 7)

    run = run_of(allowing, "slow")
    text = httpx.get(f"{allowing.url}/api/v1/runs/{run}/log?follow=true", timeout=30, trust_env=False)
    assert text.headers["content-type"].startswith("text/plain")
    assert text.text == "one\ntwo\n"
    log = httpx.get(f"{allowing.url}/api/v1/runs/{run}/log?times=true", timeout=30, trust_env=False).text
    assert [line.split()[1] for line in log.splitlines()] == ["one", "two"]


@pytest.mark.full
def test_a_cancelled_run_leaves_no_process(allowing: Live) -> None:
    create(allowing, "hangs", "trap '' TERM; setsid sleep 300 & sleep 300", "--timeout", "1h")
    allowing.ok("job", "edit", "hangs", "--target", json.dumps({
        "type": "command", "command": "trap '' TERM; setsid sleep 300 & sleep 300", "kill_after": "1s",
    }))  # fmt: skip
    run = run_of(allowing, "hangs")
    mark = f"HOURBELL_RUN_ID={run}"
    until = time.monotonic() + 30
    while not marked(mark) and time.monotonic() < until:
        time.sleep(0.05)
    assert marked(mark)

    allowing.ok("run", "cancel", run)
    allowing.run("run", "watch", run, "--timeout", "30s")
    assert allowing.json("run", "get", run)["state"] == "cancelled"
    assert marked(mark) == []


def test_sql_changes_no_command_until_an_admin_approves_it(allowing: Live, folder: Path, tmp_path: Path) -> None:
    create(allowing, "target", "true")
    evil = json.dumps({"type": "command", "command": f"touch {tmp_path}/evil"})
    by_sql(folder, f"update hourbell_jobs set target = '{evil}' where name = 'target'")

    run = ended(allowing, "target")
    assert (run["state"], run["reason"]) == ("failed", "permanent")
    assert "hourbell job edit target --approve-command" in str(run["attempts"])
    edit = allowing.run("job", "edit", "target", "--schedule", "@daily")
    assert edit.exit_code == 5
    assert "--approve-command" in edit.stderr
    for action in ("pause", "resume"):
        allowing.ok("job", action, "target")
    assert ended(allowing, "target")["state"] == "failed"
    assert not (tmp_path / "evil").exists()

    allowing.ok("job", "edit", "target", "--approve-command")
    assert ended(allowing, "target")["state"] == "succeeded"
    assert (tmp_path / "evil").exists()


def test_sql_cannot_move_a_run_or_a_seal_to_another_job(allowing: Live, folder: Path, tmp_path: Path) -> None:
    create(allowing, "allowed", f"touch {tmp_path}/evil", "--paused")
    create(allowing, "victim", "true")
    of = "(select id from hourbell_jobs where name = '{}')".format
    target = "(select target from hourbell_jobs where name = 'allowed')"
    by_sql(folder, f"update hourbell_jobs set target = {target} where id = {of('victim')}")
    by_sql(
        folder,
        "insert into hourbell_command_seals (job_id, version, seal, sealed_at) "
        f"select {of('victim')}, 2, seal, sealed_at from hourbell_command_seals where job_id = {of('allowed')}",
    )

    assert ended(allowing, "victim")["state"] == "failed"
    assert not (tmp_path / "evil").exists()


def test_an_approval_over_the_api_needs_the_version_that_was_checked(allowing: Live) -> None:
    create(allowing, "checked", "true")
    answer = httpx.patch(
        f"{allowing.url}/api/v1/jobs/checked?approve_command=true", json={"tags": ["a"]}, timeout=30, trust_env=False
    )

    assert (answer.status_code, answer.json()["code"]) == (409, "version_needed")


def test_without_the_setting_a_node_runs_no_command(node: Live) -> None:
    create(node, "waits", "true")
    run = node.json("run", "get", run_of(node, "waits"))

    assert run["state"] == "pending"
    assert "command:default" in run["waits_for"]
