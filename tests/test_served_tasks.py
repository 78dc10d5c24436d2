"""Tasks of a real node, as the API and the command line show them: log, progress, results, and how they are stopped."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest

from hourbell.client import Client, Run
from tests.faults.process import Server

T = TypeVar("T")
_PATIENCE = 30.0  # seconds, on a busy machine

APP = """
import asyncio, os, time
from pathlib import Path
from hourbell import Scheduler

scheduler = Scheduler()
NEVER = "0 0 29 2 *"

@scheduler.job(NEVER, retry="none")
async def talk(run):
    run.log("begun")
    for done in range(1, 5):
        run.progress(done / 4, f"{done} of 4")
    while not Path("go").exists():
        await asyncio.sleep(0.02)
    run.log("went on")
    return {"said": run.payload}

@scheduler.job(NEVER, retry="none", isolate=True)
def spin(run):
    Path("pid").write_text(str(os.getpid()))
    run.log("spinning")
    while True:
        pass

@scheduler.job(NEVER, retry="none", isolate=True)
def die(run):
    os._exit(5)

@scheduler.job(NEVER, retry="none", timeout="1s")
def overrun(run):
    while not run.is_cancelled:
        time.sleep(0.01)
    time.sleep(6)

@scheduler.job(NEVER, retry="none")
async def effect(run):
    async with run.transaction() as connection:
        await connection.execute("create table if not exists effects (run_id)")
        await connection.execute("insert into effects values ($1)", run.id)
        run.result = await connection.fetchval("select count(*) from effects")
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "app.py").write_text(APP)
    with Server(folder, "--app", "app:scheduler", HOURBELL_LEASE="4s") as started:
        yield started.wait_until_serving(), folder


@pytest.fixture
def client(server: tuple[Server, Path]) -> Iterator[Client]:
    with Client(server[0].url) as opened:
        yield opened


def until(poll: Callable[[], T | None]) -> T:
    end = time.monotonic() + _PATIENCE
    while not (found := poll()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def ended(client: Client, run_id: UUID) -> Run:
    return client.runs.wait(run_id, timeout=_PATIENCE)


def shown(server: Server, run_id: UUID) -> str:
    """Return the command line's view of a run."""
    command = [sys.executable, "-m", "hourbell", "run", "get", str(run_id)]
    return subprocess.run(
        command, env={**os.environ, "HOURBELL_URL": server.url}, capture_output=True, text=True, check=True
    ).stdout


def test_the_notes_of_a_task_are_shown_while_it_runs_and_kept_afterwards(
    client: Client, server: tuple[Server, Path]
) -> None:
    run_id = client.jobs.trigger("talk", payload={"days": 3}).run_id

    running = until(lambda: run if (run := client.runs.get(run_id)).log and run.progress else None)
    assert running.progress is not None
    assert (running.progress.fraction, running.progress.message) == (1.0, "4 of 4")
    assert [line.text for line in running.log] == ["begun"]
    assert re.search(r"^progress: +100 %, 4 of 4$", shown(server[0], run_id), re.MULTILINE)
    (server[1] / "go").touch()
    run = ended(client, run_id)
    assert (run.state, run.progress, run.result) == ("succeeded", None, {"said": {"days": 3}})
    assert [line.text for line in run.attempts[0].log] == ["begun", "went on"]
    assert "went on" in shown(server[0], run_id)


@pytest.mark.full
def test_a_cancelled_run_ends_its_process(client: Client, server: tuple[Server, Path]) -> None:
    run_id = client.jobs.trigger("spin").run_id
    pid = int(until(lambda: (server[1] / "pid").exists() and (server[1] / "pid").read_text()) or 0)
    client.runs.cancel(run_id)

    run = ended(client, run_id)
    assert (run.state, [line.text for line in run.attempts[0].log]) == ("cancelled", ["spinning"])
    assert not Path(f"/proc/{pid}").exists()


def test_a_process_that_dies_harms_nobody(client: Client) -> None:
    run = ended(client, client.jobs.trigger("die").run_id)

    assert (run.state, run.attempts[0].error) == ("failed", "the process ended with exit code 5")
    assert ended(client, client.jobs.trigger("effect").run_id).state == "succeeded"


@pytest.mark.full
def test_a_function_that_overruns_its_timeout_is_reported(client: Client, server: tuple[Server, Path]) -> None:
    run = ended(client, client.jobs.trigger("overrun").run_id)

    assert (run.state, run.attempts[0].error) == ("failed", "timed out after 1s")
    assert "cannot be stopped" in run.attempts[0].log[0].text
    assert server[0].wait_for("task_overruns")["hint"] == "isolate=True ends it"


def test_a_transaction_settles_its_run_with_what_it_did(client: Client) -> None:
    first, second = (ended(client, client.jobs.trigger("effect").run_id) for _ in range(2))

    assert (first.state, second.state) == ("succeeded", "succeeded")
    assert second.result == first.result + 1
