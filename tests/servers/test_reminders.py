"""Users choose their own schedules in requests to four gunicorn workers: the programs of pages, and one for Flask."""

import asyncio
import json
import re
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from tests.servers.ledger import Ledger
from tests.servers.process import WebServer, kill

pytestmark = [pytest.mark.anyio, pytest.mark.full]
ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```py(?:thon)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FASTAPI = ("gunicorn", "-w", "4", "-k", "uvicorn.workers.UvicornWorker")
_FLASK_PROGRAM = """
import os
from flask import Flask, jsonify, request
from hourbell import Scheduler
from hourbell.flask import Hourbell

scheduler = Scheduler("shop")
app = Flask(__name__)
Hourbell(app, scheduler)


@scheduler.task(name="remind")
def remind(run, user):
    print(f"time for a break, user {user}", flush=True)


@app.put("/reminders/<int:user>")
def choose(user):
    schedule, timezone = request.args["schedule"], request.args.get("timezone", "UTC")
    job = scheduler.blocking.create(
        f"remind-{user}", schedule, remind, timezone=timezone, args={"user": user}, on_conflict="update"
    )
    return jsonify(next_at=job.next_at and job.next_at.isoformat())


@app.delete("/reminders/<int:user>")
def forget(user):
    scheduler.blocking.delete(f"remind-{user}")
    return "", 204
"""


def program_of(page: str) -> str:
    """The program of a page whose users choose their own schedules."""
    [found] = [block for block in _BLOCK.findall((ROOT / page).read_text()) if '@app.put("/reminders/' in block]
    return str(found)


def call(server: WebServer, method: str, path: str, **query: str) -> httpx.Response:
    """Ask one of the workers; again if it is killed meanwhile."""
    for _ in range(100):
        try:
            url = f"http://127.0.0.1:{server.port}{path}?{urlencode(query)}"
            return httpx.request(method, url, timeout=20, trust_env=False)
        except httpx.TransportError:
            assert server.is_running, server.log
    raise AssertionError(server.log)


async def runs_of(ledger: Ledger, user: int) -> int:
    query = "select count(*) from hourbell.runs r join hourbell.jobs j on j.id = r.job_id"
    [[count]] = await ledger.rows(f"{query} where j.name = 'remind-{user}' and r.state = 'succeeded'")
    return int(count)


async def until(ledger: Ledger, user: int, count: int, server: WebServer) -> None:
    for _ in range(800):
        if await runs_of(ledger, user) >= count:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(server.log[-8_000:])


@pytest.mark.parametrize("ledger", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("program", ["README.md", "docs/python.md", "flask"])
async def test_a_request_creates_changes_and_deletes_the_reminder_of_a_user(
    tmp_path: Path, ledger: Ledger, program: str
) -> None:
    text = _FLASK_PROGRAM if program == "flask" else program_of(program)
    (tmp_path / "web.py").write_text(text)
    command = _FASTAPI if program != "flask" else _FASTAPI[:3]
    environment = {} if ledger.url is None else {"DATABASE_URL": ledger.url}
    with WebServer(tmp_path, lambda port: [*command, "-b", f"127.0.0.1:{port}", "web:app"], **environment) as server:
        server_is_up = call(server, "PUT", "/reminders/1", schedule="0 9 * * *", timezone="Europe/Paris")
        assert server_is_up.status_code == 200, server.log
        await ledger.wait_for_nodes(4)
        for user in range(2, 10):  # at once, so that every worker gets some
            asked = [asyncio.to_thread(call, server, "PUT", f"/reminders/{user}", schedule="@yearly") for _ in range(4)]
            assert {each.status_code for each in await asyncio.gather(*asked)} == {200}
        rows = await ledger.rows("select name, version, managed_by, source from hourbell.jobs order by name")
        assert [tuple(row) for row in rows] == [(f"remind-{user}", 1, "app", "shop") for user in range(1, 10)]

        assert json.loads(call(server, "PUT", "/reminders/1", schedule="* * * * * *").text)["next_at"] is not None
        await until(ledger, 1, 2, server)
        for worker in server.workers()[:2]:
            kill(worker)
        await until(ledger, 1, await runs_of(ledger, 1) + 3, server)
        assert call(server, "PUT", "/reminders/2", schedule="* * * * * *").status_code == 200
        await until(ledger, 2, 2, server)
        if program != "README.md":
            assert call(server, "DELETE", "/reminders/1").status_code == 204
            await ledger.rows("select 1")
            [[left]] = await ledger.rows("select count(*) from hourbell.runs where state = 'pending'")
            assert left <= 1
            stopped = await runs_of(ledger, 1)
            await asyncio.sleep(2.5)
            assert await runs_of(ledger, 1) <= stopped + 1
        assert server.stop() == 0

    sent = re.findall(r"time for a break, user 2$", server.log, re.MULTILINE)
    assert len(sent) >= 2
    query = "select scheduled_at, count(*) from hourbell.runs group by job_id, scheduled_at having count(*) > 1"
    assert await ledger.rows(query) == []
