"""The examples of the pages on embedding work: files are written, commands run, calls of tables made."""

import asyncio
import doctest
import inspect
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hourbell import Scheduler
from tests.servers.ledger import Ledger
from tests.servers.process import WebServer

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "embedding.md", DOCS / "from-apscheduler.md"]
_BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass
class Program:
    """Files of a page, and the command below them that runs them."""

    page: str
    files: dict[str, str]
    command: str

    def write(self, folder: Path) -> None:
        for name, text in self.files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text.replace("*/10 * * * * *", "* * * * * *"))  # the tests should not wait

    def arguments(self, port: int) -> list[str]:
        program, *arguments = shlex.split(self.command)
        match program:
            case "uvicorn":
                return [program, *arguments, "--port", str(port)]
            case "gunicorn":
                return [program, *arguments, "-b", f"127.0.0.1:{port}"]
            case "python":
                return [arguments[0].removesuffix(".py")]
        return [program, *arguments, "--http-addr", f"127.0.0.1:{port}"]


def programs() -> Iterator[Program]:
    for page in PAGES:
        files: dict[str, str] = {}
        for language, text in _BLOCK.findall(page.read_text()):
            if language == "python":
                name = re.match(r"# ([\w/]+\.py)\n", text)
                assert name is not None, text
                files[name[1]] = text
            else:
                yield Program(page.name, files, text.strip())
                files = {}


def calls() -> Iterator[str]:
    """Every call that a table shows."""
    for page in PAGES:
        for row in re.findall(r"^\|[^|]*\| (.*) \|$", page.read_text(), re.MULTILINE):
            yield from re.findall(r"`((?:@scheduler|scheduler|await scheduler)\.\w+\(.*?\))`", row)


def commands() -> Iterator[str]:
    for page in PAGES:
        yield from re.findall(r"`(hourbell [a-z]+[^`]*)`", page.read_text())


@pytest.mark.anyio
@pytest.mark.parametrize("program", list(programs()), ids=lambda program: f"{program.page}-{program.command}")
async def test_a_program_of_a_page_runs_its_jobs(program: Program, tmp_path: Path) -> None:
    program.write(tmp_path)
    with WebServer(tmp_path, program.arguments) as server:
        await _until_succeeded(server, tmp_path)

        assert "Traceback" not in server.log


@pytest.mark.full
@pytest.mark.anyio
async def test_times_missed_by_four_workers_run_one_after_another_oldest_first(tmp_path: Path) -> None:
    [program] = [each for each in programs() if "send_digest" in "".join(each.files.values())]
    program.write(tmp_path)
    with WebServer(tmp_path, program.arguments) as server:
        await _until_succeeded(server, tmp_path)
        assert server.stop() == 0
    ledger = Ledger(tmp_path)
    [[stopped_at]] = await ledger.rows("select max(finished_at) from hourbell.runs")
    # What waits would run before what is older is planned.
    await ledger.rows("delete from hourbell.runs where state = 'pending'")
    await ledger.rows("update hourbell.jobs set cursor_at = cursor_at - 60000000, plan_at = cursor_at")  # a minute ago
    with WebServer(tmp_path, program.arguments) as server:
        await _until_succeeded(server, tmp_path, count=60)

    ended = f"state = 'succeeded' and started_at > {stopped_at}"
    times = await ledger.rows(f"select started_at, finished_at from hourbell.runs where {ended} order by scheduled_at")
    assert len(times) > 50
    assert [pair for pair in pairwise(times) if pair[0][1] > pair[1][0]] == []


async def _until_succeeded(server: WebServer, folder: Path, count: int = 1) -> None:
    for _ in range(300):
        if (folder / "hourbell.db").exists() and await _succeeded(folder) >= count:
            return
        assert server.is_running, server.log
        await asyncio.sleep(0.1)
    raise AssertionError(server.log)


async def _succeeded(folder: Path) -> int:
    """Count the runs, once their table exists."""
    there = await Ledger(folder).rows("select 1 from sqlite_master where name = 'hourbell_runs'")
    return len(there and await Ledger(folder).rows("select id from hourbell.runs where state = 'succeeded'"))


@pytest.mark.anyio
async def test_every_call_of_a_table_can_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    scheduler = Scheduler("tables")
    when = datetime.now(UTC) + timedelta(hours=1)
    known: dict[str, Any] = {"scheduler": scheduler, "f": _task, "when": when, "later": when + timedelta(days=1)}
    made = list(calls())
    defining = [call for call in made if re.match(r"(@scheduler\.job|scheduler\.register)", call)]
    scheduler.task(_task)

    for number, call in enumerate(dict.fromkeys(defining)):
        options = "" if "name=" in call or "register" in call else f", name='job-{number}'"
        result = eval(f"{call.lstrip('@')[:-1]}{options})", known)
        if call.startswith("@"):
            result(_isolated if "isolate=True" in call else _task)
    async with scheduler:
        for call in made:
            if call not in defining and "run()" not in call and "start()" not in call and "stop()" not in call:
                result = eval(call.removeprefix("await "), known)
                answer = await result if inspect.isawaitable(result) else result
                assert (answer is None) == (".delete(" in call)

    assert len(made) > 30
    assert {"scheduler.run()", "scheduler.start()", "scheduler.stop()"} <= set(made)


def _task(run: object, days: int = 1) -> None: ...


def _isolated(run: object) -> None: ...


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_every_command_of_a_page_is_there(command: str) -> None:
    words = [word for word in command.split()[1:] if word.isalpha()][:2]
    if words[0] == "serve":
        words = words[:1]

    done = subprocess.run(
        [sys.executable, "-m", "hourbell", *words, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [word for word in command.split() if word.startswith("--") and word not in done.stdout] == []


def test_the_examples_that_need_a_database_are_true(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "python.md").read_text()
    examples = "\n".join(re.findall(r"^```(?:python|pycon)\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    test = doctest.DocTestParser().get_doctest(examples, {"__name__": "example"}, "python.md", "python.md", 0)
    complaints: list[str] = []
    doctest.DocTestRunner().run(test, out=complaints.append)

    assert not complaints, "\n".join(complaints)
    assert (tmp_path / "hourbell.db").exists()


def test_the_page_names_every_option_of_a_job() -> None:
    from hourbell.library.declaring import JobOptions

    table = (DOCS / "python.md").read_text().partition("## Options of a job")[2].partition("##")[0]
    named = set(re.findall(r"`(\w+)`", " ".join(line.split("|")[1] for line in table.splitlines() if "|" in line)))

    assert named == {*JobOptions.__annotations__, "schedule", "name", "isolate"}
