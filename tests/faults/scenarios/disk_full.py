"""No room for the SQLite file to grow, for longer than a lease, and then room again.

A limit on the size of files, put on the running processes from outside, refuses every write past it, as a full disk
does. Commits fail; what is committed stays; nobody has to be restarted.
"""

import asyncio
import resource
from pathlib import Path

from hourbell.clock import elapsed
from tests.faults.books import Books, check_books
from tests.faults.databases import come_to_rest, database_for, integrity_of, url_of
from tests.faults.fleet import LEASE, REAP, Fleet, Member, until
from tests.faults.receiver import Load
from tests.faults.verdict import Setting, Verdict
from tests.sqlite_database import SqliteDatabase

NODES = 2
TIMES = 4
LOAD = Load(jobs=60, seconds=0.2, options={"jitter": "1s"})
ROOM = 200_000  # bytes that the receiver's file may grow meanwhile
RESUMED = 10.0  # seconds


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("disk_full", setting.backend)
    times = setting.sized(TIMES)
    async with database_for(setting.backend) as database:
        assert isinstance(database, SqliteDatabase)
        with Fleet(setting.folder, url_of(database), LOAD) as fleet:
            await fleet.start_all(NODES)
            noticed, resumed = [], []
            for _ in range(times):
                await asyncio.sleep(setting.random.uniform(2.0, 3.0))
                was_noticed, seconds = await _fill(fleet, database, setting.random.uniform(1.5, LEASE + 2.0))
                noticed.append(was_noticed)
                resumed.append(seconds)
            await come_to_rest(database, 3 * LEASE + REAP + 10)
            exits = await fleet.stop_all()
        books = await Books.read(database, fleet)
        intact = integrity_of(database)
    check_books(verdict, books)
    verdict.equal("times the disk was full and processes noticed", times, sum(noticed))
    verdict.equal("integrity_check", "ok", intact)
    verdict.equal("instants skipped", 0, books.skipped)
    verdict.at_most("seconds from room to the next delivery", RESUMED, round(max(resumed), 2))
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    return verdict


async def _fill(fleet: Fleet, database: SqliteDatabase, seconds: float) -> tuple[bool, float]:
    """Let no file grow, nor be written beyond a size that the log of the database has passed already.

    Whether a process noticed, and how long it took from the end until something was delivered.
    """
    limit = fleet.size + ROOM
    await until(lambda: Path(f"{database.path}-wal").stat().st_size > limit, 30, "a log of that size")
    before = [_complaints(member) for member in fleet.members]
    cut = fleet.cut("disk full")
    _limit_files(fleet, limit)
    await asyncio.sleep(seconds)
    received = fleet.size
    _limit_files(fleet, resource.RLIM_INFINITY)
    cut.ended_at = elapsed()
    await until(lambda: any(line.what == "begun" for line in fleet.lines(received)), 30, "a delivery with room again")
    noticed = any(_complaints(member) > was for member, was in zip(fleet.members, before, strict=True))
    return noticed, elapsed() - cut.ended_at


def _limit_files(fleet: Fleet, size: int) -> None:
    for member in fleet.running:
        resource.prlimit(member.server.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def _complaints(member: Member) -> int:
    return member.server.names.count("database_unavailable")
