"""Commands about a server: status, nodes, audit, forecast, events, and the lists that should be empty."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from hourbell.cli.server.forecast import whole
from tests.cli.live import PATIENCE, Live


def test_status_shows_the_identity_the_health_and_the_load(node: Live) -> None:
    node.create("counted")
    shown, body = node.ok("status", "--since", "2h"), node.json("status")

    assert re.search(r"^ready: +yes$", shown, re.MULTILINE)
    assert re.search(r"^you: +\w+, admin$", shown, re.MULTILINE)
    assert node.ok("status", "-q") == "ready\n"
    assert node.run("status", "--server", "http://127.0.0.1:1").exit_code == 1
    assert (body["ready"]["status"], body["session"]["role"], body["stats"]["jobs"] > 0) == ("ready", "admin", True)


def test_nodes_are_listed(node: Live) -> None:
    head, row = node.ok("nodes", "-z", "Asia/Tokyo").splitlines()

    assert re.match(r"NODE +HOST +STATE +RUNNING +STARTED \(Asia/Tokyo\) +LAST HEARTBEAT \(Asia/Tokyo\)", head)
    assert row.split()[2] == "live"
    assert node.ok("nodes", "-q").strip() == row.split()[0]
    assert len(node.json("nodes")["items"]) == 1


def test_the_audit_shows_who_changed_a_job(node: Live) -> None:
    job = node.create("audited")
    node.ok("job", "pause", "audited", "--note", "why")
    head, newest, first = node.ok("audit", "--job", "audited").splitlines()

    assert re.match(r"WHEN \(UTC\) +WHO +WHAT +SUBJECT +CHANGES", head)
    assert (job in newest, job in first) == (True, True)
    assert [each["subject"] for each in node.json("audit", "--subject", job, "-n", "1")["items"]] == [job]
    assert node.run("audit", "--job", "audited", "--subject", job).exit_code == 2
    assert node.run("audit", "--job", "nobody").exit_code == 3


def test_the_audit_names_the_url_of_a_long_change(node: Live) -> None:
    payload = json.dumps({"text": "x" * 5_000})
    node.create("lengthy", "--payload", payload)
    line = node.ok("audit", "--job", "lengthy").splitlines()[1]
    [entry] = re.findall(r"--entry (\d+) shows it", line)

    assert json.dumps({"text": "x" * 5_000}) in node.ok("audit", "--entry", entry)
    assert node.json("audit", "--entry", entry)["after"]["payload"] == {"text": "x" * 5_000}
    assert node.run("audit", "--entry", "1000000").exit_code == 3
    node.ok("job", "delete", "lengthy", "--yes")
    assert "lengthy" in node.run("audit", "--job", "lengthy").stderr


def test_the_audit_of_a_deleted_job_is_found_by_its_name(node: Live) -> None:
    job = node.create("gone")
    node.ok("job", "delete", "gone")
    done = node.run("audit", "--job", "gone")

    assert done.exit_code == 0
    assert [line.split("gone (")[1].split(")")[0] for line in done.stdout.splitlines()[1:]] == [job, job]
    assert "note: there is no job 'gone' any more; of the newest 1,000 changes, these mention it" in done.stderr


def test_a_forecast_counts_runs_by_time_span(node: Live) -> None:
    node.ok("job", "create", "hourly", "-s", "@hourly", "--url", node.receiver)
    head, *rows = node.ok("forecast", "--from", "+1d", "--bucket", "1h", "-n", "3").splitlines()

    assert re.fullmatch(r"FROM \(UTC\) +RUNS", head.strip())
    assert len(rows) == 3
    assert all(int(row.split()[2]) >= 1 for row in rows)
    assert len(node.json("forecast", "-n", "7")["buckets"]) == 7


def test_a_forecast_counts_no_past_times(node: Live) -> None:
    node.ok("job", "create", "midnight", "-s", "@daily", "--url", node.receiver)
    [past, coming] = node.json("forecast", "--from", "-10d", "--bucket", "9d", "-n", "2")["buckets"]

    assert (past["count"], coming["count"] >= 8) == (0, True)


@pytest.mark.parametrize(
    ("span", "zone", "start"),
    [
        (timedelta(hours=1), "UTC", "2026-03-08T13:00:00"),
        (timedelta(hours=6), "UTC", "2026-03-08T12:00:00"),
        (timedelta(minutes=15), "UTC", "2026-03-08T13:30:00"),
        (timedelta(minutes=7), "UTC", "2026-03-08T13:40:00"),
        (timedelta(days=1), "America/New_York", "2026-03-08T05:00:00"),  # the clocks change in between
        (timedelta(days=7), "UTC", "2026-03-08T00:00:00"),
    ],
)
def test_spans_of_a_forecast_are_aligned_to_the_clock(span: timedelta, zone: str, start: str) -> None:
    now = datetime(2026, 3, 8, 13, 40, 21, 5, tzinfo=UTC)

    assert whole(now, span, zone) == datetime.fromisoformat(f"{start}Z")


def test_a_server_that_is_not_hourbell_is_reported(node: Live) -> None:
    with other_server() as url:
        done = node.run("job", "list", "--server", url)

    assert (done.exit_code, "this is not a Hourbell server" in done.stderr, url in done.stderr) == (1, True, True)


@pytest.mark.parametrize("command", ["status", "job get x", "job trigger x", "job delete x"])
def test_a_404_of_another_web_server_is_not_reported_as_a_missing_job(node: Live, command: str) -> None:
    done = node.run(*command.split(), "--server", node.receiver)

    assert (done.exit_code, done.stdout, "<" in done.stderr) == (1, "", False)
    assert f"error: this is not a Hourbell server, or one of another version: {node.receiver[:-1]}\n" in done.stderr
    assert "look at --server or HOURBELL_URL" in done.stderr


@contextmanager
def other_server() -> Iterator[str]:
    """A server that answers every request with a JSON object of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"hello": "world"}')

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("which", ["late", "stuck", "orphans"])
def test_empty_lists_of_problems_are_reported_as_good_news(node: Live, which: str) -> None:
    done = node.run("run", which)

    assert (done.exit_code, done.stdout) == (0, "")
    assert "none (expected)" in done.stderr
    assert node.json("run", which, "-n", "5") == {"items": [], "next_cursor": None}


