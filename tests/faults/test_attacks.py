"""While each attack of a cheap client runs, an every-second job of another owner begins as early as in quiet times."""

import asyncio
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from hourbell.core.access.token_text import token_text
from tests.database import Database
from tests.faults.databases import database_for, url_of
from tests.faults.process import Server
from tests.faults.verdict import Backend

pytestmark = [pytest.mark.full, pytest.mark.anyio]

SECONDS = 5.0  # of quiet, and of each attack
ADDED_SECONDS = 1.0  # that an attack may add to the largest lateness
ATTACKERS = 4
READERS = 20
HISTORY = 100_000  # runs of one job, a third of which failed
KEPT = 1_000  # connections that one attacker holds
TICKING = """
import time
from hourbell import Scheduler

scheduler = Scheduler(source="ticks")

@scheduler.job("* * * * * *")
async def tick(run):
    with open("ticks", "a") as ticks:
        ticks.write(f"{time.time() - run.scheduled_at.timestamp():.4f}\\n")
"""
HOST = "Host: localhost\r\n"
NDJSON = {"Content-Type": "application/x-ndjson"}


class Target:
    """The attacked server, and the attacker's tokens."""

    def __init__(self, server: Server, tokens: dict[str, str]) -> None:
        host, _, port = server.url.removeprefix("http://").partition(":")
        self.address = (host, int(port))
        self.tokens = tokens

    def raw(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=5)

    def bearer(self, role: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[role]}"}

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> int:
        connection = http.client.HTTPConnection(*self.address, timeout=5)
        with closing(connection):
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            return connection.getresponse().status


Attack = Callable[[Target, threading.Event], None]


@contextmanager
def keeping() -> Iterator[Callable[[socket.socket], socket.socket]]:
    """Keep sockets open, the last `KEPT` of them, so that the attacker has descriptors left itself."""
    kept: deque[socket.socket] = deque()

    def keep(raw: socket.socket) -> socket.socket:
        kept.append(raw)
        if len(kept) > KEPT:
            kept.popleft().close()
        return raw

    try:
        yield keep
    finally:
        for raw in kept:
            raw.close()


def half_open(target: Target, stop: threading.Event) -> None:
    with keeping() as keep:
        while not stop.is_set():
            with suppress(OSError):
                keep(target.raw())


def trickling_headers(target: Target, stop: threading.Event) -> None:
    with ExitStack() as stack:
        raws = [stack.enter_context(closing(target.raw())) for _ in range(40)]
        while not stop.is_set():
            for raw in raws:
                with suppress(OSError):
                    raw.sendall(b"X")
            time.sleep(0.01)


def trickling_bodies(target: Target, stop: threading.Event) -> None:
    with ExitStack() as stack:
        raws = [stack.enter_context(closing(target.raw())) for _ in range(40)]
        for raw in raws:
            raw.sendall(f"POST /api/v1/jobs HTTP/1.1\r\n{HOST}Content-Length: 1000000\r\n\r\n".encode())
        while not stop.is_set():
            for raw in raws:
                with suppress(OSError):
                    raw.sendall(b" ")
            time.sleep(0.01)


def tiny_chunks(target: Target, stop: threading.Event) -> None:
    head = f"POST /api/v1/jobs HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n".encode()
    while not stop.is_set():
        with suppress(OSError), closing(target.raw()) as raw:
            raw.sendall(head + b"1\r\n \r\n" * 100_000)


def delete_session(target: Target, stop: threading.Event) -> None:
    query = "&".join(f"take_ove{number}=" for number in range(1_500))
    flood(target, stop, lambda: target.ask("DELETE", f"/api/v1/jobs/session?{query}"))


def wrong_tokens(target: Target, stop: threading.Event) -> None:
    def guess() -> None:
        target.ask("GET", "/api/v1/jobs", Authorization=f"Bearer {token_text(os.urandom(32))}")

    flood(target, stop, guess)


def readiness(target: Target, stop: threading.Event) -> None:
    flood(target, stop, lambda: target.ask("GET", "/health/ready"))


def ambiguous_requests(target: Target, stop: threading.Event) -> None:
    shape = f"POST /api/v1/jobs HTTP/1.1\r\n{HOST}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"

    def send() -> None:
        with closing(target.raw()) as raw:
            raw.sendall(shape.encode())
            raw.recv(1_000)

    flood(target, stop, send)


def event_streams(target: Target, stop: threading.Event) -> None:
    head = f"GET /api/v1/events HTTP/1.1\r\n{HOST}Authorization: {target.bearer('viewer')['Authorization']}\r\n\r\n"
    with keeping() as keep:
        while not stop.is_set():
            with suppress(OSError):
                raw = keep(target.raw())
                raw.sendall(head.encode())
                raw.recv(1_000)


