"""Three processes on machines whose clocks are ten minutes slow, right and ten minutes fast.

The clock of a process is made wrong by a `sitecustomize` of its own, which Python loads before anything else; the
product knows nothing of it. What it decides must be what it decides with right clocks.
"""

import asyncio
import os
import time
from datetime import datetime
from pathlib import Path

from hourbell.clock import elapsed
from tests.faults.books import Books, Key, check_books, percentile
from tests.faults.databases import come_to_rest, database_for, url_of
from tests.faults.fleet import LEASE, REAP, Fleet, Member
from tests.faults.receiver import Load
from tests.faults.verdict import Setting, Verdict

ERRORS = (-600, 0, 600)  # seconds
SECONDS = 12
LOAD = Load(jobs=60, seconds=0.1)
ON_TIME = 2.0  # seconds after its scheduled time within which a run is planned, on a busy machine
LIKE_OTHERS = 1.0  # seconds by which the lateness may differ from that with right clocks

SITECUSTOMIZE = """
import datetime, os, time

wrong_by = float(os.environ["CLOCK_WRONG_BY"])
right_time, right_time_ns, right_clock_gettime = time.time, time.time_ns, time.clock_gettime
right_datetime = datetime.datetime

def clock_gettime(which):
    return right_clock_gettime(which) + (wrong_by if which == time.CLOCK_REALTIME else 0)

class Kind(type):
    def __instancecheck__(cls, value):
        return isinstance(value, right_datetime)

class Datetime(right_datetime, metaclass=Kind):
    @classmethod
    def now(cls, tz=None):
        return right_datetime.now(tz) + datetime.timedelta(seconds=wrong_by)

    @classmethod
    def utcnow(cls):
        return right_datetime.utcnow() + datetime.timedelta(seconds=wrong_by)

time.time = lambda: right_time() + wrong_by
time.time_ns = lambda: right_time_ns() + int(wrong_by * 1e9)
time.clock_gettime = clock_gettime
datetime.datetime = Datetime
"""


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("clocks", setting.backend)
    seconds = setting.sized(SECONDS, least=5)
    right, _ = await _observed(setting, "right", (0,) * len(ERRORS), seconds)
    wrong, shown = await _observed(setting, "wrong", ERRORS, seconds)
    check_books(verdict, wrong)
    verdict.equal("minutes by which the clocks of the processes are wrong", [-10, 0, 10], shown)
    verdict.equal("processes that delivered", len(ERRORS), len({line.member for line in wrong.lines}))
    verdict.equal("instants skipped", 0, wrong.skipped)
    planned = [(run["planned_at"] - run["scheduled_at"]).total_seconds() for run in wrong.runs]
    verdict.at_least("earliest planning after its scheduled time, seconds", 0, min(planned))
    verdict.at_most("latest planning after its scheduled time, seconds", ON_TIME, round(max(planned), 3))
    lateness, usual = _lateness(wrong), _lateness(right)
    verdict.at_least("earliest delivery after its scheduled time, seconds", 0, min(lateness))
    usual_p99, p99 = percentile(usual, 99), percentile(lateness, 99)
    verdict.at_most("lateness p99 beyond that of right clocks, seconds", LIKE_OTHERS, round(p99 - usual_p99, 3))
    verdict.at_most("attempts' times away from the receiver's, seconds", ON_TIME, round(_disagreement(wrong), 3))
    verdict.figures |= {"lateness p99, wrong clocks": round(p99, 3), "lateness p99, right clocks": round(usual_p99, 3)}
    return verdict


async def _observed(setting: Setting, name: str, errors: tuple[int, ...], seconds: float) -> tuple[Books, list[int]]:
    """Return the accounting of a while with such clocks, and the errors of the processes' own logs in minutes."""
    folder = setting.folder / name
    (folder / "clock").mkdir(parents=True)
    (folder / "clock" / "sitecustomize.py").write_text(SITECUSTOMIZE)
    async with database_for(setting.backend) as database:
        path = os.pathsep.join([str(folder / "clock"), *filter(None, [os.environ.get("PYTHONPATH")])])
        with Fleet(folder, url_of(database), LOAD, PYTHONPATH=path) as fleet:
            members = [fleet.start(CLOCK_WRONG_BY=str(error)) for error in errors]
            for member in members:
                await member.ready()
            shown = [_minutes_wrong(member, folder) for member in members]
            await asyncio.sleep(seconds)
            await come_to_rest(database, LEASE + REAP + 10)
            await fleet.stop_all()
        return await Books.read(database, fleet), shown


def _minutes_wrong(member: Member, folder: Path) -> int:
    """Read the time from the node's log, whose last line was written when the file was."""
    reported = datetime.fromisoformat(member.server.events[-1]["time"])
    return round((reported.timestamp() - (folder / f"{member.name}.log").stat().st_mtime) / 60)


def _lateness(books: Books) -> list[float]:
    offset = time.time() - elapsed()
    return [line.at + offset - line.scheduled_at.timestamp() for line in books.begun.values()]


def _disagreement(books: Books) -> float:
    """The most by which the times that a node wrote down for an attempt differ from the receiver's."""
    offset = time.time() - elapsed()
    noted: dict[Key, float] = {key: row["started_at"].timestamp() for key, row in books.attempts.items()}
    return max(abs(line.at + offset - noted[key]) for key, line in books.begun.items())