def test_events_stream_as_json_lines_and_end_after_a_count(node: Live) -> None:
    node.create("noisy")
    with listening(node, "-n", "1") as listener:
        assert listener.stdout is not None
        while listener.poll() is None:
            node.ok("job", "trigger", "noisy")
            try:
                listener.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
        event = json.loads(listener.stdout.read())

    assert (listener.returncode, event["event"]) == (0, "changes")
    assert {"id", "job_id", "state"} <= event["runs"][0].keys()


def test_listening_ends_after_a_time_or_when_interrupted(node: Live) -> None:
    assert node.run("events", "--timeout", "1s").exit_code == 0
    with listening(node) as listener:
        assert listener.stderr is not None
        listener.stderr.readline()
        time.sleep(1)  # until it waits for what comes
        listener.send_signal(signal.SIGINT)
        listener.communicate(timeout=PATIENCE)

    assert listener.returncode == 130


def test_events_on_a_terminal_name_the_job(node: Live) -> None:
    node.create("named")
    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(node.terminal, "events", "-n", "1", "--timeout", "60s")
        while not seen.done():
            node.ok("job", "trigger", "named")
            wait([seen], 0.5)
        status, screen = seen.result()

    assert status == 0
    assert re.search(r"\(UTC\)  run  named  \w+  [0-9a-f-]{36}", screen)


@contextmanager
def listening(node: Live, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-m", "hourbell", "events", *arguments],
        env={"PATH": os.environ["PATH"], "HOURBELL_URL": node.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_dry_run_of_prune_counts_the_runs_and_removes_nothing(node: Live) -> None:
    node.create("dry-runs", method="POST")
    run = node.failed_run("dry-runs")
    for verb in ("replay", "discard"):
        done = node.run("run", verb, "--job", "dry-runs", "--dry-run")
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"1 run to {verb}\n")
    body = node.json("run", "cancel", "--job", "dry-runs", "--dry-run")

    assert (body["dry_run"], body["matched"]) == (True, 0)
    assert run in node.ok("run", "failed", "-q")
    assert node.run("run", "replay", run, "--dry-run").exit_code == 2
