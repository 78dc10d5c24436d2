"""Every example of `apply`, `diff` and `export` does what it says in a shell, with its pipes, and on a terminal."""

import os
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from hourbell.cli.main import COMMANDS
from tests.cli.live import Live, on_terminal

FILE = """source = "billing"

[[job]]
name = "nightly-report"
schedule = "0 3 * * *"
target = { type = "task", name = "report" }
tags = ["reports"]
"""
DIFFERS = 1


def examples() -> Iterator[tuple[str, str]]:
    for name in ("apply", "diff", "export"):
        command: click.Command = import_module(COMMANDS[name].module).command
        with click.Context(command, info_name=name) as context:
            shown, _, _ = command.get_help(context).partition("\n\nUsage:")
        head, *lines = shown.splitlines()
        assert (head, bool(lines)) == ("Examples:", True)
        yield from ((name, line.strip()) for line in lines)


@pytest.mark.parametrize(("name", "example"), list(examples()))
def test_every_example_runs(node: Live, tmp_path: Path, name: str, example: str) -> None:
    (tmp_path / "jobs.toml").write_text(FILE)
    crontab = tmp_path / "crontab"
    crontab.write_text("#!/bin/sh\necho '0 3 * * * /usr/bin/backup'\n")
    crontab.chmod(0o755)
    path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["sh", "-c", f"cd {shlex.quote(str(tmp_path))} && {example}"]
    status, screen = on_terminal(command, "y\n", {"PATH": path, "HOURBELL_URL": node.url})

    assert f"hourbell {name}" in example
    assert status == 0 or (status, name) == (DIFFERS, "diff"), screen
    assert "error" not in screen
