"""The work of a server's workers: the lines they wrote beside the runs in the database."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import asyncpg

from hourbell import Schedule

EVERY_SECOND = Schedule.parse("* * * * * *")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RUNS = """select r.scheduled_at, r.state, r.crashes from hourbell.runs r join hourbell.jobs j on j.id = r.job_id
where j.name = 'tick' and r.kind = 'scheduled' order by 1"""


@dataclass(frozen=True)
class Effect:
    """A line that an attempt wrote."""

    instant: datetime
    run: str
    attempt: int
    pid: int
    late_seconds: float


@dataclass(frozen=True)
class Planned:
    """A run of the job that ticks; `crashes` is how often its node died while it ran."""

    instant: datetime
    state: str
    crashes: int


@dataclass(frozen=True)
class Ledger:
    """The file of a job's effects, and the database with its runs: PostgreSQL's URL, or the file in the folder."""

    folder: Path
    url: str | None = None

    def effects(self, name: str = "ticks") -> list[Effect]:
        path = self.folder / name
        lines = path.read_text().splitlines() if path.exists() else []
        return [_effect(*line.split()) for line in lines]

    def last(self) -> datetime:
        return max(each.instant for each in self.effects())

    async def wait_for(self, instants: int, *, since: datetime = _EPOCH, seconds: float = 40) -> None:
        """Until so many instants after a time have had their effect."""
        end = time.monotonic() + seconds
        while len({each.instant for each in self.effects() if each.instant > since}) < instants:
            assert time.monotonic() < end, f"only {len(self.effects())} lines"
            await asyncio.sleep(0.05)

    async def wait_for_nodes(self, count: int, seconds: float = 40) -> None:
        """Until so many nodes are on the list: workers that are idle are not seen in the effects."""
        end = time.monotonic() + seconds
        while (found := len(await self.rows("select id from hourbell.nodes"))) != count:
            assert time.monotonic() < end, f"{found} nodes"
            await asyncio.sleep(0.1)

    async def wait_until_settled(self, until: datetime, seconds: float = 100) -> None:
        """Until every run up to a time has ended: what a killed worker held is taken over when its lease is over."""
        end = time.monotonic() + seconds
        while any(run.state != "succeeded" for run in await self.runs() if run.instant <= until):
            assert time.monotonic() < end, await self.runs()
            await asyncio.sleep(0.5)

    async def runs(self) -> list[Planned]:
        return [Planned(_instant(at), state, crashes) for at, state, crashes in await self.rows(_RUNS)]

    async def rows(self, query: str) -> Sequence[Sequence[Any]]:
        """Return the rows of a query. Tables are written `hourbell.jobs`, on both databases."""
        if self.url is not None:
            connection = await asyncpg.connect(self.url)
            try:
                return list(map(tuple, await connection.fetch(query)))
            finally:
                await connection.close()
        with closing(apsw.Connection(str(self.folder / "hourbell.db"), flags=apsw.SQLITE_OPEN_READWRITE)) as file:
            file.set_busy_timeout(10_000)
            return file.execute(query.replace("hourbell.", "hourbell_")).fetchall()

    async def planned_until(self) -> datetime:
        """The newest instant that has a run, whatever became of it."""
        return max(run.instant for run in await self.runs())

    async def check(self, until: datetime) -> None:
        """Each instant had one run that succeeded up to a time, and only what a kill interrupted happened again.

        The time comes from the plan, not from the effects: where nothing happens, the effects would end early too.
        """
        runs = await self.runs()
        instants = [run.instant for run in runs]
        assert instants == [instants[0], *EVERY_SECOND.between(instants[0], instants[-1])]
        assert [run for run in runs if run.instant <= until and run.state != "succeeded"] == []
        seen = Counter(each.instant for each in self.effects())
        assert [run for run in runs if run.state == "succeeded" and not 1 <= seen[run.instant] <= 1 + run.crashes] == []
        assert len({each.run for each in self.effects()}) == len(seen)


def _effect(at: str, run: str, attempt: str, pid: str, written_at: str) -> Effect:
    instant = datetime.fromisoformat(at)
    return Effect(instant, run, int(attempt), int(pid), float(written_at) - instant.timestamp())


def _instant(stored: datetime | int) -> datetime:
    return stored if isinstance(stored, datetime) else _EPOCH + timedelta(microseconds=stored)
