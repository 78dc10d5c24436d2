"""Huey on SQLite: its consumer with threads, looking every 10 ms, no results kept, as durable as SQLite by default."""

import json
import sqlite3
import sys
from pathlib import Path
from secrets import token_hex

import huey

from bench.queues.harness import Notes

_DELAY = 0.01  # seconds
_COPY = """with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?1)
insert into task (queue, data, priority) select 'bench', data, 0 from numbers, held"""


class Queue:
    storage = "SQLite"

    def __init__(self, folder: Path, threads: int) -> None:
        self.name = f"Huey, {threads} thread{'s' if threads > 1 else ''}"
        self.how = f"SqliteHuey, WAL, results off, {threads} × thread worker, delay {_DELAY}"
        self._threads = threads
        self._path = str(folder / f"{token_hex(4)}.huey.db")
        made, noop = _made(self._path)
        made.enqueue(noop.s())
        self._connection = sqlite3.connect(self._path, isolation_level=None, timeout=10)
        self._connection.execute("create table held as select data from task")
        self._connection.execute("delete from task")
        self._count = 0

    def command(self) -> tuple[list[str], dict[str, str]]:
        return [
            sys.executable,
            "-m",
            "bench.queues.huey",
            json.dumps({"path": self._path, "threads": self._threads}),
        ], {}

    def hold(self, count: int) -> None:
        self._count = count

    def release(self) -> None:
        self._connection.execute(_COPY, (self._count,))

    def is_empty(self) -> bool:
        return not self._connection.execute("select 1 from task limit 1").fetchall()

    def cpu(self) -> None:
        return None


def _made(path: str, notes: Notes | None = None) -> tuple[huey.SqliteHuey, huey.api.TaskWrapper]:
    made = huey.SqliteHuey("bench", filename=path, results=False)

    @made.task(name="noop")  # type: ignore[untyped-decorator]
    def noop() -> None:
        if notes is not None:
            notes.call()

    return made, noop


def main(path: str, threads: int) -> None:
    made, _ = _made(path, Notes())
    made.create_consumer(workers=threads, periodic=False, initial_delay=_DELAY, max_delay=_DELAY).run()


if __name__ == "__main__":
    from bench.queues.huey import main  # Huey knows a task by the module that made it

    main(**json.loads(sys.argv[1]))
