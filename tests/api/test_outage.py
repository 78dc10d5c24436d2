"""An unreachable database: every call reports it, the process stays alive, and everything resumes by itself."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from random import Random
from uuid import uuid4

import apsw
import httpx
import pytest
from click.testing import CliRunner

from hourbell.cli.main import hourbell
from hourbell.clock import elapsed
from hourbell.store.postgres.connections import Connections
from hourbell.store.sqlite.connection import Patience, open_connection
from hourbell.store.sqlite.writer import WriterThread
from tests.api.whole import Whole, a_job, whole_api
from tests.database import PostgresDatabase
from tests.faults.cluster import Cluster
from tests.faults.process import Server
from tests.faults.proxy import Proxy
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio

LONG = 30.0  # seconds for what takes no time on an idle machine
RUN = f"/api/v1/runs/{uuid4()}"
READS = [
    "/api/v1/jobs",
    "/api/v1/jobs/report",
    "/api/v1/jobs/report/runs",
    "/api/v1/jobs/report/upcoming",
    "/api/v1/runs",
    RUN,
    "/api/v1/audit",
    "/api/v1/nodes",
    "/api/v1/forecast",
]
CHANGES: list[tuple[str, str, object]] = [
    ("POST", "/api/v1/jobs", a_job("other")),
    ("PUT", "/api/v1/jobs/report", a_job(description="put")),
    ("PATCH", "/api/v1/jobs/report", {"description": "patched"}),
    ("POST", "/api/v1/jobs/report/pause", {}),
    ("POST", "/api/v1/jobs/report/trigger", {}),
    ("POST", f"{RUN}/cancel", None),
    ("DELETE", "/api/v1/jobs/report", None),
]


def assert_unavailable(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json"), answer.text
    assert answer.json()["code"] == "database_unavailable"
    assert 1 <= int(answer.headers["retry-after"]) <= 60


class Impatient(WriterThread):
    """Gives up on a lock sooner than the ten seconds of a server."""

    def _connected(self) -> apsw.Connection:
        if self._connection is None:
            self._connection, self._files = self._file.open(Patience(Random(1), limit=0.2))
            self._checkpoints.watch(self._connection)
        return self._connection


class ShortLine(PostgresDatabase):
    """Gives up on an answer sooner than the thirty seconds of a server."""

    def connections(self, size: int = 2, *, by_key: bool = False) -> Connections:
        self._opened.append(Connections(self.url, size=size, timeout=0.5, by_key=by_key))
        return self._opened[-1]


@pytest.fixture
async def on_sqlite(tmp_path: Path) -> AsyncIterator[tuple[Whole, Path]]:
    """The API on a database that is a file in a folder of its own."""
    folder = tmp_path / "data"
    folder.mkdir()
    path = str(folder / "hourbell.db")
    open_connection(path, Patience(Random(1))).close()
    database = SqliteDatabase(path, lambda: Impatient(path))
    await database.migrate()
    async with whole_api(database) as api:
        yield api, folder
    for runner in database._opened:
        await runner.close()
    database.connection.close()


async def test_changes_wait_for_a_locked_file_and_then_fail_with_a_clear_error(on_sqlite: tuple[Whole, Path]) -> None:
    api, _ = on_sqlite
    await api.job()
    api.database.connection.execute("begin immediate")  # type: ignore[attr-defined]

    for method, path, body in CHANGES:
        if path.startswith(RUN):
            continue
        assert_unavailable(await api.client.request(method, path, json=body))
    assert (await api.client.get("/api/v1/jobs/report")).status_code == 200  # readers do not wait for writers
    assert (await api.client.get("/health")).status_code == 200

    api.database.connection.execute("rollback")  # type: ignore[attr-defined]
    assert (await api.client.post("/api/v1/jobs", json=a_job("other"))).status_code == 201
    assert len(await api.database.rows("audit")) == 2


async def test_a_missing_file_is_an_outage_until_it_is_back(on_sqlite: tuple[Whole, Path]) -> None:
    api, folder = on_sqlite
    await api.job()
    for runner in api.database._opened:  # type: ignore[attr-defined]
        await runner.close()
    hidden = folder.rename(folder.with_name("hidden"))

    for method, path, body in [*(("GET", path, None) for path in READS), *CHANGES]:
        assert_unavailable(await api.client.request(method, path, json=body))
    assert (await api.client.get("/health")).status_code == 200

    hidden.rename(folder)
    assert (await api.client.get("/api/v1/jobs/report")).status_code == 200
    assert (await api.client.patch("/api/v1/jobs/report", json={"description": "new"})).status_code == 200


async def test_requests_end_with_an_answer_when_the_database_connection_hangs(postgres: PostgresDatabase) -> None:
    async with AsyncExitStack() as stack:
        proxy = stack.enter_context(Proxy(postgres.url))
        database = ShortLine(proxy.url, postgres.connection)
        api = await stack.enter_async_context(whole_api(database))
        await api.job()
        proxy.stop()

        assert_unavailable(await api.client.get("/api/v1/jobs/report"))
        assert_unavailable(await api.client.post("/api/v1/jobs", json=a_job("other")))

        proxy.restore()
        assert (await api.client.get("/api/v1/jobs/report")).status_code == 200
        for each in database._opened:
            await each.close()


def test_the_api_recovers_after_postgresql_was_stopped(tmp_path: Path) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster())
        server = stack.enter_context(Server(tmp_path, DATABASE_URL=cluster.url)).wait_until_serving()
        client = stack.enter_context(httpx.Client(base_url=server.url, timeout=LONG, trust_env=False))
        assert client.post("/api/v1/jobs", json=a_job(target={"type": "task", "name": "x"})).status_code == 201
        cluster.crash()

        for method, path, body in [*(("GET", path, None) for path in READS), *CHANGES]:
            assert_unavailable(client.request(method, path, json=body))
            keyed = {"Idempotency-Key": "a key"}
            assert_unavailable(client.request(method, path, json=body, headers=keyed))
        assert client.get("/health").status_code == 200
        assert client.get("/health/ready").status_code == 503
        assert client.get("/metrics").status_code == 200

        cluster.start()
        end = elapsed() + LONG
        while client.get("/health/ready").status_code != 200:
            assert elapsed() < end, "it does not become ready again"
        assert client.get("/api/v1/jobs/report").json()["description"] == ""
        assert client.post("/api/v1/jobs", json=a_job("other"), headers={"Idempotency-Key": "a key"}).is_success
        assert "request_failed" not in server.names


def test_a_read_only_postgresql_is_reported_everywhere_and_the_api_recovers(tmp_path: Path) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster())
        server = stack.enter_context(Server(tmp_path, DATABASE_URL=cluster.url)).wait_until_serving()
        client = stack.enter_context(httpx.Client(base_url=server.url, timeout=LONG, trust_env=False))
        assert client.post("/api/v1/jobs", json=a_job(target={"type": "task", "name": "x"})).status_code == 201
        for path in READS:  # so that sessions of the API's pool are open
            client.get(path)
        cluster.configure(default_transaction_read_only="on")

        ready = client.get("/health/ready")
        assert (ready.status_code, ready.json()["database"]["reachable"]) == (503, True)
        assert ready.json()["database"]["problem"].startswith(
            "the database is read-only: default_transaction_read_only "
        )
        for method, path, body in [*CHANGES, *(("GET", path, None) for path in READS)]:
            answer = client.request(method, path, json=body)
            assert_unavailable(answer)
            assert answer.json()["detail"].startswith("The database is read-only; ")
        status = CliRunner().invoke(hourbell, ["status", "--server", server.url])
        assert (status.exit_code, "the database is read-only: " in status.output) == (1, True), status.output
        doctor = CliRunner().invoke(hourbell, ["doctor", "--database-url", cluster.url])
        assert (doctor.exit_code, "error database_read_only (1): " in doctor.output) == (1, True), doctor.output
        second = stack.enter_context(Server(tmp_path, name="second", DATABASE_URL=cluster.url))
        assert second.wait(LONG) == 1
        assert "error: the database is read-only (" in second.log

        cluster.configure(default_transaction_read_only="off")
        end = elapsed() + LONG
        while client.get("/health/ready").status_code != 200:
            assert elapsed() < end, "it does not become ready again"
        assert client.post("/api/v1/jobs", json=a_job("other")).status_code == 201
        assert "request_failed" not in server.names
