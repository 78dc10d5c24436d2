"""Completion as the shells ask for it, against a real node."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.live import Live

HOURBELL = Path(sys.executable).with_name("hourbell")


def completed(node: Live, shell: str, *words: str, **environment: str) -> list[str]:
    """Return the completions of the last word."""
    asked = {"COMP_WORDS": " ".join(["hourbell", *words]), "COMP_CWORD": str(len(words))}
    if shell == "fish":
        asked["COMP_CWORD"] = words[-1]
    done = subprocess.run(
        [HOURBELL],
        env={"PATH": os.environ["PATH"], "HOURBELL_URL": node.url, "_HOURBELL_COMPLETE": f"{shell}_complete"}
        | asked
        | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.strip().splitlines()


@pytest.mark.parametrize(
    ("shell", "offered"),
    [
        ("bash", ["plain,nightly-mail", "plain,nightly-report"]),
        ("zsh", ["plain", "nightly-mail", "At 00:00 on 1 January", "plain", "nightly-report", "At 00:00 on 1 January"]),
        ("fish", ["plain,nightly-mail\tAt 00:00 on 1 January", "plain,nightly-report\tAt 00:00 on 1 January"]),
    ],
)
def test_names_of_jobs_are_completed(node: Live, shell: str, offered: list[str]) -> None:
    for name in ("nightly-report", "nightly-mail", "other"):
        if node.run("job", "get", name).exit_code:
            node.create(name)
    found = completed(node, shell, "job", "trigger", "nigh")

    assert [line.split("At")[0].strip() for line in found] == [line.split("At")[0].strip() for line in offered]
    assert len(found) == len(offered)


def test_run_ids_are_completed_with_a_description(node: Live) -> None:
    node.create("completed")
    run = node.ok("job", "trigger", "completed", "-q").strip()
    node.run("run", "watch", run)

    assert completed(node, "bash", "run", "get", run[:30]) == [f"plain,{run}"]
    assert completed(node, "zsh", "run", "get", run[:30]) == ["plain", run, "completed, succeeded"]


def test_completion_uses_the_server_option(node: Live) -> None:
    node.create("elsewhere")

    words = ("job", "get", "--server", node.url, "elsew")
    assert completed(node, "bash", *words, HOURBELL_URL="http://127.0.0.1:1") == ["plain,elsewhere"]


def test_an_unreachable_server_completes_nothing_silently(node: Live) -> None:
    assert completed(node, "bash", "job", "get", "x", HOURBELL_URL="http://127.0.0.1:1") == []


def test_commands_and_zones_are_completed(node: Live) -> None:
    assert completed(node, "bash", "job", "rot") == ["plain,rotate-secret"]
    assert completed(node, "bash", "run", "list", "-z", "europe/par") == ["plain,Europe/Paris"]
