"""Listen addresses and callers without tokens: real processes, with and without tokens."""

import asyncio
import json
import os
import socket
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from hourbell.cli.local.access import command as access_command
from hourbell.cli.local.token import command as token_command
from hourbell.control.access import refuse_to_listen
from hourbell.settings import load_settings
from hourbell.targets.http.addresses import own_addresses
from hourbell.wiring import open_access
from tests.cli.live import receiver
from tests.examples.processes import until
from tests.faults.process import Server

Serve = Callable[..., Server]

EVERYWHERE = ["0.0.0.0:0", ":0", "[::]:0"]
HERE = ["127.0.0.1:0", "127.0.0.2:0", "localhost:0", "[::1]:0"]
BELIEVED = 5.0  # seconds for which a server may believe what it knows about tokens
GUARDED = ["/metrics", "/docs", "/openapi.json"]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start a process on the database of this test; it is ended with the test."""
    with ExitStack() as stack:

        def start(address: str, name: str = "server", **environment: str) -> Server:
            return stack.enter_context(Server(tmp_path, "--http-addr", address, name=name, **environment))

        yield start


def token(folder: Path, *arguments: str) -> str:
    """Return the output of the command."""
    url = f"sqlite:///{folder / 'hourbell.db'}"
    done = CliRunner().invoke(token_command, [*arguments, "--database-url", url])
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def make_token(folder: Path, name: str = "admin") -> str:
    return token(folder, "create", name, "--role", "admin")


def make_valid(folder: Path) -> None:
    make_token(folder)


def make_revoked(folder: Path) -> None:
    make_token(folder)
    token(folder, "revoke", "admin")


def make_expired(folder: Path) -> None:
    make_token(folder)
    with closing(_connect(folder)) as database:
        database.execute("update hourbell_tokens set expires_at = created_at + 1")


def make_opened(folder: Path) -> None:
    make_expired(folder)
    make_token(folder, "second")
    token(folder, "revoke", "second")
    done = CliRunner().invoke(access_command, ["open", "--database-url", f"sqlite:///{folder / 'hourbell.db'}"])
    assert done.exit_code == 0, done.output


def make_none(_folder: Path) -> None: ...


def _connect(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(folder / "hourbell.db", timeout=10, isolation_level=None)


@pytest.mark.parametrize("address", [*HERE, *EVERYWHERE, "192.0.2.7:0", "[2001:db8::7]:0", "example.com:0"])
@pytest.mark.parametrize(
    ("make", "is_closed"),
    [(make_none, False), (make_valid, True), (make_revoked, True), (make_expired, True), (make_opened, False)],
)
@pytest.mark.anyio
async def test_only_a_server_that_asks_for_tokens_may_be_reached_from_elsewhere(
    tmp_path: Path, make: Callable[[Path], None], is_closed: bool, address: str
) -> None:
    await asyncio.to_thread(make, tmp_path)
    settings = load_settings({"database_url": f"sqlite:///{tmp_path / 'hourbell.db'}", "http_addr": address})
    async with open_access(settings) as access:
        why = refuse_to_listen(settings.http_addr, await access.is_open())

    assert (why is None) is (is_closed or address in HERE)
    assert why is None or why.startswith(f"refusing to listen on {address}: there is no token yet")


@pytest.mark.parametrize("make", [make_none, pytest.param(make_opened, marks=pytest.mark.full)])
def test_a_server_that_is_refused_exits_and_says_how_to_make_a_token(
    serve: Serve, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path)
    address = elsewhere()
    server = serve(address)

    assert server.wait(60) == 2
    [reported] = [line for line in server.log.splitlines() if not line.startswith("{")]
    assert reported.startswith(f"error: refusing to listen on {address}: there is no token yet")
    assert "`hourbell token create admin --role admin`" in reported


def test_a_server_on_the_loopback_of_ipv6_needs_no_token(serve: Serve) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")

    assert status(serve("[::1]:0"), None) == 200


@pytest.mark.parametrize("make", [make_expired, make_revoked])
def test_the_end_of_the_last_token_keeps_a_server_closed_to_everybody(
    serve: Serve, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path)
    server = serve("127.0.0.1:0").wait_until_serving()

    assert server.get("/api/v1/jobs").status_code == 401
    assert server.get("/health").status_code == 200


@pytest.mark.full
def test_a_first_token_and_a_revoked_one_count_everywhere_within_five_seconds(serve: Serve, tmp_path: Path) -> None:
    servers = [serve("127.0.0.1:0", f"server-{number}").wait_until_serving() for number in range(2)]
    assert [status(server, None) for server in servers] == [200, 200]

    first, second = make_token(tmp_path, "first"), make_token(tmp_path, "second")
    time.sleep(BELIEVED)
    assert [status(server, None) for server in servers] == [401, 401]
    assert [status(server, first) for server in servers] == [200, 200]

    token(tmp_path, "revoke", "first")
    time.sleep(BELIEVED)
    assert [status(server, first) for server in servers] == [401, 401]
    assert [status(server, second) for server in servers] == [200, 200]


def test_beyond_loopback_metrics_and_docs_need_a_token_too(serve: Serve, tmp_path: Path) -> None:
    text = make_token(tmp_path)
    open_to_all, local = serve("0.0.0.0:0", "all"), serve("127.0.0.1:0", "local")

    for path in GUARDED:
        assert (status(open_to_all, None, path), status(open_to_all, text, path)) == (401, 200)
        assert status(local, None, path) == 200
    assert [status(open_to_all, None, path) for path in ("/health", "/health/ready")] == [200, 200]


@pytest.mark.parametrize("path", GUARDED)
def test_metrics_and_docs_follow_the_host_check_of_the_api(serve: Serve, tmp_path: Path, path: str) -> None:
    local = serve("127.0.0.1:0").wait_until_serving()
    here = f"Host: {local.url.removeprefix('http://')}"
    elsewhere = [
        ("Host: evil.example",),
        (here, "X-Forwarded-For: 198.51.100.1"),
        (here, "X-Forwarded-Proto: https"),
        (here, "Via: 1.1 proxy"),
        (here, "Origin: http://evil.example"),
    ]
    assert raw(local, "GET", here, target=path) == 200
    assert [raw(local, "GET", *lines, target=path) for lines in elsewhere] == [403] * len(elsewhere)
    assert raw(local, "GET", here, target=path, version="1.0") == 403

    token = f"Authorization: Bearer {make_token(tmp_path)}"
    assert raw(local, "GET", here, target=path) == 200
    assert [raw(local, "GET", *lines, target=path) for lines in elsewhere] == [401] * len(elsewhere)
    assert [raw(local, "GET", *lines, token, target=path) for lines in elsewhere] == [200] * len(elsewhere)


def test_without_a_token_ready_names_no_lane(serve: Serve, tmp_path: Path) -> None:
    server = serve("127.0.0.1:0").wait_until_serving()
    job = {"name": "canary", "schedule": "0 0 1 1 *", "target": {"type": "task", "name": "canary.weekly"}}
    assert call(server, "POST", "/api/v1/jobs", None, json=job).status_code == 201
    call(server, "POST", "/api/v1/jobs/canary/trigger", None)
    assert call(server, "GET", "/health/ready", None).json()["unserved_lanes"] == ["task:canary.weekly"]
    text = make_token(tmp_path)

    unknown, known = call(server, "GET", "/health/ready", None), call(server, "GET", "/health/ready", text)
    assert (unknown.status_code, unknown.json()["unserved_lane_count"], "canary" in unknown.text) == (200, 1, False)
    assert known.json()["unserved_lanes"] == ["task:canary.weekly"]


def test_an_open_server_refuses_what_a_page_of_another_site_sends(serve: Serve) -> None:
    server = serve("127.0.0.1:0").wait_until_serving()
    port = server.url.rpartition(":")[2]
    here = f"Host: localhost:{port}"
    well = [(here,), (here, f"Origin: http://localhost:{port}")]
    foreign = [
        ("Host: evil.example",),
        (f"Host: evil.example:{port}",),
        ("Host:",),
        ("Host: evil.example", here),
        (here, "Host: evil.example"),
        (here, "Origin: http://evil.example"),
        (here, "Origin: null"),
        (here, "Origin: http://localhost:1"),
        (here, "X-Forwarded-For: 127.0.0.1"),
    ]

    for method, done in (("GET", 200), ("POST", 422)):  # a body that is no job
        assert [raw(server, method, *lines) for lines in well] == [done] * len(well)
        assert {lines: found for lines in foreign if (found := raw(server, method, *lines)) not in (400, 403)} == {}
        absolute = raw(server, method, "Host: evil.example", target=f"http://localhost:{port}/api/v1/jobs")
        assert absolute in (400, 403, 404)


def test_the_first_token_closes_loopback_to_webhooks_on_a_running_server(serve: Serve, tmp_path: Path) -> None:
    with receiver(tmp_path) as url:
        server = serve("127.0.0.1:0").wait_until_serving()
        assert server.wait_for("networks_allowed")["because"] == "the server listens on loopback only and has no token"
        assert ran(server, url, "before", None)["state"] == "succeeded"
        text = make_token(tmp_path)
        assert "HOURBELL_ALLOW_NETWORKS=127.0.0.0/8" in server.wait_for("loopback_closed")["hint"]
        after = ran(server, url, "before", text)
        refused = call(server, "POST", "/api/v1/jobs", text, json=a_job("after", url))

    assert (after["state"], after["reason"]) == ("failed", "permanent")
    assert "HOURBELL_ALLOW_NETWORKS may name its network" in after["attempts"][0]["error"]
    assert "HOURBELL_ALLOW_NETWORKS may name its network" in server.wait_for("run_failed")["error"]
    assert refused.status_code == 422
    assert "HOURBELL_ALLOW_NETWORKS may name its network" in refused.text


@pytest.mark.parametrize("networks", ["", "127.0.0.0/8"])
def test_a_server_with_a_token_calls_this_machine_only_if_a_setting_says_so(
    serve: Serve, tmp_path: Path, networks: str
) -> None:
    text = make_token(tmp_path)
    with receiver(tmp_path) as url:
        server = serve("127.0.0.1:0", HOURBELL_ALLOW_NETWORKS=networks).wait_until_serving()
        made = call(server, "POST", "/api/v1/jobs", text, json=a_job("here", url))
        assert made.status_code == (201 if networks else 422)
        assert not networks or ran(server, url, "here", text)["state"] == "succeeded"

    assert ("networks_allowed" in server.names) is bool(networks)


def test_a_forwarded_address_is_believed_of_trusted_proxies_only(serve: Serve, tmp_path: Path) -> None:
    text = make_token(tmp_path)
    nobody = serve("127.0.0.1:0", "nobody")
    proxies = serve("127.0.0.1:0", "proxies", HOURBELL_TRUSTED_PROXIES="127.0.0.0/8")

    for name, server in (("a", nobody), ("b", proxies)):
        headers = {"Authorization": f"Bearer {text}", "X-Forwarded-For": "198.51.100.1, 203.0.113.9"}
        body = {"name": name, "schedule": "0 0 1 1 *", "target": {"type": "task", "name": "x"}}
        made = httpx.post(f"{server.url}/api/v1/jobs", json=body, headers=headers, timeout=30, trust_env=False)
        assert made.status_code == 201, made.text
    with closing(_connect(tmp_path)) as database:
        found = database.execute("select ip from hourbell_audit where action = 'job.create' order by id").fetchall()
    assert found == [("127.0.0.1",), ("203.0.113.9",)]


def test_a_misspelled_variable_is_refused_at_start_with_the_name_that_was_meant(serve: Serve, tmp_path: Path) -> None:
    server = serve("127.0.0.1:0", HOURBELL_ALOW_NETWORKS="10.0.0.0/8")

    assert server.wait(60) == 2
    assert server.log == "error: HOURBELL_ALOW_NETWORKS is not a setting; did you mean HOURBELL_ALLOW_NETWORKS?\n"
    assert [path.name for path in tmp_path.iterdir()] == ["server.log"]


def test_another_unknown_variable_is_logged_but_not_those_of_kubernetes(serve: Serve) -> None:
    kubernetes = {
        "HOURBELL_PORT": "tcp://10.96.0.17:8080",
        "HOURBELL_SERVICE_HOST": "10.96.0.17",
        "HOURBELL_SERVICE_PORT": "8080",
        "HOURBELL_SERVICE_PORT_HTTP": "8080",
        "HOURBELL_PORT_8080_TCP_ADDR": "10.96.0.17",
    }
    server = serve("127.0.0.1:0", HOURBELL_VERSION="1.2", **kubernetes).wait_until_serving()

    assert [event["variable"] for event in server.events if event["level"] == "warning"] == ["HOURBELL_VERSION"]


def test_the_files_of_a_server_are_for_its_user_alone_also_without_a_umask(serve: Serve, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        serve("127.0.0.1:0").wait_until_serving()
    finally:
        os.umask(before)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("hourbell.db*")}
    assert modes == dict.fromkeys(["hourbell.db", "hourbell.db-wal", "hourbell.db-shm", "hourbell.db.key"], 0o600)


def test_a_server_runs_with_a_file_that_everybody_may_read_and_logs_the_fix(serve: Serve, tmp_path: Path) -> None:
    make_token(tmp_path)
    (tmp_path / "hourbell.db").chmod(0o644)
    server = serve("127.0.0.1:0").wait_until_serving()

    [reported] = [event for event in server.events if event["level"] == "warning"]
    path = tmp_path / "hourbell.db"
    assert (reported["event"], reported["files"]) == ("database_exposed", [str(path), f"{path}-wal", f"{path}-shm"])
    assert f"run: chmod o-rwx {path} {path}-wal {path}-shm" in reported["hint"]


def a_job(name: str, url: str) -> dict[str, object]:
    target = {"type": "http", "method": "GET", "url": url}
    return {"name": name, "schedule": "0 0 1 1 *", "target": target, "retry": "none"}


def ran(server: Server, url: str, name: str, text: str | None) -> dict[str, Any]:
    """A run of a job that calls the URL, after it has ended."""
    call(server, "POST", "/api/v1/jobs", text, json=a_job(name, url))
    run = call(server, "POST", f"/api/v1/jobs/{name}/trigger", text).json()["run_id"]
    until(lambda: call(server, "GET", f"/api/v1/runs/{run}", text).json()["state"] in ("succeeded", "failed"))
    found: dict[str, Any] = call(server, "GET", f"/api/v1/runs/{run}", text).json()
    return found


def call(server: Server, method: str, path: str, text: str | None, **more: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {text}"} if text else {}
    return httpx.request(method, server.url + path, headers=headers, timeout=30, trust_env=False, **more)


def elsewhere() -> str:
    """An address of this machine that others can reach; all of its addresses, if there is no other."""
    own = [str(each) for each in own_addresses() if each.version == 4 and not each.is_loopback]
    return f"{own[0]}:0" if own else "0.0.0.0:0"


def status(server: Server, text: str | None, path: str = "/api/v1/jobs") -> int:
    headers = {"Authorization": f"Bearer {text}"} if text else {}
    url = server.url.replace("0.0.0.0", "127.0.0.1")
    return httpx.get(url + path, headers=headers, timeout=30, trust_env=False).status_code


def raw(server: Server, method: str, *headers: str, target: str = "/api/v1/jobs", version: str = "1.1") -> int:
    """The status of an answer to exactly these lines."""
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    body = json.dumps({"name": 1}) if method == "POST" else ""
    more = [f"Content-Length: {len(body)}", "Content-Type: application/json", "Connection: close"]
    lines = [f"{method} {target} HTTP/{version}", *headers, *more, "", body]
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall("\r\n".join(lines).encode())
        answer = connection.makefile("rb").readline()
    return int(answer.split()[1])
