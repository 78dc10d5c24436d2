"""An outage of two minutes with real processes: the log lines, the messages of a channel, and those of a watcher."""

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.examples.processes import free_port
from tests.faults.hooks import Delivered, Hooks
from tests.faults.process import Server

pytestmark = pytest.mark.full
RECOVERED = ("succeeded", "failed", "skipped")
FEW_SLOTS = "4"  # so that the backlog is still there when it is reported
OUTAGE, STARTING, PATIENCE = 120.0, 120.0, 120.0  # seconds; the last ones on a very busy machine
JOBS = 20
APP = f"""
import asyncio
from hourbell import Scheduler

scheduler = Scheduler("shop")

async def work(run):
    await asyncio.sleep(1)
    if run.scheduled_at.second == 20:
        raise RuntimeError("out of paper")

for number in range({JOBS}):
    policy = ("all", "latest", "none", "earliest")[number % 4]
    options = dict(catch_up=policy, late_after="10s", retry="none")
    scheduler.job("*/10 * * * * *", name=f"job-{{number:02}}", **options)(work)
"""


@contextmanager
def watching(url: str, receiver: str) -> Iterator[None]:
    """`hourbell watch` with its own settings."""
    command = [sys.executable, "-m", "hourbell", "watch", "--url", url, "--notify", receiver]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def put(server: Server, path: str, body: object) -> None:
    answer = httpx.put(f"{server.url}/api/v1/{path}", json=body, timeout=10, trust_env=False)
    assert answer.status_code in (200, 201), answer.text


def wait_for(hooks: Hooks, path: str, event: str, kind: str) -> Delivered:
    end = time.monotonic() + PATIENCE
    while True:
        for message in hooks.messages(path):
            if (message.type, message.incident["kind"]) == (f"incident.{event}", kind):
                return message
        assert time.monotonic() < end, (event, kind, [each.facts for each in hooks.messages(path)])
        time.sleep(0.2)


def metrics_of(server: Server) -> dict[str, float]:
    lines = [line for line in server.get("/metrics").text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def of_event(server: Server, name: str) -> list[dict[str, Any]]:
    return [event for event in server.events if event["event"] == name]


def test_an_outage_of_two_minutes_is_notified_logged_and_summed_up(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    address = f"127.0.0.1:{free_port()}"
    start = ("--app", "app:scheduler")
    with Hooks(tmp_path) as hooks, watching(f"http://{address}", hooks.url(path="/watch")):
        with Server(tmp_path, *start, name="before", HTTP_ADDR=address) as before:
            before.wait_for("serving", STARTING)
            put(before, "channels/ops", {"type": "webhook", "url": hooks.url(path="/ops")})
            put(before, "alert-policies/default", {"on": ["late", "missed"]})
            time.sleep(15)
            before.signal(signal.SIGKILL)
            before.wait(10)
        went_at = time.monotonic()
        outside = wait_for(hooks, "/watch", "opened", "scheduler_silent")
        assert outside.incident["error"].endswith("could not connect") or "refused" in outside.incident["error"]
        assert time.monotonic() - went_at <= OUTAGE
        time.sleep(max(0.0, OUTAGE - (time.monotonic() - went_at)))
        with Server(tmp_path, *start, name="after", HTTP_ADDR=address, HOURBELL_SLOTS=FEW_SLOTS) as after:
            after.wait_for("serving", STARTING)
            opened = wait_for(hooks, "/ops", "opened", "recovery")
            while_on = metrics_of(after)
            wait_for(hooks, "/watch", "resolved", "scheduler_silent")
            resolved = wait_for(hooks, "/ops", "resolved", "recovery")
            after.wait_for("recovery_finished")
            at_the_end = metrics_of(after)
            kinds = Counter(each.incident["kind"] for each in hooks.messages("/ops"))
        [outage] = of_event(after, "outage_recorded")
        late = of_event(after, "run_late")
        [started] = of_event(after, "engine_started")

    assert OUTAGE <= outage["seconds"] <= OUTAGE + STARTING
    assert "the scheduler was down for " in opened.incident["error"]
    assert " late, the oldest by " in opened.incident["error"]
    assert "5 jobs with a run of every missed time" in opened.incident["error"]
    assert while_on["hourbell_recovery_mode"] == 1
    assert at_the_end["hourbell_recovery_mode"] == 0
    assert 10 < at_the_end["hourbell_runs_late_total"] <= len(late)  # more may follow, behind the backlog
    missed = [each for each in late if outage["start"] < each["scheduled_at"] < started["time"]]
    assert len(missed) > 10
    assert {each["reason"] for each in missed} == {"recovery from downtime"}
    assert {"scheduled_at", "started_at", "late_minutes", "late_hours"} <= set(late[0])
    [entered], [finished] = of_event(after, "recovery_mode_entered"), of_event(after, "recovery_finished")
    assert entered["late_runs"] > 10
    assert finished["summary"] == resolved.incident["error"]
    assert finished["ended"] == finished["succeeded"] + finished["failed"] > len(late)
    assert finished["skipped"] > 0
    recovered = {name: at_the_end[f'hourbell_recovery_runs_total{{outcome="{name}"}}'] for name in RECOVERED}
    assert recovered == {name: finished[name] for name in RECOVERED}
    assert kinds == {"recovery": 2}
