"""The examples of docs/cli.md work on a real node."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.api.shown import Step, is_as_shown, steps_of
from tests.cli.live import Live, live, on_terminal

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
PATIENCE = 15.0  # seconds for what the page shows to come true
EXIT_CODE = re.compile(r"exit code (\d+)")


@pytest.mark.full
def test_every_command_of_the_page_prints_what_it_shows(tmp_path: Path) -> None:
    with live(tmp_path) as node:
        for step in steps_of(PAGE):
            follow(step, node)


@pytest.mark.sweep  # a minute and more, for processes that start one after another
def test_every_command_of_the_page_exits_as_shown_on_a_terminal_too(tmp_path: Path) -> None:
    with live(tmp_path) as node:
        for step in steps_of(PAGE):
            if not any("nobody can confirm" in line for line in step.shown):
                status, screen = on_terminal(["sh", "-c", command_of(step, node)], "y\n", environment_of(node))
                assert status == exit_code_of(step), f"{step.command}\n{screen}"


def command_of(step: Step, node: Live) -> str:
    return step.command.replace("http://127.0.0.1:8080", node.url).replace("http://127.0.0.1:9000/", node.receiver)


def environment_of(node: Live) -> dict[str, str]:
    return {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOURBELL_URL": node.url}


def exit_code_of(step: Step) -> int:
    return next((int(found[1]) for line in step.shown if (found := EXIT_CODE.fullmatch(line))), 0)


def follow(step: Step, node: Live) -> None:
    """Run the command; repeat one that only reads until it prints what the page shows."""
    command = command_of(step, node)
    lines = [_narrow(line) for line in step.shown if not EXIT_CODE.fullmatch(line)]
    end = time.monotonic() + PATIENCE
    while True:
        done = subprocess.run(
            ["sh", "-c", command],
            env=environment_of(node),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        printed = done.stdout if lines and lines[0].startswith("{") else done.stderr + done.stdout
        is_so = done.returncode == exit_code_of(step) and is_as_shown(_narrow(printed), lines)
        if is_so or " list " not in command or time.monotonic() > end:
            break
    assert is_so, f"{command}\n{done.returncode}\n{done.stderr}{done.stdout}"


def _narrow(text: str) -> str:
    """Remove the alignment of columns, whose widths vary, and the margins."""
    return re.sub("(?m)^ +", "", re.sub(" +", " ", text))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_completion_for_each_shell(shell: str) -> None:
    environment = {"PATH": os.environ["PATH"], "_HOURBELL_COMPLETE": f"{shell}_source"}
    hourbell = Path(sys.executable).with_name("hourbell")
    done = subprocess.run([hourbell], env=environment, capture_output=True, text=True, check=False)
    printed = subprocess.run([hourbell, "completion", shell], capture_output=True, text=True, check=False)

    assert (done.returncode, "_HOURBELL_COMPLETE" in done.stdout) == (0, True), done.stderr
    assert (printed.returncode, printed.stdout) == (0, done.stdout)
