"""Rolling restarts under load: a new process for an old one that gets SIGTERM, again and again.

A process that may finish what it has begun leaves nothing to be done twice. One that is told a second time, in the
middle of its drain, ends at once and still loses nothing.
"""

import asyncio
from collections.abc import Sequence

from hourbell.clock import elapsed
from tests.faults.books import Books, check_books
from tests.faults.databases import come_to_rest, database_for, url_of
from tests.faults.fleet import LEASE, REAP, Fleet, Member
from tests.faults.receiver import Line, Load
from tests.faults.verdict import Setting, Verdict

NODES = 5
RESTARTS, SIGNALLED_TWICE = 50, 5
AT_A_TIME = 3
LOAD = Load(jobs=60, seconds=0.8, options={"jitter": "1s"})
DRAIN = 10  # seconds, much longer than a delivery
AGAIN = 0.4  # seconds between the two signals; less than 0.3 counts as one
AT_ONCE = 1.0  # seconds to end after the second


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("rolling", setting.backend)
    restarts, signalled_twice = setting.sized(RESTARTS, least=3), setting.sized(SIGNALLED_TWICE)
    async with database_for(setting.backend) as database:
        with Fleet(setting.folder, url_of(database), LOAD, HOURBELL_DRAIN_TIMEOUT=f"{DRAIN}s") as fleet:
            await fleet.start_all(NODES)
            codes: list[int | None] = []
            while len(codes) < restarts:
                codes += await _replace_oldest(fleet)
            orderly = {member.name for member in fleet.members if not member.is_running}
            ends = [await _signal_twice(fleet) for _ in range(signalled_twice)]
            await come_to_rest(database, 3 * LEASE + REAP + 10)
            exits = await fleet.stop_all()
        books = await Books.read(database, fleet)
    check_books(verdict, books)
    verdict.at_least("orderly restarts", restarts, codes.count(0))
    verdict.equal("of those, with another exit code than 0", 0, len(codes) - codes.count(0))
    verdict.equal("delivered twice by an orderly restart", 0, sum(a.member in orderly for a, _ in books.repeated()))
    verdict.equal("instants skipped", 0, books.skipped)
    verdict.equal("exit codes after a second signal", {1}, {code for code, _ in ends})
    verdict.at_most("seconds to end after a second signal", AT_ONCE, round(max(seconds for _, seconds in ends), 2))
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    return verdict


async def _replace_oldest(fleet: Fleet) -> list[int | None]:
    """Start new processes, and stop as many of the oldest when they serve; the exit codes of those."""
    oldest = fleet.running[:AT_A_TIME]
    await fleet.start_all(AT_A_TIME)
    for member in oldest:
        fleet.stop(member)
    return [await member.exit_code(DRAIN) for member in oldest]


async def _signal_twice(fleet: Fleet) -> tuple[int | None, float]:
    """Stop the oldest and tell it again while it drains; its exit code, and how long it took after that."""
    for _ in range(10):
        oldest, received = fleet.running[0], fleet.size
        await fleet.start().ready()
        fleet.stop(oldest)
        await asyncio.sleep(AGAIN)
        if _is_draining(oldest, fleet.lines(received)):
            cut = fleet.cut("second signal", oldest)
            fleet.stop(oldest)
            code = await oldest.exit_code(DRAIN)
            return code, elapsed() - cut.began_at
        await oldest.exit_code(DRAIN)  # it had nothing to wait for: the next one
    raise AssertionError("no process was ever found draining")


def _is_draining(member: Member, lines: Sequence[Line]) -> bool:
    """Return True if it has an open delivery that will not end at once."""
    ended = {line.key for line in lines if line.what == "ended"}
    begun = [line for line in lines if line.member == member.name and line.key not in ended]
    return any(elapsed() - line.at < LOAD.seconds - 0.1 for line in begun)
