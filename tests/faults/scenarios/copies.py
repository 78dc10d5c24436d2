"""Copies of the SQLite files at random instants while processes write, as a power cut would leave them.

For the moment of a copy every process is stopped where it is, also in the middle of a commit: what lies in the files is
then exactly what was written so far. A copy is opened without the shared memory, which does not survive a power cut.
"""

import asyncio
import shutil
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from hourbell.store.sqlite.writer import WriterThread
from tests.faults.accounts import faults_of, wrong_ids
from tests.faults.books import Books, by_job, check_books, none_of
from tests.faults.databases import come_to_rest, database_for, integrity_of, url_of
from tests.faults.fleet import LEASE, REAP, Fleet
from tests.faults.receiver import Load
from tests.faults.verdict import Setting, Verdict
from tests.sqlite_database import SqliteDatabase

NODES = 3
COPIES = 60
LOAD = Load(jobs=60, seconds=0.1, options={"jitter": "1s"})


@dataclass(slots=True)
class Findings:
    """The number of checks of the copies, and the errors found."""

    opened: int = 0
    settled: int = 0
    broken: list[str] = field(default_factory=list)
    misplaced: list[str] = field(default_factory=list)
    lost: list[UUID] = field(default_factory=list)


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("copies", setting.backend)
    number = setting.sized(COPIES, least=6)
    findings = Findings()
    async with database_for(setting.backend) as database:
        assert isinstance(database, SqliteDatabase)
        with Fleet(setting.folder, url_of(database), LOAD) as fleet:
            await fleet.start_all(NODES)
            for _ in range(number):
                await asyncio.sleep(setting.random.uniform(0.05, 0.3))
                settled = _settled(database)
                copy = await _copy(fleet, Path(database.path), setting.folder / "copy")
                await _inspect(copy, settled, findings)
            await come_to_rest(database, LEASE + REAP + 10)
            exits = await fleet.stop_all()
        books = await Books.read(database, fleet)
    check_books(verdict, books)
    verdict.at_least("copies opened", number, findings.opened)
    none_of(verdict, "copies that are broken", findings.broken)
    none_of(verdict, "instants in a copy without exactly one place", findings.misplaced)
    none_of(verdict, "outcomes settled before a copy and not in it", findings.lost)
    verdict.figures["outcomes looked for in copies"] = findings.settled
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    return verdict


def _settled(database: SqliteDatabase) -> set[UUID]:
    """Runs whose end is committed at this moment."""
    query = "select id from hourbell_runs where finished_at is not null"
    found: Any = database.connection.execute(query).fetchall()
    return {UUID(bytes=run_id) for (run_id,) in found}


async def _copy(fleet: Fleet, path: Path, folder: Path) -> Path:
    """The file and its log, copied while no process can write."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    frozen = [(member, fleet.freeze(member)) for member in fleet.running]
    try:
        for member, _ in frozen:
            await member.stopped()
        for name in (path.name, f"{path.name}-wal"):
            shutil.copyfile(path.with_name(name), folder / name)
    finally:
        for member, cut in frozen:
            fleet.thaw(member, cut)
    return folder / path.name


async def _inspect(copy: Path, settled: Collection[UUID], findings: Findings) -> None:
    """Open a copy as a process that starts would, and check its tables up to its cursors."""
    database = SqliteDatabase(str(copy), lambda: WriterThread(str(copy)))
    try:
        intact = integrity_of(database)
        if intact != "ok":
            findings.broken.append(intact)
        findings.opened += 1
        findings.settled += len(settled)
        runs, skips = await database.rows("runs"), by_job(await database.rows("skips"))
        runs_of = by_job(runs)
        for job in await database.rows("jobs"):
            findings.misplaced += faults_of(job, runs_of[job["id"]], skips[job["id"]])
            await asyncio.sleep(0)
        findings.misplaced += map(str, wrong_ids(runs))
        findings.lost += set(settled) - {run["id"] for run in runs if run["finished_at"] is not None}
    finally:
        database.connection.close()
