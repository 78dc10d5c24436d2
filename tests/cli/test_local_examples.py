"""Every example of the commands that need no server does what it says in a shell: `access`, `audit verify`, `db`,
`doctor`, `secret` and `token`, piped and on a terminal."""

import base64
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from hourbell.cli.local.audit_verify import verify
from hourbell.cli.main import COMMANDS
from tests.cli.live import on_terminal

GROUPS = ("access", "db", "doctor", "secret", "token")  # access is opened before there are tokens
OLD, NEW = (base64.b64encode(letter * 32).decode() for letter in (b"o", b"n"))
ANY_TOKEN = "018f3c1e-7a52-7cc1-8d5b-0c6b1d2f9a10"
STANDS_FOR = {"less": "cat", "jq": "cat #"}  # what a machine may lack
ADD_JOB = """import apsw
apsw.Connection("hourbell.db").execute('''insert into hourbell_jobs (name, schedule, target)
values ('daily-report', '@daily', '{"type": "http", "url": "https://example.com/"}')''')"""

Way = Callable[[str, dict[str, str]], tuple[int, str]]


def piped(command: str, environment: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 2 and "add --yes" in done.stderr:
        return piped(f"{command} --yes", environment)
    return done.returncode, done.stdout + done.stderr


def on_a_terminal(command: str, environment: dict[str, str]) -> tuple[int, str]:
    return on_terminal(["sh", "-c", command], "y\n", environment)


def examples() -> Iterator[str]:
    """Return each example once, in the order of the help."""
    found: dict[str, None] = {}
    for name in GROUPS:
        command: click.Command = import_module(COMMANDS[name].module).command
        inner = command.commands.values() if isinstance(command, click.Group) else ()
        for each in (command, *inner):
            lines = getattr(each, "examples", "").strip().splitlines()
            assert lines, each.name
            found |= dict.fromkeys(line.strip() for line in lines)
    for line in verify.examples.splitlines():  # type: ignore[attr-defined]
        if "--expect" not in line:  # no node has chained anything here; test_audit_verify_command.py has it
            found[line.strip()] = None
    yield from found


@pytest.mark.parametrize("way", [piped, pytest.param(on_a_terminal, marks=pytest.mark.full)])
def test_every_example_runs(way: Way, tmp_path: Path) -> None:
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DATABASE_URL": f"sqlite:///{tmp_path}/hourbell.db",
        "HOURBELL_SECRET_KEY": OLD,
        "TOKEN": "xyzzy",
    }
    (tmp_path / "whsec.txt").write_text("whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0")
    folder = f"cd {shlex.quote(str(tmp_path))} && "
    piped(f"{folder}hourbell db migrate && {shlex.join([sys.executable, '-c', ADD_JOB])}", environment)
    wrong = {}

    for example in sorted(examples(), key=lambda line: ("rotate-keys" in line, "remove" in line)):
        status, said = way(folder + prepared(example, folder, environment), environment)
        if status != 0 or "Traceback" in said:
            wrong[example] = status, said

    assert wrong == {}


def prepared(example: str, folder: str, environment: dict[str, str]) -> str:
    """Return the example with stand-ins for programs, databases and tokens."""
    for program, stand_in in STANDS_FOR.items():
        example = example.replace(f"| {program}", f"| {stand_in}")
    example = re.sub(r"--database-url \S+", f"--database-url {environment['DATABASE_URL']}", example)
    example = example.replace("$NEW", NEW).replace("$OLD", OLD)
    if ANY_TOKEN in example:
        _, made = piped(f"{folder}hourbell token create other --role viewer --json", environment)
        found = re.search(r'"id": "([^"]+)"', made)
        example = example.replace(ANY_TOKEN, found[1] if found else ANY_TOKEN)
    elif "secret create" in example:
        piped(f"{folder}hourbell secret remove daily-report signing", environment)
    return example