def triggers(target: Target, stop: threading.Event) -> None:
    flood(target, stop, lambda: target.ask("POST", "/api/v1/jobs/hung/trigger", **target.bearer("operator")))


def import_of_nothing(target: Target, stop: threading.Event) -> None:
    flood(
        target,
        stop,
        lambda: target.ask("POST", "/api/v1/jobs/import", b"\n" * 3_000_000, **NDJSON, **target.bearer("editor")),
    )


def import_of_jobs(target: Target, stop: threading.Event) -> None:
    job = {"schedule": "@yearly", "target": {"type": "http", "url": "http://127.0.0.1:9/"}}
    body = b"".join(json.dumps({"name": f"job-{number}", **job}).encode() + b"\n" for number in range(20_000))
    flood(
        target,
        stop,
        lambda: target.ask("POST", "/api/v1/jobs/import", body, **NDJSON, **target.bearer("editor")),
    )


def unknown_fields(target: Target, stop: threading.Event) -> None:
    body = json.dumps({f"schedul{number}": 1 for number in range(40_000)}).encode()
    headers = {"Content-Type": "application/json", **target.bearer("editor")}
    flood(target, stop, lambda: target.ask("POST", "/api/v1/jobs", body, **headers))


def flood(_target: Target, stop: threading.Event, ask: Callable[[], object]) -> None:
    while not stop.is_set():
        with suppress(OSError, http.client.HTTPException):
            ask()


ATTACKS: list[Attack] = [
    half_open,
    trickling_headers,
    trickling_bodies,
    tiny_chunks,
    delete_session,
    wrong_tokens,
    readiness,
    ambiguous_requests,
    event_streams,
    triggers,
    import_of_nothing,
    import_of_jobs,
    unknown_fields,
]


