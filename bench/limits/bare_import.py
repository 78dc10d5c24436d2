"""An import alone: lines of JSON parsed, and their rows written a thousand at a time, by one process and nothing else.

Each line costs what it must: JSON, the schedule, its first instant and the target. Nobody asks whether a name is taken,
a field is misspelt or an answer is wanted, and nothing is audited.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import apsw
import asyncpg
import uvloop

from hourbell.core.job.target import parse_target
from hourbell.core.schedule import Schedule
from hourbell.store.sql.queries import load_queries

_AT_ONCE = 1_000
_BY = "bench"
_RETRY = json.dumps("default")
_TAGS = 20  # their place among the columns of a job
_DAY, _FIVE_MINUTES = timedelta(days=1), timedelta(minutes=5)
_MICROSECOND = timedelta(microseconds=1)

Job = tuple[Any, ...]
Version = tuple[UUID, int, str]


def _read(line: bytes, now: datetime) -> tuple[Job, Version]:
    """The columns of a job as `insert_jobs` takes them, and of its version. What is absent has its default."""
    body = json.loads(line)
    name, zone, dst = body["name"], body.get("timezone", "UTC"), body.get("dst", "once")
    schedule = Schedule.parse(body["schedule"], zone, dst, name)
    next_at = schedule.next(now)
    lane = parse_target(body["target"]).lane
    job_id, payload, tags = uuid4(), body.get("payload"), body.get("tags", [])
    definition = {
        "name": name,
        "schedule": schedule.expression,
        "target": body["target"],
        "timezone": zone,
        "dst": dst,
        "payload": payload,
        "description": body.get("description", ""),
        "catch_up": "latest",
        "catch_up_window": None,
        "overlap": body.get("overlap", "allow"),
        "retry": "default",
        "delivery": "at_least_once",
        "max_age": 86_400.0,
        "late_after": 300.0,
        "priority": "normal",
        "jitter": 0.0,
        "starts_at": None,
        "ends_at": None,
        "enabled": True,
        "tags": tags,
        "lane": lane,
        "managed_by": "api",
        "source": "",
    }
    job = (
        job_id,
        name,
        definition["description"],
        schedule.expression,
        zone,
        dst,
        json.dumps(body["target"]),
        None if payload is None else json.dumps(payload),
        "latest",
        None,
        definition["overlap"],
        _RETRY,
        "at_least_once",
        _DAY,
        _FIVE_MINUTES,
        "normal",
        timedelta(0),
        None,
        None,
        True,
        tags,
        lane,
        "api",
        "",
        now,
        next_at,
        next_at,
    )
    return job, (job_id, 1, json.dumps(definition))


def _batches(path: str) -> Iterator[tuple[list[Job], list[Version], datetime]]:
    with Path(path).open("rb") as lines:
        while batch := list(islice(lines, _AT_ONCE)):
            now = datetime.now(UTC)
            jobs, versions = zip(*(_read(line, now) for line in batch), strict=True)
            yield list(jobs), list(versions), now


def _warm_up(path: str) -> None:
    """Meet the schedules and zones once, as a server has that runs for a while."""
    for _ in islice(_batches(path), 2):
        pass


class Postgres:
    def __init__(self, url: str, path: str) -> None:
        self._url = url
        self._path = path

    async def run(self, ready: Callable[[], None]) -> float:
        connection = await asyncpg.connect(self._url)
        jobs_in = await connection.prepare(load_queries("hourbell.store.postgres", "control.sql")["insert_jobs"])
        versions_in = await connection.prepare(load_queries("hourbell.store.postgres", "engine.sql")["insert_versions"])
        _warm_up(self._path)
        ready()
        start = time.perf_counter()
        for jobs, versions, now in _batches(self._path):
            columns = [list(column) for column in zip(*jobs, strict=True)]
            columns[_TAGS] = ["{" + ",".join(tags) + "}" for tags in columns[_TAGS]]
            async with connection.transaction():
                await jobs_in.fetch(*columns, now)
                await versions_in.fetch(*map(list, zip(*versions, strict=True)), [now] * len(versions), _BY)
        seconds = time.perf_counter() - start
        await connection.close()
        return seconds


class Sqlite:
    """Row by row: binding a value costs less than writing it into JSON and reading it again."""

    _JOBS = """insert into hourbell_jobs (
        id, name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry,
        delivery, max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, lane, managed_by, source,
        cursor_at, next_at, plan_at, version, saved_version, created_at, updated_at)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,
            ?24, ?25, ?26, ?27, 1, 1, ?25, ?25)"""
    _VERSIONS = "insert into hourbell_job_versions values (?1, ?2, ?3, ?4, ?5)"

    def __init__(self, url: str, path: str) -> None:
        self._database = url.removeprefix("sqlite:///")
        self._path = path

    async def run(self, ready: Callable[[], None]) -> float:
        connection = apsw.Connection(self._database)
        for setting in ("synchronous = full", "foreign_keys = on", "temp_store = memory", "cache_size = -65536"):
            connection.execute(f"pragma {setting}").fetchall()
        connection.execute("pragma wal_autocheckpoint = 4000").fetchall()
        _warm_up(self._path)
        ready()
        start = time.perf_counter()
        for jobs, versions, now in _batches(self._path):
            at = int(now.timestamp() * 1e6)
            connection.execute("begin immediate")
            connection.executemany(self._JOBS, map(self._bound, jobs))
            connection.executemany(self._VERSIONS, ((job_id.bytes, n, text, at, _BY) for job_id, n, text in versions))
            connection.execute("commit")
        seconds = time.perf_counter() - start
        connection.close()
        return seconds

    @staticmethod
    def _bound(job: Job) -> Job:
        now, next_at = int(job[24].timestamp() * 1e6), job[25] and int(job[25].timestamp() * 1e6)
        spans = (job[13] // _MICROSECOND, job[14] // _MICROSECOND, job[15], job[16] // _MICROSECOND)
        tags = json.dumps(job[_TAGS])
        return (job[0].bytes, *job[1:13], *spans, *job[17:_TAGS], tags, *job[21:24], now, next_at, next_at)


def _ready() -> None:
    print(json.dumps("ready"), flush=True)
    sys.stdin.readline()


def main(url: str, path: str) -> None:
    loop = (Sqlite if url.startswith("sqlite:") else Postgres)(url, path)
    print(json.dumps(uvloop.run(loop.run(_ready))), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
