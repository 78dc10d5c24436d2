"""A drain alone on SQLite: one connection, durable like our own, claims and settles a thousand runs in turn.

For each run it writes what a node writes: the claim, the end, the attempt, and for each batch the statistics of its
jobs. Values are bound row by row, which costs less than JSON that is read again.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from uuid import uuid4

import apsw

_LEASE = 60_000_000  # microseconds
_LINE = """select id, job_id, rowid from hourbell_runs
where lane = ? and rank = 1 and state in ('pending', 'retrying') and ready_at <= ? order by ready_at, rowid limit ?"""
_CLAIM = """update hourbell_runs
set state = 'running', attempt = attempt + 1, lease_owner = ?, lease_until = ?, started_at = ? where rowid = ?"""
_END = """update hourbell_runs
set state = 'succeeded', finished_at = ?, lease_owner = null, lease_until = null where id = ? and attempt = 1"""
_TRY = """insert into hourbell_attempts (run_id, number, node, started_at, finished_at, outcome)
values (?, 1, ?, ?, ?, 'succeeded')"""
_COUNT = """insert into hourbell_job_stats (job_id, last_run_id, last_run_at, last_state, last_success_at, succeeded)
values (?1, ?2, ?3, 'succeeded', ?3, ?4)
on conflict (job_id) do update
set last_run_id = ?2, last_run_at = ?3, last_state = 'succeeded', last_success_at = ?3, succeeded = succeeded + ?4"""


def drain(url: str, lane: str, batch: int, ready: Callable[[], None]) -> float:
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    connection.set_busy_timeout(10_000)
    for setting in ("synchronous = full", "foreign_keys = on", "temp_store = memory", "cache_size = -65536"):
        connection.execute(f"pragma {setting}").fetchall()
    connection.execute("pragma wal_autocheckpoint = 4000").fetchall()
    node = uuid4().bytes
    ready()
    start = time.perf_counter()
    while True:
        now = int(time.time() * 1e6)
        connection.execute("begin immediate")
        rows = connection.execute(_LINE, (lane, now, batch)).fetchall()
        connection.executemany(_CLAIM, ((node, now + _LEASE, now, row_id) for *_, row_id in rows))
        connection.execute("commit")
        if not rows:
            break
        end = int(time.time() * 1e6)
        last = {job: run for run, job, _ in rows}
        connection.execute("begin immediate")
        connection.executemany(_END, ((end, run) for run, *_ in rows))
        connection.executemany(_TRY, ((run, node, now, end) for run, *_ in rows))
        counts = Counter(job for _, job, _ in rows)
        connection.executemany(_COUNT, ((job, last[job], end, count) for job, count in counts.items()))
        connection.execute("commit")
    seconds = time.perf_counter() - start
    connection.close()
    return seconds


def _ready() -> None:
    print(json.dumps("ready"), flush=True)
    sys.stdin.readline()


def main(url: str, lane: str, batch: int) -> None:
    print(json.dumps(drain(url, lane, batch, _ready)), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
