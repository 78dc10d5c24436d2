"""The examples of docs/security-checklist.md work: its commands, its proxy and its roles."""

import os
import re
import secrets
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg
import httpx
import pytest

from hourbell.settings import load_settings
from hourbell.wiring import examine_database, open_stores
from tests.api.shown import is_as_shown, steps_of
from tests.faults.process import Server
from tests.server import server_url

PAGE = Path(__file__).parents[1] / "docs" / "security-checklist.md"
BIN = Path(sys.executable).parent
NAME, CALLER = "hourbell.example.com", "203.0.113.9"
SAME = {"Origin": f"https://{NAME}", "Sec-Fetch-Site": "same-origin"}


def block(language: str) -> str:
    [found] = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return str(found)


class Nginx:
    """Does to a request what the example on the page tells nginx to do."""

    def __init__(self, server: Server) -> None:
        [location] = re.findall(r"location / \{(.*?)\}", block("nginx"), re.DOTALL)
        self._directives = [line.strip().rstrip(";").split(None, 1) for line in location.strip().splitlines()]
        self._url = server.url

    def values(self, name: str) -> list[str]:
        return [value for each, value in self._directives if each == name]

    def pass_on(
        self, method: str, path: str, headers: dict[str, str] | None = None, *, json: object = None
    ) -> httpx.Response:
        variables = {"$host": NAME, "$remote_addr": CALLER, "$scheme": "https", '""': ""}
        sent = dict(headers or {})
        for line in self.values("proxy_set_header"):
            name, _, value = line.partition(" ")
            sent[name] = variables[value.strip()]
        sent = {name: value for name, value in sent.items() if value}
        return httpx.request(method, self._url + path, headers=sent, json=json, timeout=30, trust_env=False)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    settings = dict(line.split("=", 1) for line in block("ini").split())
    with Server(tmp_path, HOURBELL_TRUSTED_PROXIES=settings["HOURBELL_TRUSTED_PROXIES"]) as made:
        yield made.wait_until_serving()


def run(folder: Path, command: str, shown: list[str]) -> str:
    environment = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOURBELL_SLOTS": "1"}  # few descriptors are enough
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"{command}\n{said}"
    assert not shown or is_as_shown(said, shown), f"{command}\n{said}"
    return done.stdout


def admin_of(folder: Path) -> dict[str, str]:
    return {"Authorization": f"Bearer {run(folder, 'hourbell token create admin --role admin', []).strip()}"}


def test_the_commands_of_the_page_lead_to_a_deployment_without_findings(tmp_path: Path) -> None:
    server = Server(tmp_path).wait_until_serving()
    try:
        for step in steps_of(PAGE, "sqlite"):
            if step.command == "systemctl restart hourbell":
                server.signal(signal.SIGTERM)
                assert server.wait(30) == 0
                server = Server(tmp_path).wait_until_serving()
            else:
                run(tmp_path, step.command, step.shown)
    finally:
        server.__exit__(None, None, None)

    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir() if path.name != "server.log"}
    assert set(modes.values()) == {0o600}
    assert {"admin.token", "hourbell.key", "hourbell.db.key", "hourbell.db"} <= modes.keys()


def test_the_proxy_of_the_page_goes_to_where_the_server_listens() -> None:
    address = re.search(r"^HTTP_ADDR=(.*)$", block("ini"), re.MULTILINE)

    assert address is not None
    assert f"proxy_pass         http://{address[1]};" in block("nginx")
    assert "proxy_http_version 1.1;" in block("nginx")


def test_an_open_server_behind_the_proxy_of_the_page_lets_nobody_in(server: Server) -> None:
    proxy = Nginx(server)

    for path in ("/api/v1/jobs", "/metrics", "/docs", "/openapi.json"):
        answer = proxy.pass_on("GET", path)
        assert (answer.status_code, answer.json()["code"]) == (403, "behind_proxy")
    assert proxy.pass_on("GET", "/health").status_code == 200


def test_a_closed_server_behind_the_proxy_knows_who_calls(server: Server, tmp_path: Path) -> None:
    proxy, admin = Nginx(server), admin_of(tmp_path)
    body = {"name": "a", "schedule": "@daily", "target": {"type": "http", "url": "https://example.com/"}}

    assert [proxy.pass_on("GET", path).status_code for path in ("/api/v1/jobs", "/metrics")] == [401, 401]
    assert [proxy.pass_on("GET", path, admin).status_code for path in ("/api/v1/jobs", "/metrics")] == [200, 200]
    assert proxy.pass_on("POST", "/api/v1/jobs", admin, json=body).status_code == 201
    with closing(sqlite3.connect(tmp_path / "hourbell.db")) as database:
        assert database.execute("select ip from hourbell_audit where action = 'job.create'").fetchall() == [(CALLER,)]


def test_a_page_behind_the_proxy_has_its_session(server: Server, tmp_path: Path) -> None:
    proxy, token = Nginx(server), admin_of(tmp_path)["Authorization"].removeprefix("Bearer ")
    begun = proxy.pass_on("POST", "/api/v1/session", SAME, json={"token": token})
    assert begun.status_code == 200, begun.text
    session = {"Cookie": begun.headers["set-cookie"].partition(";")[0], "X-CSRF-Token": begun.json()["csrf_token"]}
    body = {"name": "a", "schedule": "@daily", "target": {"type": "http", "url": "https://example.com/"}}
    foreign = {"Origin": "https://evil.example"}

    assert proxy.pass_on("POST", "/api/v1/jobs", {**SAME, **session}, json=body).status_code == 201
    assert proxy.pass_on("POST", "/api/v1/jobs", {**session, **foreign}, json=body).status_code == 403


@pytest.mark.anyio
async def test_the_role_of_the_page_is_no_superuser_and_owns_a_database_of_its_own() -> None:
    name, server = f"hourbell_{secrets.token_hex(4)}", server_url()
    url = urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    administrator = await asyncpg.connect(server)
    try:
        for statement in filter(str.strip, re.sub(r"\bhourbell\b", name, block("sql")).split(";")):
            await administrator.execute(statement)
        settings = load_settings({"database_url": _as_user(url, name)}, environment={}, folder=Path("/nowhere"))
        stores = open_stores(settings)
        await stores.migrate()
        await stores.close()
        found = {finding.check.name for finding in (await examine_database(settings, production=True)).findings}
        may_connect = await administrator.fetchval("select has_database_privilege('public', $1, 'connect')", name)
    finally:
        await administrator.execute(f"drop database if exists {name} with (force)")
        await administrator.execute(f"drop role if exists {name}")
        await administrator.close()

    assert {"access_open", "key_missing"} <= found
    assert "role_superuser" not in found
    assert may_connect is False


def _as_user(url: str, name: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{name}:{quote('…')}@{parts.netloc.rpartition('@')[2]}"))
