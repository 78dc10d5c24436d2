"""A task that blocks the event loop of its process for longer than the leases last.

The process is alive and its heartbeat thread could go on; but a loop that stands still does not deserve its leases.
They run out, others take the runs, the late write is refused, and the process goes on as if nothing had been.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from hourbell.engine.heartbeat import STALLED
from hourbell.store.control.actor import Actor
from tests.database import Database
from tests.faults.books import Books, Key, check_books, none_of
from tests.faults.databases import come_to_rest, database_for, url_of
from tests.faults.fleet import LEASE, REAP, Cut, Fleet, until
from tests.faults.receiver import Line, Load
from tests.faults.verdict import Setting, Verdict

NODES = 5
BLOCKS = 6
EVERY = 4  # seconds between two blocks
GOING_ON = 10  # seconds in which a process that was blocked must have delivered again
SECONDS = 2 * LEASE + STALLED  # the loop may stand still for so long before the heartbeat stops
BLOCKING = Load(jobs=1, schedule=f"*/{EVERY} * * * * *", seconds=SECONDS, prefix="block", way="block")
ORDINARY = Load(jobs=40, seconds=0.3, options={"jitter": "1s"})


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("blocked", setting.backend)
    blocks = setting.sized(BLOCKS, least=1)
    async with database_for(setting.backend) as database:
        with Fleet(setting.folder, url_of(database), BLOCKING, ORDINARY) as fleet:
            await fleet.start_all(NODES)
            blocking = await _blocking_jobs(database)
            await until(lambda: len(_begun(fleet, blocking)) >= blocks, EVERY * (blocks + 2) + 10, "so many blocks")
            await _pause(database, blocking)
            begun = _begun(fleet, blocking)
            await until(lambda: _blocked(fleet, blocking).keys() >= begun.keys(), SECONDS + 10, "all of them over")
            await until(lambda: not _waiting(fleet, blocking), GOING_ON, "deliveries of all that were blocked")
            await come_to_rest(database, 2 * LEASE + REAP + 10)
            exits = await fleet.stop_all()
        blocked = _blocked(fleet, blocking)
        fleet.cuts += blocked.values()
        books = await Books.read(database, fleet)
    check_books(verdict, books)
    verdict.at_least("event loops blocked", blocks, len(blocked))
    outcomes = {key: books.attempts[key]["outcome"] for key in blocked}
    none_of(verdict, "blocked attempts that kept their lease", [key for key in outcomes if outcomes[key] != "lost"])
    refused = [key for key in blocked if books.attempts[key]["late_outcome"]]
    verdict.equal("late writes refused and kept", len(blocked), len(refused))
    verdict.equal("blocked runs delivered by another process", len(blocked), _moved(books, blocked))
    who = {cut.member for cut in blocked.values()}
    none_of(verdict, "blocked processes that did not go on", sorted(_not_healed(books.begun.values(), blocked)))
    stalled = {member.name for member in fleet.members if "event_loop_stalled" in member.server.names}
    verdict.equal("blocked processes that said so", len(who), len(who & stalled))
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    return verdict


async def _blocking_jobs(database: Database) -> set[UUID]:
    return {job["id"] for job in await database.rows("jobs") if job["name"].startswith(BLOCKING.prefix)}


async def _pause(database: Database, jobs: set[UUID]) -> None:
    store, control = database.engine(), database.control()
    for job in jobs:
        now = await store.sample_time()
        await control.pause_job(job, Actor("campaign", now), note="", until=None, cancel_waiting=False)


def _begun(fleet: Fleet, blocking: set[UUID]) -> dict[Key, Line]:
    """First attempts at blocking runs; the others do not block."""
    lines = [line for line in fleet.lines() if line.job_id in blocking and line.attempt == 1]
    return {line.key: line for line in lines if line.what == "begun"}


def _blocked(fleet: Fleet, blocking: set[UUID]) -> dict[Key, Cut]:
    """The blocks that are over, as faults of their processes."""
    ended_at = {line.key: line.at for line in fleet.lines() if line.what == "ended"}
    begun = _begun(fleet, blocking).items()
    return {key: Cut("blocked", line.member, line.at, ended_at[key]) for key, line in begun if key in ended_at}


def _moved(books: Books, blocked: Mapping[Key, Cut]) -> int:
    """Count the runs taken over by another process before the first one woke."""
    return sum(
        any(
            again.run_id == run_id and again.member != cut.member and again.at < cut.ended_at
            for again in books.begun.values()
        )
        for (run_id, _), cut in blocked.items()
    )


def _waiting(fleet: Fleet, blocking: set[UUID]) -> set[str]:
    """The processes that were blocked and have not delivered since."""
    return _not_healed([line for line in fleet.lines() if line.what == "begun"], _blocked(fleet, blocking))


def _not_healed(begun: Iterable[Line], blocked: Mapping[Key, Cut]) -> set[str]:
    last = {cut.member: cut.ended_at for cut in sorted(blocked.values(), key=lambda cut: cut.ended_at)}
    return last.keys() - {line.member for line in begun if line.member in last and line.at > last[line.member]}