def test_no_attack_delays_the_job_of_another_owner(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(TICKING)
    tokens = {role: make_token(tmp_path, role) for role in ("viewer", "operator", "editor")}
    with Server(tmp_path, "--app", "app:scheduler", HOURBELL_ALLOW_NETWORKS="127.0.0.0/8") as server:
        target = Target(server.wait_until_serving(), tokens)
        job = {"name": "hung", "schedule": "@yearly", "target": {"type": "http", "url": "http://127.0.0.1:9/"}}
        made = target.ask("POST", "/api/v1/jobs", json.dumps(job).encode(), **as_json(target.bearer("editor")))
        assert made == 201
        time.sleep(2)  # the first ticks bring their own start-up
        quiet = lateness_during(tmp_path, lambda: time.sleep(SECONDS))
        measured = {}
        for attack in ATTACKS:
            with attacking(target, attack):
                time.sleep(0.5)
                measured[attack.__name__] = lateness_during(tmp_path, lambda: time.sleep(SECONDS))
            assert server.is_running

    print(f"quiet: {max(quiet):.3f} s, {len(quiet)} ticks")
    for name, seconds in measured.items():
        print(f"{name}: {max(seconds, default=-1):.3f} s, {len(seconds)} ticks")
    assert [name for name, seconds in measured.items() if len(seconds) < SECONDS - 2] == []
    assert {name: max(late) for name, late in measured.items() if max(late) > max(quiet) + ADDED_SECONDS} == {}


# What many callers of one token may ask for, of a job with a long history or of 2,000 jobs: role, path and body.
REQUESTS: dict[str, tuple[str, str, object]] = {
    "days": ("viewer", "jobs/big/days", None),
    "times": ("viewer", "jobs/big/times?limit=500&fate=late", None),
    "series": ("viewer", "jobs/big/series?limit=500", None),
    "stats": ("viewer", "jobs/big/stats?since=2020-01-01T00:00:00Z", None),
    "groups": ("viewer", "runs/groups?limit=500", None),
    "timeline": ("viewer", "timeline?limit=100&max_marks=500", None),
    "recent": ("viewer", "jobs?limit=100&recent=50", None),
    "count in bulk": ("operator", "jobs/bulk?dry_run=true", {"action": "pause", "filter": {"all": True}}),
    "replay in bulk": ("operator", "runs/replay?dry_run=true", {"fingerprint": "0" * 16}),
    "pause in bulk": ("operator", "jobs/bulk", {"action": "pause", "filter": {"q": "many-"}}),
    "trigger in bulk": ("operator", "jobs/bulk", {"action": "trigger", "filter": {"q": "many-"}}),
    "convert a crontab": ("editor", "jobs/convert", {"format": "crontab", "text": "* * * * * a\n" * 80_000}),
    "convert YAML": ("editor", "jobs/convert", {"format": "jobs-file", "text": "job: [\n" + "x,\n" * 20_000 + "]"}),
}
_RUNS = """
insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, state, reason,
                           rank, lane, attempt, failures, planned_at, started_at, finished_at)
{numbers}
select {id}, j.id, 1, 'scheduled', {at}, {local}, {at}, {at}, case when n.i % 3 = 0 then 'failed' else 'succeeded' end,
       case when n.i % 3 = 0 then 'permanent' end, 1, 'http://127.0.0.1:9', 1, 0, {at}, {begun}, {begun}
from n cross join hourbell.jobs j
where j.name = 'big'
"""
_NUMBERS = f"with recursive n (i) as (select 1 union all select i + 1 from n where i < {HISTORY})"
_POSTGRES_AT = "date_trunc('second', now()) - make_interval(secs => n.i * 50 + 1000)"
_SQLITE_AT = "(unixepoch() - n.i * 50 - 1000) * 1000000"
_TIMES = {
    "postgres": {
        "id": "gen_random_uuid()",
        "at": _POSTGRES_AT,
        "local": f"({_POSTGRES_AT}) at time zone 'UTC'",
        "begun": f"{_POSTGRES_AT} + interval '400 s'",
    },
    "sqlite": {"id": "randomblob(16)", "at": _SQLITE_AT, "local": _SQLITE_AT, "begun": f"{_SQLITE_AT} + 400000000"},
}


async def write_history(database: Database, kind: Backend) -> None:
    """Give the job `big` a long history, as of weeks."""
    await database.sql(_RUNS.format(numbers=_NUMBERS, **_TIMES[kind]))
    await database.sql("analyze")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_no_reads_or_bulk_actions_delay_the_job_of_another_owner(kind: Backend, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(TICKING)
    settings = {"HOURBELL_ALLOW_NETWORKS": "127.0.0.0/8", "HOURBELL_SECRET_KEY": "a" * 43 + "="}
    measured = {}
    async with database_for(kind) as database:
        url = url_of(database)
        tokens = {role: make_token(tmp_path, role, url) for role in ("viewer", "operator", "editor")}
        with Server(tmp_path, "--app", "app:scheduler", DATABASE_URL=url, **settings) as server:
            target = Target(server.wait_until_serving(), tokens)
            import_jobs(target)
            await write_history(database, kind)
            await asyncio.sleep(3)
            quiet = lateness_during(tmp_path, lambda: time.sleep(SECONDS))
            for name, (role, path, body) in REQUESTS.items():
                with attacking(target, many_requests(role, path, body), READERS):
                    time.sleep(0.5)
                    measured[name] = lateness_during(tmp_path, lambda: time.sleep(SECONDS))
                assert server.is_running

    print(f"{kind}, quiet: {max(quiet):.3f} s, {len(quiet)} ticks")
    for name, seconds in measured.items():
        print(f"{name}: {max(seconds, default=-1):.3f} s, {len(seconds)} ticks")
    assert [name for name, seconds in measured.items() if len(seconds) < SECONDS - 2] == []
    assert {name: max(late) for name, late in measured.items() if max(late) > max(quiet) + ADDED_SECONDS} == {}


def import_jobs(target: Target) -> None:
    job = {"schedule": "@yearly", "target": {"type": "http", "url": "http://127.0.0.1:9/"}}
    names = ["big", *(f"many-{number}" for number in range(2_000))]
    body = b"".join(json.dumps({"name": name, **job}).encode() + b"\n" for name in names)
    assert target.ask("POST", "/api/v1/jobs/import", body, **NDJSON, **target.bearer("editor")) == 200


def many_requests(role: str, path: str, body: object) -> Attack:
    def attack(target: Target, stop: threading.Event) -> None:
        method, data = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
        headers = target.bearer(role) if body is None else as_json(target.bearer(role))
        flood(target, stop, lambda: target.ask(method, f"/api/v1/{path}", data, **headers))  # gives up after 5 s

    return attack


def make_token(folder: Path, role: str, database: str | None = None) -> str:
    command = [sys.executable, "-m", "hourbell", "token", "create", role, "--role", role, "--json"]
    settings = os.environ if database is None else {**os.environ, "DATABASE_URL": database}
    made = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, env=settings)
    return str(json.loads(made.stdout)["token"])


def as_json(headers: dict[str, str]) -> dict[str, str]:
    return {"Content-Type": "application/json", **headers}


def lateness_during(folder: Path, wait: Callable[[], None]) -> list[float]:
    """The seconds by which each tick of that time was late."""
    before = len(ticks_of(folder))
    wait()
    return ticks_of(folder)[before:]


def ticks_of(folder: Path) -> list[float]:
    path = folder / "ticks"
    return [float(line) for line in path.read_text().splitlines()] if path.exists() else []


@contextmanager
def attacking(target: Target, attack: Attack, attackers: int = ATTACKERS) -> Iterator[None]:
    stop = threading.Event()
    threads = [threading.Thread(target=attack, args=(target, stop)) for _ in range(attackers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
