"""Edits, pauses and resumptions at random milliseconds around the instants they are about, while processes plan.

Half of the jobs are paused, resumed and rewritten without changing their instants, so that every second must have
its one place. The others change between every second and every other second.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from hourbell.core.job.definition import Job
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict
from tests.faults.accounts import Row
from tests.faults.books import Books, by_job, none_of
from tests.faults.databases import come_to_rest, database_for, url_of
from tests.faults.fleet import LEASE, REAP, Fleet
from tests.faults.history import History, Step
from tests.faults.receiver import Load
from tests.faults.verdict import Setting, Verdict

NODES = 3
CHANGES = 1_000
SAME = ("* * * * * *", "*/1 * * * * *", "0-59 * * * * *")  # the same instants in other words
RATES = ("* * * * * *", "*/2 * * * * *")
SWITCHED, RATED = Load(jobs=30, seconds=0.05, prefix="switched"), Load(jobs=30, seconds=0.05, prefix="rated")
AROUND = 0.06  # seconds before or after an instant
STORES = 4  # connections of those who make the changes
BY = "campaign"
SECOND = timedelta(seconds=1)


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("edits", setting.backend)
    changes = setting.sized(CHANGES, least=100)
    async with database_for(setting.backend) as database:
        with Fleet(setting.folder, url_of(database), SWITCHED, RATED) as fleet:
            await fleet.start_all(NODES)
            jobs = await database.rows("jobs")
            store, controls = database.engine(), [database.control() for _ in range(STORES)]
            users = [_User(store, controls[number % STORES], row) for number, row in enumerate(jobs)]
            each = -(-changes // len(users))
            await asyncio.gather(*(user.change(each, Random(setting.random.random())) for user in users))
            await come_to_rest(database, LEASE + REAP + 10)
            exits = await fleet.stop_all()
        books = await Books.read(database, fleet)
    histories = {user.job_id: History(user.steps) for user in users}
    verdict.at_least("changes", changes, sum(len(user.steps) - 1 for user in users))
    _check_books(verdict, books, histories)
    _check_versions(verdict, books, histories)
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    verdict.figures |= {
        "runs": len(books.runs),
        "skipped": books.skipped,
        "changes": dict(sum((user.made for user in users), Counter())),
    }
    return verdict


class _User:
    """Changes one job, and remembers what was asked and when it was answered."""

    def __init__(self, store: EngineStore, control: ControlStore, row: Row) -> None:
        self.job_id: UUID = row["id"]
        self.steps = [Step(1, row["created_at"], row["created_at"], row["schedule"])]
        self.made: Counter[str] = Counter()
        self._store = store
        self._control = control
        self._switches = row["name"].startswith(SWITCHED.prefix)

    async def change(self, times: int, random: Random) -> None:
        for _ in range(times):
            await asyncio.sleep(1 - time.time() % 1 + random.uniform(-AROUND, AROUND) + random.choice((0, 0, 1)))
            await self._change(random)

    async def _change(self, random: Random) -> None:
        now = await self._store.sample_time()
        reaches_back = random.random() < 0.5
        try:
            job = await self._ask(now, random, reaches_back)
        except Conflict as conflict:  # it still catches up with what fell due in a pause
            self.made[conflict.code] += 1
            return
        reaches_back = reaches_back and not self.steps[-1].enabled
        answered_at = await self._store.sample_time()
        definition = job.definition
        self.steps.append(Step(job.version, now, answered_at, definition.schedule, definition.enabled, reaches_back))

    async def _ask(self, now: datetime, random: Random, reaches_back: bool) -> Job:
        last = self.steps[-1]
        if not last.enabled:
            self.made["resume"] += 1
            return (await self._control.resume_job(self.job_id, Actor(BY, now), catch_up=reaches_back)).job
        if self._switches and random.random() < 0.5:
            self.made["pause"] += 1
            return (
                await self._control.pause_job(self.job_id, Actor(BY, now), note="", until=None, cancel_waiting=False)
            ).job
        if random.random() < 0.3:
            self.made["edit of the payload"] += 1
            return await self._edit(now, payload=random.random())
        schedule = random.choice([text for text in (SAME if self._switches else RATES) if text != last.schedule])
        self.made["edit of the schedule"] += 1
        return await self._edit(now, schedule=schedule)

    async def _edit(self, now: datetime, **changes: Any) -> Job:
        return (
            await self._control.edit_job(self.job_id, lambda job: replace(job.definition, **changes), Actor(BY, now))
        ).job


def _check_books(verdict: Verdict, books: Books, histories: Mapping[UUID, History]) -> None:
    runs_of, skips_of = by_job(books.runs), by_job(books.skips)
    misplaced = [
        fault
        for job in books.jobs
        for fault in _misplaced(job, histories[job["id"]], runs_of[job["id"]], skips_of[job["id"]])
    ]
    none_of(verdict, "instants of a version without exactly one place", misplaced)
    none_of(verdict, "runs lost (failed, unfinished or without an effect)", books.lost())
    none_of(verdict, "runs planned twice", books.planned_twice())
    none_of(verdict, "deliveries repeated", books.repeated())


def _misplaced(job: Row, history: History, runs: Sequence[Row], skips: Sequence[Row]) -> list[str]:
    """Instants with more or fewer places than the versions say that may hold at them."""
    faults = []
    counts = Counter(run["scheduled_at"] for run in runs)
    for skip in skips:
        instants = list(_seconds(skip["first_at"] - SECOND, skip["last_at"]))
        counts.update(instants)
        if len(instants) != skip["count"] or job["name"].startswith(RATED.prefix):
            faults.append(f"{job['name']}: a skip nobody asked for: {skip}")
    for instant in _seconds(job["created_at"], job["cursor_at"]):
        lowest, highest = history.expected_counts(instant)
        number = counts.pop(instant, 0)
        if not lowest <= number <= highest:
            faults.append(f"{job['name']}: {instant} has {number} places, not {lowest} to {highest}")
    return faults + [f"{job['name']}: {instant} has a place and never fell due" for instant in counts]


def _check_versions(verdict: Verdict, books: Books, histories: Mapping[UUID, History]) -> None:
    wrong, in_pause = [], []
    for run in books.runs:
        history = histories[run["job_id"]]
        if run["job_version"] not in history.may_run_as(run["scheduled_at"]):
            wrong.append((run, [step for step in history.steps if abs(step.version - run["job_version"]) < 3]))
        if any(answered_at < run["planned_at"] < asked_at for answered_at, asked_at in history.pauses()):
            in_pause.append(run)
    none_of(verdict, "runs of another version than their instant's", wrong)
    none_of(verdict, "runs planned after a pause was answered", in_pause)


def _seconds(after: datetime, until: datetime) -> Iterator[datetime]:
    """Every full second in (after, until]."""
    instant = after.replace(microsecond=0) + SECOND
    while instant <= until:
        yield instant
        instant += SECOND
