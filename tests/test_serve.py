"""`hourbell serve` as a user meets it: a real process, its answers, its log and its exit code."""

import json
import os
import queue
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hourbell.settings import masked
from hourbell.store.migrations import load_migrations
from tests.database import PostgresDatabase
from tests.faults.process import Server
from tests.server import SERVER_FOLDER, remove_server, reserve_folder, run_program, server_url

Serve = Callable[..., Server]


def wait_for_text(server: Server, pattern: str) -> re.Match[str]:
    """The first match of a pattern in the output of a server."""
    end = time.monotonic() + 30
    while (found := re.search(pattern, server.log)) is None:
        assert server.is_running, server.log
        assert time.monotonic() < end, server.log
        time.sleep(0.02)
    return found


TICKING = """
import asyncio
from hourbell import Scheduler

scheduler = Scheduler()

@scheduler.job("* * * * * *")
async def tick(run):
    with open("ticks", "a") as ticks:
        ticks.write(f"{run.id}\\n")
"""
SLOW = """
import asyncio, os
from hourbell import Scheduler

scheduler = Scheduler()

@scheduler.job("* * * * * *", overlap="skip")
async def slow(run):
    open("begun", "w").close()
    await asyncio.sleep(float(os.environ["SLOW"]))
"""
SLOW_IN_A_THREAD = SLOW.replace("async def", "def").replace("await asyncio.sleep", "__import__('time').sleep")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start a process in a fresh folder; it is ended with the test."""
    with ExitStack() as stack:

        def start(*arguments: str, app: str = "", **environment: str) -> Server:
            if app:
                (tmp_path / "app.py").write_text(app)
                arguments = (*arguments, "--app", "app:scheduler")
            return stack.enter_context(Server(tmp_path, *arguments, **environment))

        yield start


def test_a_fresh_folder_gets_a_database_and_a_server_that_answers(serve: Serve, tmp_path: Path) -> None:
    server = serve().wait_until_serving()

    assert (tmp_path / "hourbell.db").exists()
    assert server.get("/health").json() == {"status": "ok"}
    ready = server.get("/health/ready")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    assert ready.json()["loops"].keys() == {
        "planner",
        "runner",
        "settler",
        "heartbeat",
        "reaper",
        "janitor",
        "audit_chain",
        "watcher",
    }
    names = {family.name for family in text_string_to_metric_families(server.get("/metrics").text)}
    assert {"hourbell_runs_planned", "hourbell_lateness_seconds", "hourbell_backlog"} <= names


def test_an_unknown_path_is_a_problem(serve: Serve) -> None:
    answer = serve().wait_until_serving().get("/nothing/here")

    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert (answer.json()["status"], answer.json()["code"]) == (404, "not_found")


def test_the_log_of_a_start_and_a_stop_is_short_and_calm(serve: Serve) -> None:
    server = serve().wait_until_serving()
    time.sleep(3)  # every loop has had its turn

    server.signal(signal.SIGTERM)

    assert server.wait(15) == 0
    assert {event["level"] for event in server.events} == {"info"}
    assert server.names == [
        "database_chosen",
        *["migration_applied"] * len(load_migrations("hourbell.store.sqlite")),
        "networks_allowed",
        "engine_started",
        "serving",
        "stopping",
        "engine_stopping",
        "engine_stopped",
        "stopped",
    ]
    assert len(server.log.splitlines()) == len(server.events)  # and nothing that is not JSON


def test_with_logs_for_people_it_says_where_it_answers(serve: Serve) -> None:
    server = serve(HOURBELL_LOG_FORMAT="console")

    url = wait_for_text(server, r"Hourbell is ready: (http://127\.0\.0\.1:\d+)")[1]
    assert httpx.get(f"{url}/health", trust_env=False).json() == {"status": "ok"}
    assert "job create" not in server.log  # that is for a terminal


def test_on_a_terminal_it_says_how_to_make_a_first_job(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    environment = {"PATH": os.environ["PATH"], "HTTP_ADDR": "127.0.0.1:0", "HOURBELL_LOG_FORMAT": "console"}
    command = [sys.executable, "-m", "hourbell", "serve"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=theirs, stderr=subprocess.DEVNULL) as process:
        shown = ""
        while "curl" not in shown or not shown.endswith("\r\n\r\n"):
            shown += os.read(ours, 4_096).decode()
        url = shown.partition("Hourbell is ready: ")[2].split()[0]
        [create] = [line for line in shown.splitlines() if "job create" in line]
        curl = shown[shown.index("curl") :].replace("\r\n", "\n")
        arguments = shlex.split(create.partition("job create ")[2])
        done = subprocess.run(
            [sys.executable, "-m", "hourbell", "job", "create", *arguments, "--server", url],
            capture_output=True,
            text=True,
            check=False,
        )
        body = json.loads(shlex.split(curl)[-1])
        again = httpx.post(f"{url}/api/v1/jobs", json={**body, "name": "again"}, trust_env=False)
        process.kill()
    os.close(ours)
    os.close(theirs)

    assert (done.returncode, done.stderr) == (0, "")
    assert again.status_code == 201


@pytest.mark.sweep
def test_the_log_of_the_first_minute_says_nothing_more(serve: Serve) -> None:
    server = serve().wait_until_serving()

    time.sleep(60)

    assert server.names == [
        "database_chosen",
        *["migration_applied"] * len(load_migrations("hourbell.store.sqlite")),
        "networks_allowed",
        "engine_started",
        "serving",
    ]


@pytest.mark.full
def test_an_idle_node_is_idle(serve: Serve) -> None:
    server = serve().wait_until_serving()
    before = _cpu_seconds(server)

    time.sleep(5)

    assert _cpu_seconds(server) - before < 0.5  # of five seconds


def test_the_jobs_of_an_app_run(serve: Serve, tmp_path: Path) -> None:
    serve(app=TICKING).wait_until_serving()

    ids = _lines_of(tmp_path / "ticks", at_least=2)

    assert len(set(ids)) == len(ids)


@pytest.mark.full
def test_a_second_start_finds_its_jobs_and_changes_none(serve: Serve, tmp_path: Path) -> None:
    first = serve(app=TICKING).wait_until_serving()
    assert "job_created" in first.names
    first.signal(signal.SIGTERM)
    assert first.wait(15) == 0

    second = serve(app=TICKING).wait_until_serving()

    started = [name for name in second.names if name != "run_succeeded"]
    assert started == ["database_chosen", "networks_allowed", "engine_started", "serving"]
    assert _rows(tmp_path, "select version from hourbell_jobs") == [(1,)]


def test_sigterm_drains_and_the_http_server_closes_last(serve: Serve, tmp_path: Path) -> None:
    server = serve(app=SLOW, SLOW="3").wait_until_serving()
    _wait_for(tmp_path / "begun")

    server.signal(signal.SIGTERM)
    server.wait_for("engine_stopping")
    time.sleep(0.5)
    planned = _rows(tmp_path, "select count(*), max(planned_at) from hourbell_runs")

    assert server.get("/health").status_code == 200  # a drain can be watched
    assert "engine_stopped" not in server.names
    assert server.wait(15) == 0
    assert server.names[-5:] == ["stopping", "engine_stopping", "run_succeeded", "engine_stopped", "stopped"]
    assert _rows(tmp_path, "select count(*), max(planned_at) from hourbell_runs") == planned  # the planner went first
    assert _rows(tmp_path, "select state, attempt from hourbell_runs where started_at > 0") == [("succeeded", 1)]
    assert _rows(tmp_path, "select count(*) from hourbell_nodes") == [(0,)]
    with pytest.raises(httpx.ConnectError):
        server.get("/health")


@pytest.mark.parametrize("app", [SLOW, pytest.param(SLOW_IN_A_THREAD, id="thread", marks=pytest.mark.full)])
def test_at_the_drain_limit_an_attempt_is_handed_back_uncharged(serve: Serve, tmp_path: Path, app: str) -> None:
    server = serve(app=app, SLOW="60", HOURBELL_DRAIN_TIMEOUT="1s").wait_until_serving()
    _wait_for(tmp_path / "begun")

    server.signal(signal.SIGTERM)

    assert server.wait(10) == 0
    assert "drain_limit_reached" in server.names
    [(state, failures, crashes, owner)] = _rows(
        tmp_path, "select state, failures, crashes, lease_owner from hourbell_runs where attempt > 0"
    )
    assert (state, failures, crashes, owner) == ("retrying", 0, 0, None)


def test_a_second_signal_exits_at_once(serve: Serve, tmp_path: Path) -> None:
    server = serve(app=SLOW, SLOW="60").wait_until_serving()
    _wait_for(tmp_path / "begun")

    server.signal(signal.SIGTERM)
    server.signal(signal.SIGTERM)  # some programs send it to the process and to its group: that is one
    time.sleep(0.5)
    assert server.is_running
    server.signal(signal.SIGINT)

    assert server.wait(2) == 1
    assert server.names[-1] == "forced_shutdown"
    assert _rows(tmp_path, "select state from hourbell_runs where attempt > 0") == [("running",)]  # till its lease ends


def test_a_signal_during_the_start_stops_it(serve: Serve, tmp_path: Path) -> None:
    server = serve().wait_until_serving()
    server.signal(signal.SIGTERM)
    assert server.wait(15) == 0

    with closing(sqlite3.connect(tmp_path / "hourbell.db")) as lock:
        lock.execute("begin immediate")
        waiting = serve()
        waiting.wait_for("database_chosen")
        waiting.signal(signal.SIGTERM)
        code = waiting.wait(10)

    assert code == 0
    assert waiting.names == ["database_chosen", "stopping", "stopped"]


@pytest.mark.parametrize(
    ("environment", "code", "reported"),
    [
        ({"HOURBELL_LEASE": "soon"}, 2, "HOURBELL_LEASE is 'soon'"),
        ({"HTTP_ADDR": "8080"}, 2, "HTTP_ADDR is '8080'"),
        ({"DATABASE_URL": "postgresql://me:hunter2@x@host/db"}, 1, "DATABASE_URL is 'postgresql://me:***@host/db'"),
        ({"DATABASE_URL": "mysql://localhost/db"}, 1, "DATABASE_URL is 'mysql://localhost/db'"),
        (
            {"DATABASE_URL": "postgresql://me:hunter2@127.0.0.1:1/db"},
            1,
            "127.0.0.1:1/db): [Errno 111] Connection refused; ",
        ),
        ({"DATABASE_URL": "postgresql:///db?host=/nowhere"}, 1, "/nowhere): [Errno 2] No such file"),
        (
            {"DATABASE_URL": "sqlite:////nowhere/hourbell.db"},
            1,
            "error: the database is unreachable (/nowhere/hourbell.db): there is no folder /nowhere; "
            "create it, or name another file in DATABASE_URL",
        ),
        (
            {"HTTP_ADDR": "192.0.2.1:8080"},
            1,
            "error: cannot listen on 192.0.2.1:8080: Cannot assign requested address; "
            "choose another address in HTTP_ADDR, as in 127.0.0.1:8081",
        ),
    ],
)
def test_a_failed_start_gives_its_reason_in_one_line(
    serve: Serve, environment: dict[str, str], code: int, reported: str
) -> None:
    server = serve(**environment)

    assert server.wait(15) == code
    assert reported in _complaint(server)
    assert "hunter2" not in server.log


@pytest.mark.full
@pytest.mark.anyio
async def test_a_refusal_by_postgresql_is_reported_in_one_line(serve: Serve, postgres: PostgresDatabase) -> None:
    for url, reported in (
        (postgres.url.replace("postgres@", "nobody-here@"), 'role "nobody-here" does not exist'),
        (postgres.url.replace("hourbell_test_", "no_"), "does not exist"),
    ):
        server = serve(DATABASE_URL=url)
        assert server.wait(15) == 1
        assert reported in _complaint(server)


@pytest.mark.full
@pytest.mark.anyio
async def test_a_wrong_login_of_functions_is_reported_by_its_own_setting(
    serve: Serve, postgres: PostgresDatabase
) -> None:
    await postgres.sql("create role functions_without_rights login password 'hunter2'")
    login = postgres.url.replace("postgres@", "functions_without_rights:hunter2@")
    try:
        for url, code, reported in (
            (login.replace("functions_without", "no"), 1, 'role "no_rights" does not exist; '),
            ("postgresql://me:hunter2@127.0.0.1:1/db", 1, "Connection refused; "),
            (server_url().replace("postgres@", "functions_without_rights:hunter2@"), 2, "names another database "),
            (login, 2, "its login may not settle runs; grant it usage on schema hourbell and execute on function "),
        ):
            server = serve(DATABASE_URL=postgres.url, HOURBELL_SQL_DATABASE_URL=url)
            assert server.wait(15) == code
            complaint = _complaint(server)
            assert reported in complaint
            assert f"({masked(url)}): " in complaint
            assert re.findall(r"\w*DATABASE_URL", complaint) == ["HOURBELL_SQL_DATABASE_URL"]
            assert "hunter2" not in server.log
    finally:
        await postgres.sql("drop role functions_without_rights")


def test_a_file_that_is_no_database_is_reported_in_one_line(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "hourbell.db").write_text("Dear diary, " * 100)

    server = serve()

    assert server.wait(15) == 1
    reported = f"error: the database cannot be used ({tmp_path}/hourbell.db): the file is not a SQLite database; "
    assert _complaint(server) == f"{reported}name another one in DATABASE_URL"


def test_an_address_in_use_is_reported_before_the_database_is_touched(serve: Serve, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = serve(HTTP_ADDR=f"127.0.0.1:{taken.getsockname()[1]}")

        assert server.wait(15) == 1
    assert "Address already in use; choose another address in HTTP_ADDR" in _complaint(server)
    assert not (tmp_path / "hourbell.db").exists()


@pytest.mark.parametrize(
    ("app", "reported"),
    [
        ("app", "write module:name"),
        ("nowhere:scheduler", "'nowhere' cannot be imported"),
        ("app:nothing", "not a hourbell.Scheduler"),
        ("app.py:scheduler", "names a file; write its module: --app app:scheduler"),
        ("./shop/jobs.py:scheduler", "write its module: --app shop.jobs:scheduler"),
        ("app:asyncio", "not a hourbell.Scheduler"),
    ],
)
def test_an_app_that_is_none_is_a_usage_error(serve: Serve, tmp_path: Path, app: str, reported: str) -> None:
    (tmp_path / "app.py").write_text(TICKING)

    server = serve("--app", app)

    assert server.wait(15) == 2
    assert reported in _complaint(server)


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def broken(:", "SyntaxError: invalid syntax"),
        ("@scheduler.job('61 * * * *')\ndef f(run): ...", "minute field, column 1: 61 is outside 0-59"),
    ],
)
def test_an_app_whose_import_fails_shows_where_and_why(serve: Serve, line: str, reported: str) -> None:
    server = serve(app=f"{TICKING}\n{line}\n")

    assert server.wait(15) == 1
    assert "app.py" in server.log
    assert "importlib" not in server.log
    assert reported in server.log.splitlines()[-1]
    assert server.log.splitlines()[-1].startswith("error: --app names 'app'")


@pytest.mark.anyio
async def test_the_jobs_of_an_app_run_on_postgresql(serve: Serve, tmp_path: Path, postgres: PostgresDatabase) -> None:
    server = serve(app=TICKING, DATABASE_URL=postgres.url).wait_until_serving()

    _lines_of(tmp_path / "ticks", at_least=2)

    server.signal(signal.SIGTERM)
    assert server.wait(15) == 0
    assert {event["level"] for event in server.events} == {"info"}


@pytest.mark.anyio
async def test_postgresql_may_drop_every_connection(serve: Serve, tmp_path: Path, postgres: PostgresDatabase) -> None:
    server = serve(app=TICKING, DATABASE_URL=postgres.url, HOURBELL_LEASE="10s").wait_until_serving()
    before = len(_lines_of(tmp_path / "ticks", at_least=2))

    for _ in range(5):  # longer than one loop's first retry
        await postgres.connection.fetch(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'hourbell' "
            "and datname = current_database()"
        )
        time.sleep(0.2)

    _lines_of(tmp_path / "ticks", at_least=before + 3, seconds=10)
    assert server.get("/health/ready").status_code == 200
    assert {event["event"] for event in server.events if event["level"] == "error"} == set()
    server.signal(signal.SIGTERM)
    assert server.wait(15) == 0


@pytest.fixture
def own_postgres(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a PostgreSQL server that only this test uses."""
    monkeypatch.delenv("TEST_DATABASE_URL", raising=False)  # that server is somebody else's
    monkeypatch.setenv(SERVER_FOLDER, os.environ[SERVER_FOLDER])  # put back when this ends
    reserve_folder()
    try:
        yield Path(os.environ[SERVER_FOLDER])
    finally:
        remove_server()


