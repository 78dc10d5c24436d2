"""Every worker of a web server embeds the same scheduler, and each instant is run once: some seconds of each server."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.commands import KINDS
from tests.servers.ledger import Ledger
from tests.servers.process import kill
from tests.servers.programs import write_django

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("kind", "ledger"),
    [
        ("fastapi-gunicorn", "sqlite"),
        pytest.param("fastapi-uvicorn", "postgres", marks=pytest.mark.full),
        pytest.param("flask", "postgres", marks=pytest.mark.full),
        pytest.param("flask-preload", "sqlite", marks=pytest.mark.full),
        pytest.param("django", "postgres", marks=pytest.mark.full),
    ],
    indirect=["ledger"],
)
async def test_four_workers_run_each_instant_once(tmp_path: Path, kind: str, ledger: Ledger) -> None:
    with KINDS[kind].start(tmp_path, ledger.url) as server:
        await ledger.wait_for(1)
        await ledger.wait_for_nodes(4)
        asked = {server.get("/trigger/once") for _ in range(4)}
        until = await ledger.planned_until()
        await ledger.wait_for(3, since=until)

        assert server.stop() == 0
        assert "Traceback" not in server.log
    assert [each.run for each in ledger.effects("asked")] == list(asked)
    await ledger.check(until)
    assert await ledger.rows("select id from hourbell.nodes") == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "ledger"), [("fastapi-gunicorn", "postgres"), ("flask", "sqlite")], indirect=["ledger"]
)
async def test_a_worker_that_is_killed_is_missed_by_nobody(tmp_path: Path, kind: str, ledger: Ledger) -> None:
    with KINDS[kind].start(tmp_path, ledger.url) as server:
        await ledger.wait_for(1)
        await ledger.wait_for_nodes(4)
        killed = server.workers()[0]
        kill(killed)
        await ledger.wait_for(3, since=await ledger.planned_until())
        await ledger.wait_for_nodes(5)  # the dead one stays on the list for a while

        assert killed not in server.workers()
        assert server.stop() == 0
    assert len(await ledger.runs()) - len({each.instant for each in ledger.effects()}) <= 1  # what it had just begun


@pytest.mark.full
@pytest.mark.parametrize("ledger", ["sqlite"], indirect=True)
async def test_manage_py_runs_the_scheduler_of_a_django_project(tmp_path: Path, ledger: Ledger) -> None:
    write_django(tmp_path)
    command = [sys.executable, "manage.py", "hourbell"]
    environment = {"HTTP_ADDR": "127.0.0.1:0", "HOURBELL_LOG_FORMAT": "json"}
    log = tmp_path / "log"
    with log.open("w") as err, subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=err) as it:
        try:
            await ledger.wait_for(1)
            until = await ledger.planned_until()
            await ledger.wait_for(2, since=until)
        finally:
            it.send_signal(signal.SIGINT)
        code = await asyncio.to_thread(it.wait, 20)

    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert (code, events[-1]) == (0, "stopped")
    await ledger.check(until)
    results = await ledger.rows("select distinct result from hourbell.runs where result is not null")
    assert results == [("1",)]  # a job of an app, found by its name, with Django's database
