"""A PostgreSQL server of its own, which keeps what it has acknowledged, and may be crashed, copied and put back.

Two of them can be a primary and its standby, which change roles.
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import asyncpg
import psycopg

from tests.database import PostgresDatabase
from tests.server import crash, make_data, make_folder, run_program, start, watch

# What a durable database has, said aloud: a crash must find everything that was committed.
_DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
_SMALL = {"listen_addresses": "", "max_wal_size": "512MB"}  # besides short segments: a copy is quickly made


class ClusterDatabase(PostgresDatabase):
    """The one database of a cluster."""

    async def close(self) -> None:
        for each in self._opened:
            await each.close()
        await self.connection.close()


class Cluster:
    """Runs while its context is open. It ends and its folder goes then, also if this process is killed."""

    def __init__(self, *, copy_of: "Cluster | None" = None, **settings: str) -> None:
        """A standby of `copy_of`, or an empty primary."""
        self._settings = _DURABLE | _SMALL | settings
        self._copied = copy_of
        self._folder = Path(tempfile.mkdtemp(prefix="hourbell-cluster-"))
        (self._folder / "pytest").write_text(str(os.getpid()))

    def __enter__(self) -> Self:
        try:
            if self._copied is None:
                make_data(self._folder, "--wal-segsize=1")
                watch(self._folder)
                self.start()
            else:
                make_folder(self._folder)
                watch(self._folder)
                self._copied.copy_to(self._data)
                self.start_as_standby_of(self._copied)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self._folder}"

    @property
    def host(self) -> Path:
        """The folder of its socket."""
        return self._folder

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[ClusterDatabase]:
        """Its tables. A crash closes this view, too."""
        connection = await asyncpg.connect(self.url)
        await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
        database = ClusterDatabase(self.url, connection)
        try:
            yield database
        finally:
            await database.close()

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text("utf-8", errors="replace")

    @property
    def is_running(self) -> bool:
        return (self._data / "postmaster.pid").exists()

    def start(self) -> None:
        """Accepts connections when this returns: what a crash left half done is repaired by then."""
        start(self._folder, self._settings)

    def start_as_standby_of(self, primary: "Cluster") -> None:
        """Start read-only, and follow this one; accepts connections when this returns."""
        signal = self._data / "standby.signal"
        signal.touch()
        shutil.chown(signal, self._folder.owner())
        start(self._folder, self._settings | {"primary_conninfo": f"host={primary.host} user=postgres"})

    def configure(self, **settings: str) -> None:
        """Change settings of the running server; every session has them from its next statement on.

        A value is written as `show` shows it.
        """
        with (self._data / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        run_program(self._folder, "pg_ctl", "-D", self._data, "reload")
        while any(self._shown(name) != value for name, value in settings.items()):
            time.sleep(0.01)

    def _shown(self, name: str) -> str:
        with psycopg.connect(host=str(self._folder), user="postgres") as connection:
            row = connection.execute("select current_setting(%s)", [name]).fetchone()
            assert row is not None
            return str(row[0])

    def promote(self) -> None:
        """Make a standby a primary: it accepts writes when this returns."""
        run_program(self._folder, "pg_ctl", "-D", self._data, "-w", "promote")

    def stop(self) -> None:
        """End every session and stop in order: a standby that follows has all there is."""
        run_program(self._folder, "pg_ctl", "-D", self._data, "-m", "fast", "-w", "stop")

    def crash(self) -> None:
        """Every session ends at once, and nothing more is written."""
        crash(self._folder)

    def back_up(self, name: str) -> None:
        """Copy the database as it is at this moment, while it is at work."""
        self.copy_to(self._folder / name)

    def copy_to(self, folder: Path) -> None:
        how = ("--checkpoint=fast", "--wal-method=stream", "--no-sync")
        run_program(self._folder, "pg_basebackup", "-h", self._folder, "-U", "postgres", "-D", folder, *how)

    def restore(self, name: str) -> None:
        """Crash, and come back as the copy was: what was committed since has never happened. The copy is used up."""
        if self.is_running:
            self.crash()
        self._data.rename(self._folder / f"before-{name}")  # removing it takes seconds, and the nodes wait
        (self._folder / name).rename(self._data)
        self.start()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _remove(self) -> None:
        try:
            if self.is_running:
                self.crash()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