@pytest.mark.full
def test_postgresql_may_crash_and_come_back(serve: Serve, tmp_path: Path, own_postgres: Path) -> None:
    server = serve(app=TICKING, DATABASE_URL=server_url()).wait_until_serving()
    before = len(_lines_of(tmp_path / "ticks", at_least=2))

    _pg_ctl(own_postgres, "-m", "immediate", "stop")
    server.wait_for("database_unavailable", 5)
    assert server.get("/health").status_code == 200
    assert server.get("/health/ready").status_code == 503
    time.sleep(2)
    _pg_ctl(own_postgres, "-l", str(own_postgres / "log"), "restart")

    _lines_of(tmp_path / "ticks", at_least=before + 3, seconds=10)
    assert server.get("/health/ready").status_code == 200
    assert {event["event"] for event in server.events if event["level"] == "error"} == set()
    ids = (tmp_path / "ticks").read_text().splitlines()
    assert len(set(ids)) >= len(ids) - 1  # what was in flight at the crash may be delivered again, with the same id
    server.signal(signal.SIGTERM)
    assert server.wait(15) == 0


def _pg_ctl(folder: Path, *arguments: str) -> None:
    run_program(folder, "pg_ctl", "-D", folder / "data", "-w", *arguments)


def _complaint(server: Server) -> str:
    """The one line that is not a log line."""
    lines = server.log.splitlines()
    assert [line for line in lines if not line.startswith("{")] == lines[-1:]
    assert lines[-1].startswith("error: ")
    return lines[-1]


