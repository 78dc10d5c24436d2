"""The rules and the dashboard in `deploy/`, by promtool and by a real Prometheus that scrapes a real node."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.process import Server

pytestmark = pytest.mark.full
DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yml"
DASHBOARD = DEPLOY / "grafana" / "dashboard.json"
PATIENCE_SECONDS = 60.0
APP = """
from hourbell import Scheduler

scheduler = Scheduler("shop")

@scheduler.job("every 1s")
async def works(run): ...

@scheduler.job("every 1s", retry="none")
async def fails(run):
    raise RuntimeError("no")
"""
NOTHING_YET = ("Alert messages, an hour", "What went wrong, in an hour", "Pools", "Planned and skipped, a second")


def program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is missing; install it with `make prometheus`"
    return found


def test_the_rules_are_valid_and_fire_as_their_tests_say() -> None:
    for arguments in (("check", "rules", RULES), ("test", "rules", RULES.with_name("rules_test.yml"))):
        done = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, check=False)

        assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_has_a_test() -> None:
    rules, tests = RULES.read_text("utf-8"), RULES.with_name("rules_test.yml").read_text("utf-8")
    names = [line.split(": ")[1] for line in rules.splitlines() if "- alert: " in line]

    assert len(names) > 10
    assert [name for name in names if f"alertname: {name}\n        exp_alerts" not in tests] == []


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[httpx.Client]:
    """A Prometheus that scrapes this target every second, with our rules."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "hourbell", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    address = f"127.0.0.1:{port}"
    options = ("--config.file=prometheus.yml", f"--web.listen-address={address}", "--storage.tsdb.path=data")
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([program("prometheus"), *options], cwd=folder, stdout=log, stderr=log)
    try:
        with httpx.Client(base_url=f"http://{address}/api/v1", timeout=10) as client:
            yield client
    finally:
        process.kill()
        process.wait()


def result_of(client: httpx.Client, query: str) -> list[Any]:
    answer = client.get("/query", params={"query": query})
    body = answer.json()
    assert body["status"] == "success", f"{query}: {body}"
    return list(body["data"]["result"])


def test_every_query_of_the_dashboard_answers_on_a_real_node(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with Server(tmp_path, "--app", "app:scheduler") as server:
        server.wait_until_serving()
        with prometheus(tmp_path, server.url.removeprefix("http://")) as client:
            _wait_for(client, 'sum(increase(hourbell_runs_ended_total{state="failed"}[1m])) > 3')
            empty = [
                (panel["title"], query)
                for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]
                for query in (target["expr"] for target in panel["targets"])
                if not result_of(client, query.replace("$job", ".*").replace("$__rate_interval", "30s"))
            ]
            names = {rule["name"] for group in client.get("/rules").json()["data"]["groups"] for rule in group["rules"]}

    assert [each for each in empty if each[0] not in NOTHING_YET] == []
    assert "HourbellNodeDown" in names


def _wait_for(client: httpx.Client, query: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            if result_of(client, query):
                return
        except httpx.TransportError:  # it has not started yet
            pass
        assert time.monotonic() < end, query
        time.sleep(0.5)
