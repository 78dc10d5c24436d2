"""The Alertmanager channel and a real Alertmanager: what its own API says of our alerts."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from hourbell.clock import now
from hourbell.core.alerts.kinds import Event
from hourbell.core.alerts.message import Message
from hourbell.core.run.settle import Succeeded
from hourbell.targets.channel.alertmanager import AlertmanagerChannel
from tests.examples.processes import free_port
from tests.faults.process import Server
from tests.targets.channel.steps import MESSAGE, deliver
from tests.targets.channel.test_providers import HOSTILE
from tests.targets.http.transports import FakeEgressPolicy, make_transport

pytestmark = pytest.mark.full
PATIENCE_SECONDS = 60.0
CONFIG = {"route": {"receiver": "nobody"}, "receivers": [{"name": "nobody"}]}
APP = """
import os
from hourbell import Scheduler

scheduler = Scheduler("shop")

@scheduler.job("every 1s", name="flaky", retry="none")
async def flaky(run):
    if os.path.exists("broken"):
        raise RuntimeError('<b>disk</b> "full" {{ .Labels }} 🔥')
"""


class Alertmanager:
    """A real one in a folder, which keeps its alerts in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "alertmanager.yml").write_text(json.dumps(CONFIG))  # JSON is YAML

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        found = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
        assert found, "prometheus-alertmanager is missing; install it with `make alertmanager`"
        options = (
            "--config.file=alertmanager.yml",
            "--storage.path=alerts",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--cluster.listen-address=",
        )
        with (self._folder / "alertmanager.log").open("ab") as log:
            self._process = subprocess.Popen([found, *options], cwd=self._folder, stdout=log, stderr=log)
        self.wait_for(lambda: self._is_ready())

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts that are not over, by its API."""
        answer = httpx.get(f"{self.url}/api/v2/alerts", timeout=10, trust_env=False)
        assert answer.status_code == 200, answer.text
        return [each for each in answer.json() if each["status"]["state"] == "active"]

    def wait_for(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < end, (self._folder / "alertmanager.log").read_text()[-4_000:]
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/-/ready", timeout=1, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[Alertmanager]:
    with running(tmp_path) as found:
        yield found


@contextmanager
def running(folder: Path) -> Iterator[Alertmanager]:
    found = Alertmanager(folder)
    try:
        found.start()
        yield found
    finally:
        found.stop()


async def send(alertmanager: Alertmanager, message: Message) -> None:
    transport = make_transport("http", FakeEgressPolicy())
    config = {"type": "alertmanager", "url": alertmanager.url.replace("127.0.0.1", "am.example")}
    try:
        assert isinstance(await deliver(AlertmanagerChannel(), config, transport, message), Succeeded)
    finally:
        await transport.close()


def about(event: Event, **more: Any) -> Message:
    assert MESSAGE.incident is not None
    at = now()
    incident = replace(MESSAGE.incident, opened_at=at - timedelta(minutes=1), **more)
    return replace(MESSAGE, event=event, at=at, incident=incident)


@pytest.mark.anyio
async def test_an_alert_is_opened_repeated_and_resolved(alertmanager: Alertmanager) -> None:
    await send(alertmanager, about(Event.OPENED))
    [opened] = alertmanager.alerts()
    assert opened["labels"]["alertname"] == "HourbellFailed"
    assert datetime.fromisoformat(opened["endsAt"]) - now() > timedelta(days=300)

    await send(alertmanager, about(Event.REPEATED, count=7))
    [repeated] = alertmanager.alerts()
    assert repeated["fingerprint"] == opened["fingerprint"]
    assert repeated["annotations"]["summary"] == "Still: nightly-report failed 7 times"

    await send(alertmanager, about(Event.RESOLVED, state="resolved", resolved_at=now()))
    alertmanager.wait_for(lambda: alertmanager.alerts() == [])


@pytest.mark.anyio
async def test_a_repeated_message_brings_back_what_a_restart_forgot(alertmanager: Alertmanager) -> None:
    await send(alertmanager, about(Event.OPENED))
    [before] = alertmanager.alerts()
    alertmanager.stop()
    alertmanager.start()
    assert alertmanager.alerts() == []

    await send(alertmanager, about(Event.REPEATED))
    assert [each["fingerprint"] for each in alertmanager.alerts()] == [before["fingerprint"]]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.anyio
async def test_it_takes_long_and_hostile_texts(alertmanager: Alertmanager, text: str) -> None:
    message = about(Event.OPENED, error=text, lane=text, jobs=(text,), acknowledged_by=text)
    assert message.job is not None
    await send(alertmanager, replace(message, job=replace(message.job, name=text[:100], description=text)))

    [alert] = alertmanager.alerts()
    assert set(alert["labels"]) == {"alertname", "service", "incident"}


def test_a_node_opens_and_resolves_an_alert(alertmanager: Alertmanager, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "broken").touch()
    with Server(tmp_path, "--app", "app:scheduler", HOURBELL_PUBLIC_URL="https://hourbell.example") as server:
        server.wait_until_serving()
        channel = {"type": "alertmanager", "url": alertmanager.url}
        made = httpx.put(f"{server.url}/api/v1/channels/am", json=channel, timeout=10, trust_env=False)
        assert made.status_code in (200, 201), made.text
        alertmanager.wait_for(lambda: bool(alertmanager.alerts()))
        [alert] = alertmanager.alerts()
        (tmp_path / "broken").unlink()
        alertmanager.wait_for(lambda: alertmanager.alerts() == [])
        incidents = httpx.get(f"{server.url}/api/v1/incidents?state=resolved", timeout=10, trust_env=False).json()

    assert alert["labels"]["incident"] in json.dumps(incidents)
    assert alert["annotations"]["summary"].startswith("flaky failed")
    assert '<b>disk</b> "full" {{ .Labels }} 🔥' in alert["annotations"]["description"]
    assert alert["generatorURL"].startswith("https://hourbell.example/incidents/")
