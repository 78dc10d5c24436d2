"""Half of the jobs call a receiver that takes requests and never answers; the other half must not notice.

One process with the settings it has by default. The good receiver is measured alone first, and then with the mute one
beside it, from the first silence until after those requests have run out of time.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from math import inf

from hourbell.clock import elapsed
from tests.database import Database
from tests.faults.books import none_of, percentile
from tests.faults.databases import database_for, url_of
from tests.faults.fleet import START
from tests.faults.hooks import Hooks, Request
from tests.faults.process import Server
from tests.faults.verdict import Setting, Verdict

JOBS = 500  # of each kind
EVERY = 4  # seconds; a quarter of the jobs fires in each of them, all at the same instant
SECOND = timedelta(seconds=1)
ALONE, BESIDE = 5, 9  # seconds to look at
MARGIN = 1  # seconds before and after
LATEST = 10  # seconds to wait for late deliveries, which are then reported
PATIENCE = 7  # seconds until a request to the hanging receiver is given up
LANE_SLOTS = 100  # requests that a process may have open at one receiver, by default
ALLOWED, ALLOWED_AMONG_TESTS = 1.0, 2.5  # seconds later than alone; a small run shares the machine with other tests


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("isolation", setting.backend)
    jobs = setting.sized(JOBS, least=2 * LANE_SLOTS)
    with Hooks(setting.folder, "good") as good, Hooks(setting.folder, "mute") as mute:
        async with database_for(setting.backend) as database:
            with Server(setting.folder, DATABASE_URL=url_of(database)) as server:
                server.wait_until_serving()
                await _add_jobs(database, "good", jobs, good.url())
                await asyncio.sleep(ALONE + MARGIN)
                await _add_jobs(database, "mute", jobs, mute.url(after=inf))
                await asyncio.sleep(BESIDE + MARGIN)
                unanswered = mute.requests()
                alone, beside = await _stretches(good, min(request.scheduled_at for request in unanswered), jobs)
    missing = [*alone.missing(jobs), *beside.missing(jobs)]
    none_of(verdict, "runs of good jobs that did not reach the receiver", missing)
    limit = percentile(alone.lateness, 99) + (ALLOWED if setting.scale >= 1 else ALLOWED_AMONG_TESTS)
    verdict.at_most("lateness p99 beside the hanging receiver, seconds", round(limit, 2), beside.figures["p99"])
    verdict.at_least("requests to the hanging receiver", LANE_SLOTS, len(unanswered))
    verdict.at_most("of those, before the first was given up", LANE_SLOTS, _before_the_first_end(unanswered))
    verdict.figures |= {"lateness alone, seconds": alone.figures, "lateness beside, seconds": beside.figures}
    return verdict


async def _add_jobs(database: Database, prefix: str, number: int, url: str) -> None:
    """Jobs made with a SQL prompt, all in one statement; they fire from the next second on when this returns."""
    target = json.dumps({"type": "http", "url": url, "timeout": f"{PATIENCE}s"})
    rows = [
        f"('{prefix}-{each:03}', '{each % EVERY}-59/{EVERY} * * * * *', '{target}', 'all')" for each in range(number)
    ]
    await database.sql(f"insert into hourbell.jobs (name, schedule, target, catch_up) values {', '.join(rows)}")
    end = elapsed() + START
    while any(job["next_at"] is None for job in await database.rows("jobs")):
        assert elapsed() < end, "nobody adopts the jobs"
        await asyncio.sleep(0.1)


async def _stretches(good: Hooks, mute_since: datetime, jobs: int) -> tuple["Stretch", "Stretch"]:
    """The deliveries of the good receiver before the hanging one existed and beside it."""
    end = elapsed() + LATEST
    while True:
        requests = good.requests()
        alone = Stretch(mute_since - ALONE * SECOND, mute_since, requests)
        beside = Stretch(mute_since, mute_since + BESIDE * SECOND, requests)
        if not beside.missing(jobs) or elapsed() > end:
            return alone, beside
        await asyncio.sleep(0.5)


@dataclass(frozen=True)
class Stretch:
    """The instants from one until before another, and what the good receiver got of them."""

    since: datetime
    until: datetime
    received: Sequence[Request]

    @cached_property
    def requests(self) -> list[Request]:
        return [request for request in self.received if self.since <= request.scheduled_at < self.until]

    @cached_property
    def lateness(self) -> list[float]:
        """Seconds by the receiver's clock, which is also the database's."""
        return [(request.clock - request.scheduled_at).total_seconds() for request in self.requests]

    def missing(self, jobs: int) -> list[tuple[str, datetime]]:
        """The jobs and instants that nothing came of."""
        found = {(request.job, request.scheduled_at) for request in self.requests}
        return [due for due in self._due(jobs) if due not in found]

    @cached_property
    def figures(self) -> dict[str, float]:
        found = {f"p{percent}": round(percentile(self.lateness, percent), 2) for percent in (50, 99)}
        return {"requests": len(self.requests), **found, "max": round(max(self.lateness, default=0), 2)}

    def _due(self, jobs: int) -> Iterator[tuple[str, datetime]]:
        for second in range((self.until - self.since) // SECOND):
            instant = self.since + second * SECOND
            for job in range(instant.second % EVERY, jobs, EVERY):
                yield f"good-{job:03}", instant


def _before_the_first_end(requests: Sequence[Request]) -> int:
    first = min((request.dropped_at for request in requests if request.dropped_at is not None), default=inf)
    return sum(request.at < first for request in requests)
