"""`hourbell run` and `hourbell top` against a real node, as scripts and people use them."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cli.live import PATIENCE, Live
from tests.examples.processes import until


def test_dead_letters_are_listed_shown_and_replayed(node: Live) -> None:
    node.create("dead", method="POST")
    run = node.failed_run("dead")

    listed = node.json("run", "list", "--state", "failed", "--job", "dead", "--since", "1h")
    assert [each["id"] for each in listed["items"]] == [run]
    assert run in node.ok("run", "failed", "-q").split()
    assert node.json("run", "failed", "--job", "dead", "--since", "1h", "--until", "now") == listed
    assert "there is no such run" in node.run("run", "failed", "--job", "dead", "--until", "2026-01-01").stderr
    shown = node.ok("run", "get", run)
    assert re.search(r"^attempt 1: +failed\nstatus: +501\nerror: +HTTP 501", shown, re.MULTILINE)
    assert "  | <h1>Error response</h1>" in shown
    node.ok("job", "edit", "dead", "--method", "GET")
    again = node.ok("run", "replay", run).strip()
    assert node.run("run", "watch", again).exit_code == 0
    assert node.json("run", "get", again)["replay_of"] == run
    assert run not in node.ok("run", "failed", "-q").split()


def test_a_list_of_runs_names_its_zone(node: Live) -> None:
    node.create("zoned")
    node.ok("job", "trigger", "zoned", "--wait")
    head, row = node.ok("run", "list", "--job", "zoned", "--timezone", "Asia/Kolkata").splitlines()

    assert "SCHEDULED (Asia/Kolkata)" in head
    assert "+05:30" in row
    assert "there is no such run" in node.run("run", "list", "--job", "zoned", "--until", "2026-01-01").stderr


def test_actions_on_matching_runs_count_first_and_need_yes_without_a_terminal(node: Live) -> None:
    node.create("many", method="POST")
    for _ in range(2):
        node.failed_run("many")

    asked = node.run("run", "replay", "--job", "many")
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert asked.stderr.startswith("2 runs to replay\n")
    assert len(node.ok("run", "replay", "--job", "many", "--state", "failed", "--since", "1h", "--yes").split()) == 2
    until(lambda: len(node.ok("run", "list", "--job", "many", "--state", "failed", "-q").split()) == 4)
    assert node.json("run", "discard", "--job", "many", "--yes")["matched"] == 2
    assert "there is no run to discard" in node.run("run", "discard", "--job", "many", "--yes").stderr


def test_a_waiting_run_is_cancelled_once(node: Live) -> None:
    node.create("waits", method="POST")
    node.ok("job", "edit", "waits", "--retry", "default")
    run = node.ok("job", "trigger", "waits", "-q").strip()
    until(lambda: node.json("run", "get", run)["state"] == "retrying")

    assert node.ok("run", "cancel", run) == f"{run}\n"
    assert node.run("run", "cancel", run).exit_code == 5
    assert node.run("run", "watch", run).exit_code == 7


def test_acting_on_all_runs_needs_the_all_option(node: Live) -> None:
    node.create("failing", method="POST")
    run = node.failed_run("failing")

    assert run in node.ok("run", "discard", "--all", "--yes").split()
    assert "there is no run to discard" in node.run("run", "discard", "--all", "--job", "failing", "--yes").stderr


def test_a_refused_run_does_not_stop_the_others(node: Live) -> None:
    node.create("other", method="POST")
    run, missing = node.failed_run("other"), str(uuid4())
    done = node.run("run", "discard", missing, run)

    assert (done.exit_code, done.stdout) == (3, f"{run}\n")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["get", "x"], 2, "'x' is not the id of a run; write it, or its first or last 6"),
        (["get", "5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e"], 3, "There is no run 5b0c"),
        (["get", "5b0c7a"], 3, "none of the newest 1,000 runs begins or ends with 5b0c7a"),
        (["get", "5b0c7-"], 2, "is not the id of a run"),
        (["replay"], 2, "Name runs by their ids, or choose them by --state, --job, --since or --all."),
        (["replay", "5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e", "--all"], 2, "Name runs by their ids"),
        (["list", "--since", "soon"], 2, "'soon' is not a time"),
        (["list", "--state", "dead"], 2, "'dead' is not one of"),
        (["list", "--job", "nobody"], 3, "There is no job 'nobody'"),
        (["watch", "5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e", "--timeout", "0"], 2, "write 90s, 15m, 2h30m or 1d"),
    ],
)
def test_failures_are_reported_with_their_exit_codes(
    node: Live, arguments: list[str], exit_code: int, message: str
) -> None:
    done = node.run("run", *arguments)

    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert message in done.stderr


def test_watching_streams_json_when_piped_and_redraws_on_a_terminal(node: Live) -> None:
    node.create("watched")
    run = node.ok("job", "trigger", "watched", "-q").strip()

    lines = node.ok("run", "watch", run).splitlines()
    assert json.loads(lines[-1])["state"] == "succeeded"
    status, screen = node.terminal("run", "watch", run)
    assert status == 0
    assert re.search(r"state: +succeeded", screen)


def test_watching_redraws_in_place(node: Live) -> None:
    node.create("redrawn", method="POST")
    node.ok("job", "edit", "redrawn", "--retry", '{"attempts": 2, "backoff": [6]}')  # time for the watch to start
    run = node.ok("job", "trigger", "redrawn", "-q").strip()
    until(lambda: node.json("run", "get", run)["state"] == "retrying")
    status, screen = node.terminal("run", "watch", run)

    assert status == 7
    assert re.search(r"state: +retrying.*\x1b\[\d+F\x1b\[J.*state: +failed", screen, re.DOTALL)


def test_watching_ends_after_a_time_or_when_interrupted(node: Live) -> None:
    node.create("endless", method="POST")
    node.ok("job", "edit", "endless", "--retry", "default")
    run = node.ok("job", "trigger", "endless", "-q").strip()

    late = node.run("run", "watch", run, "--timeout", "1s")
    assert (late.exit_code, "has not ended" in late.stderr) == (8, True)
    watching = subprocess.Popen(
        [sys.executable, "-m", "hourbell", "run", "watch", run],
        env={"PATH": os.environ["PATH"], "HOURBELL_URL": node.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, said = watching.communicate(timeout=PATIENCE)
    assert (watching.returncode, said.split()[:2], said.split()[-1]) == (130, ["run", run], "interrupted")
    assert f"\nrun {run} continues; hourbell run watch {run}\n" in said


def test_waiting_reports_progress_on_stderr(node: Live) -> None:
    node.create("stories", method="POST")
    node.ok("job", "edit", "stories", "--retry", '{"attempts": 2, "backoff": [1]}')
    done = node.run("job", "trigger", "stories", "--wait", "--json", "-z", "Asia/Tokyo")
    run = json.loads(done.stdout)["id"]
    again = node.run("run", "watch", run[:13])

    assert done.exit_code == 7
    lines = done.stderr.splitlines()
    assert lines[0] == f"run {run}"
    first = r"attempt 1 failed: HTTP 501 Not Implemented; tried again at (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d Asia/Tokyo"
    assert any(re.fullmatch(first, line) for line in lines)
    assert lines[-2:] == ["attempt 2 failed: HTTP 501 Not Implemented", "failed"]
    assert again.stderr.splitlines()[0] == f"run {run}"
    assert json.loads(again.stdout)["state"] == "failed"


def test_a_task_that_no_node_has_is_reported_at_once(node: Live) -> None:
    node.ok("job", "create", "unserved", "-s", "@yearly", "--task", "nobody_has_it")
    done = node.run("job", "trigger", "unserved")
    late = node.run("job", "trigger", "unserved", "--wait", "--timeout", "1s")

    assert (done.exit_code, "note: unserved: no node has the task nobody_has_it" in done.stderr) == (0, True)
    assert (late.exit_code, "pending: no node has the task nobody_has_it" in late.stderr) == (8, True)


def test_a_retried_attempt_without_a_failure_is_reported_as_such(node: Live) -> None:
    node.create("hopeful", method="POST")
    node.ok("job", "edit", "hopeful", "--retry", "default")
    run = node.ok("job", "trigger", "hopeful", "-q").strip()
    until(lambda: node.json("run", "get", run)["state"] == "retrying")
    nothing = node.run("run", "list", "--state", "failed", "--job", "hopeful")
    listed = node.ok("run", "list", "--state", "retrying", "--job", "hopeful")

    assert "1 is waiting for a retry: hourbell run list --state retrying --job hopeful" in nothing.stderr
    assert re.search(r"its next attempt, 20\d\d-.*Z$", listed.splitlines()[1])


def test_a_unique_prefix_of_a_run_id_is_enough(node: Live) -> None:
    node.create("short", method="POST")
    run = node.failed_run("short")

    assert node.json("run", "get", run[:18])["id"] == run  # they begin with the time
    assert node.ok("run", "discard", run[:18].upper()) == f"{run}\n"


def test_top_streams_snapshots_when_piped_and_redraws_on_a_terminal(node: Live) -> None:
    node.create("topmost", method="POST")
    run = node.failed_run("topmost")

    first, second = map(json.loads, node.ok("top", "-n", "2", "--interval", "1s").splitlines())
    assert first["at"] < second["at"]
    assert run in {each["id"] for each in first["failed"]}
    assert (len(first["nodes"]), first["overview"]["dead_letters"] > 0) == (1, True)
    status, screen = node.terminal("top", "-n", "2", "--interval", "1s")
    assert status == 0
    assert re.search(r"needs attention\r\nPROBLEM .*topmost .*\x1b\[\d+F\x1b\[J", screen, re.DOTALL)


def test_a_token_is_read_from_a_file_and_a_wrong_one_is_reported(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from hourbell.cli.main import hourbell
    from tests.cli.live import live

    with live(tmp_path) as node:
        made = CliRunner().invoke(
            hourbell,
            ["token", "create", "looker", "--role", "viewer", "--database-url", f"sqlite:///{tmp_path}/hourbell.db"],
        )
        (tmp_path / "token").write_text(made.stdout)

        until(lambda: node.run("job", "list").exit_code == 4)
        assert "HOURBELL_TOKEN or --token-file" in node.run("job", "list").stderr
        assert node.ok("job", "list", "-q", "--token-file", str(tmp_path / "token")) == ""
        assert node.run("job", "list", HOURBELL_TOKEN=made.stdout.strip()).exit_code == 0
        refused = node.run("run", "replay", "--all", "--yes", "--token-file", str(tmp_path / "token"))
        assert (refused.exit_code, "needs the role operator" in refused.stderr) == (4, True)
