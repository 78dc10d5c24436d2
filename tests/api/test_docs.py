"""The examples of docs/api.md work: every command in order, against a real server and a real receiver."""

import base64
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.shown import Step, is_as_shown, steps_of
from tests.database import PostgresDatabase
from tests.examples.processes import free_port, until
from tests.faults.process import Server

README = Path(__file__).parents[2] / "README.md"
DOCS = README.with_name("docs")
PAGE = DOCS / "api.md"
PATIENCE = 15.0  # seconds for what the page shows to come true
RESPONSE_FIELD = re.compile(r"([A-Z]+)=\S+ +# the (\w+) of the answer above")
ASSIGNED = re.compile(r"([A-Z]+)=(.+)")
ALLOWED = "public.run_daily_cleanup(integer)"


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[int]:
    """The port of the receiver that the page starts."""
    port = free_port()
    folder = tmp_path / "receiver"
    folder.mkdir()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        until(lambda: _answers(port), PATIENCE)
        yield port
    finally:
        process.kill()
        process.wait()


class Reader:
    """A user who types the page's commands, in a folder beside the server's database."""

    def __init__(self, folder: Path, server: Server, receiver: int, **settings: str) -> None:
        self._folder = folder
        self._paths = {
            "http://127.0.0.1:8080": server.url,
            "http://127.0.0.1:9000": f"http://127.0.0.1:{receiver}",
            ".venv/bin/hourbell": f"{sys.executable} -m hourbell",
        }
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **settings}
        self._answer = ""

    def follow(self, step: Step) -> None:
        """Run the commands; AssertionError if the result differs from the page."""
        if reported := RESPONSE_FIELD.fullmatch(step.command):
            self._environment[reported[1]] = str(json.loads(self._answer)[reported[2]])
        elif assigned := ASSIGNED.fullmatch(step.command):
            self._environment[assigned[1]] = self._run(f'printf %s "{assigned[2]}"')
        elif step.command.startswith("curl "):
            self._call(step)
        else:
            self._run(step.command)

    def _call(self, step: Step) -> None:
        assert step.shown, f"the page does not say what is answered to {step.command}"
        end = time.monotonic() + PATIENCE
        while True:
            output = self._run(step.command.replace("curl ", "curl -q -sS -w '\\n%{http_code}' ", 1))
            self._answer, _, status = output.rpartition("\n")
            if int(status) == step.status and is_as_shown(self._answer, step.answer):
                return
            only_reads = not re.search(r" (-X|--json|--data\S*) ", step.command)
            assert only_reads, f"{step.command}\n{output}"
            assert time.monotonic() < end, f"{step.command}\n{output}"
            time.sleep(0.1)

    def _run(self, command: str) -> str:
        for shown, real in self._paths.items():
            command = command.replace(shown, real)
        is_endless = " -N " in command
        if is_endless:
            command = command.replace(" -N ", " -N --max-time 2 ")
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0 or (is_endless and done.returncode == 28), f"{command}\n{done.stderr}"
        return done.stdout


def test_every_command_of_the_page_prints_what_it_shows_on_sqlite(tmp_path: Path, receiver: int) -> None:
    with Server(tmp_path) as server:
        reader = Reader(tmp_path, server.wait_until_serving(), receiver)
        for step in steps_of(PAGE):
            reader.follow(step)


def test_the_commands_of_the_readme_print_what_it_shows(tmp_path: Path, receiver: int) -> None:
    with Server(tmp_path) as server:
        reader = Reader(tmp_path, server.wait_until_serving(), receiver)
        for step in steps_of(README):
            reader.follow(step)


@pytest.mark.full
@pytest.mark.anyio
async def test_every_command_of_the_page_prints_what_it_shows_on_postgresql(
    tmp_path: Path, receiver: int, postgres: PostgresDatabase
) -> None:
    [function] = re.findall(r"```sql\n(create table .*?)insert into", (DOCS / "functions.md").read_text(), re.DOTALL)
    await postgres.connection.execute(function)
    settings = {"DATABASE_URL": postgres.url, "HOURBELL_SECRET_KEY": base64.b64encode(b"k" * 32).decode()}
    with Server(tmp_path, **settings, HOURBELL_ALLOW_FUNCTIONS=ALLOWED) as server:
        reader = Reader(tmp_path, server.wait_until_serving(), receiver, **settings)
        for step in steps_of(PAGE, "postgresql"):
            reader.follow(step)


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ('{"a": 1}', ['{"a": 2}']),
        ('{"a": 1, "b": 2}', ['{"a": 1}']),
        ('{"a": 1}', ['{"a": 1, "b": …, …}']),
        ('{"a": [1, 2]}', ['{"a": [1]}']),
        ('{"a": []}', ['{"a": [1, …]}']),
        ('{"a": "tea"}', ['{"a": "c…"}']),
        ('{"a": true}', ['{"a": 1}']),
        ("a line", ["another"]),
        ("one\ntwo\n", ["two", "one"]),
        ("something", []),
    ],
)
def test_a_wrong_example_answer_is_detected(answer: str, shown: list[str]) -> None:
    assert not is_as_shown(answer, shown)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