def _rows(folder: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(folder / "hourbell.db", timeout=10)) as connection:
        return connection.execute(query).fetchall()


def _cpu_seconds(server: Server) -> float:
    facts = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(facts[11]) + int(facts[12])) / 100


def _wait_for(path: Path, seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"no {path.name}"
        time.sleep(0.02)


def _lines_of(path: Path, *, at_least: int, seconds: float = 15) -> list[str]:
    end = time.monotonic() + seconds
    while not path.exists() or len(lines := path.read_text().splitlines()) < at_least:
        assert time.monotonic() < end, f"not {at_least} lines in {path.name}"
        time.sleep(0.05)
    return lines


def test_a_monitor_outside_is_pinged_while_the_node_works(serve: Serve) -> None:
    pings: queue.Queue[str] = queue.Queue()

    class Monitor(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            pings.put(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Monitor) as monitor:
        threading.Thread(target=monitor.serve_forever, daemon=True).start()
        serve(
            HOURBELL_PING_URL=f"http://127.0.0.1:{monitor.server_address[1]}/check",
            HOURBELL_PING_INTERVAL="1s",
        ).wait_until_serving()
        found = [pings.get(timeout=30) for _ in range(3)]
        monitor.shutdown()

    assert found == ["/check/start", "/check", "/check"]
