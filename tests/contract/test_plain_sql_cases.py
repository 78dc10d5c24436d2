"""Random histories of jobs that plain SQL inserts and changes, mostly while no node runs, and an account of each.

Each job is one case. The account knows which version was valid when, and finds its times by walking: every time up to
the end is one run of that version or lies in exactly one skip of it, and there is nothing else.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest

from hourbell.control.explain import Verdict, explain
from hourbell.core.job.definition import Job
from hourbell.core.run.policies import CatchUp
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from tests.contract.steps import BY, MINUTE, SECOND, plan_all
from tests.database import BACKENDS, Database, Row
from tests.simulation.oracle import EPOCH, instants_of, microseconds

pytestmark = pytest.mark.anyio
LENGTH = timedelta(hours=3)
# An ordinary Monday, and the two nights of the year clocks are changed.
MOMENTS = tuple(datetime(2026, *rest, tzinfo=UTC) for rest in ((3, 2, 9), (3, 29, 0, 10), (10, 25, 0, 10)))
SCHEDULES = ("*/5 * * * *", "*/7 * * * *", "3 * * * *", "every 90s", "0 10 * * *", "10-30 * * * *")
TARGETS = ('{"type": "task", "name": "a"}', '{"type": "task", "name": "b"}')
NONSENSE: dict[str, str] = {"schedule": "61 * * * *", "target": "{}"}
CHOICES: dict[str, tuple[Any, ...]] = {
    "schedule": (*SCHEDULES, NONSENSE["schedule"]),
    "timezone": ("UTC", "Europe/Berlin"),
    "target": (*TARGETS, NONSENSE["target"]),
    "catch_up": ("latest", "earliest", "all", "none"),
    "overlap": ("allow", "skip", "queue_one", "queue_all", "cancel_running"),
    "enabled": (True, False),
    "description": ("", "other words"),
}
PLAIN = {"timezone": "UTC", "catch_up": "latest", "overlap": "allow", "enabled": True, "description": ""}


@dataclass(frozen=True)
class Period:
    """The definition of a job during an interval."""

    version: int
    columns: dict[str, Any]
    after: int  # microseconds
    until: int

    def instants(self, moment: datetime) -> list[int]:
        if self.columns["schedule"] == NONSENSE["schedule"]:
            return []
        found = instants_of(self.columns["schedule"], self.columns["timezone"], moment)
        return found.between(self.after, self.until)

    def may_skip_for(self, reason: str) -> bool:
        if not self.columns["enabled"]:
            return reason == "paused"
        if self.columns["target"] == NONSENSE["target"]:
            return reason == "edited"
        return reason in ("missed", "overlap")

    @property
    def may_run(self) -> bool:
        return bool(self.columns["enabled"]) and self.columns["target"] != NONSENSE["target"]


@dataclass
class Case:
    """The account of one job."""

    name: str
    columns: dict[str, Any] = field(default_factory=dict)
    version: int = 0
    since: int = 0
    periods: list[Period] = field(default_factory=list)

    def becomes(self, columns: dict[str, Any], version: int, moment: int) -> None:
        if self.version:
            self.periods.append(Period(self.version, self.columns, self.since, moment))
        self.columns, self.version, self.since = columns, version, moment

    def ends(self, moment: int) -> None:
        self.becomes(self.columns, self.version, moment)


class History:
    """Lets things happen to some jobs, one after the other, and keeps the account."""

    def __init__(self, seed: int, database: Database, jobs: int) -> None:
        self.random = Random(seed)
        self.moment = self.random.choice(MOMENTS)
        self.now = self.moment
        self.database = database
        self.store = database.engine()
        self.control: ControlStore = database.control()
        self.cases = [Case(f"job-{number}") for number in range(jobs)]

    async def happen(self) -> None:
        for at, act, case in sorted(self._acts(), key=lambda each: each[0]):
            self.now = self.moment + at
            await act(case)
        self.now = self.moment + LENGTH - SECOND
        for case in self.cases:
            if case.version:
                await self._update(case, {"schedule": SCHEDULES[0], "target": TARGETS[0], "enabled": True})
        self.now = self.moment + LENGTH
        await plan_all(self.store, self.now)
        for case in self.cases:
            case.ends(microseconds(self.now))

    def _acts(self) -> Iterator[tuple[timedelta, Callable[[Case], Any], Case]]:
        for case in self.cases:
            yield self._when(0.3), self._insert, case
            for _ in range(self.random.randint(1, 8)):
                yield self._when(), self.random.choices((self._change, self._by_user), (4, 1))[0], case
        for _ in range(self.random.randint(0, 3)):
            yield self._when(), self._plan, self.cases[0]

    def _when(self, part: float = 1.0) -> timedelta:
        """Sometimes on a whole minute, where times are due."""
        at = self.random.uniform(0, part) * (LENGTH - MINUTE)
        return timedelta(minutes=at // MINUTE) if self.random.random() < 0.2 else timedelta(milliseconds=at // _MS)

    async def _sql(self, statement: str) -> None:
        await self.database.set_clock(self.now)
        await self.database.sql(statement)

    async def _plan(self, _: Case) -> None:
        await plan_all(self.store, self.now)

    async def _insert(self, case: Case) -> None:
        columns = PLAIN | {"schedule": self.random.choice(SCHEDULES), "target": self.random.choice(TARGETS)}
        columns |= {name: self.random.choice(CHOICES[name]) for name in ("catch_up", "overlap", "timezone")}
        values = ", ".join(_literal(value) for value in columns.values())
        await self._sql(
            f"insert into hourbell.jobs (name, {', '.join(columns)}) values ('{case.name}', {values}) "
            "on conflict (name) do nothing"
        )
        if not case.version:
            case.becomes(columns, 1, microseconds(self.now))

    async def _change(self, case: Case) -> None:
        names = self.random.sample(sorted(CHOICES), self.random.randint(1, 3))
        await self._update(case, {name: self.random.choice(CHOICES[name]) for name in names})

    async def _update(self, case: Case, values: dict[str, Any]) -> None:
        columns = case.columns | values
        meddles = self.random.random() < 0.1 and columns != case.columns  # as object mappers count versions
        pairs = ", ".join(f"{name} = {_literal(value)}" for name, value in values.items())
        bump = ", version = version + 1" if meddles else ""
        await self._sql(f"update hourbell.jobs set {pairs}{bump} where name = '{case.name}'")
        if case.version and columns != case.columns:
            case.becomes(columns, case.version + 1, microseconds(self.now))

    async def _by_user(self, case: Case) -> None:
        job = await self.control.get_job(case.name)
        if job is None or case.columns["schedule"] == NONSENSE["schedule"]:
            return
        if self.random.random() < 0.5:
            await self._edit(case, job)
        elif case.columns["enabled"]:
            await self.control.pause_job(job.id, Actor(BY, self.now), note="", until=None, cancel_waiting=False)
            case.becomes(case.columns | {"enabled": False}, case.version + 1, microseconds(self.now))
        else:
            await self.control.resume_job(job.id, Actor(BY, self.now), catch_up=False)
            case.becomes(case.columns | {"enabled": True}, case.version + 1, microseconds(self.now))

    async def _edit(self, case: Case, job: Job) -> None:
        schedule, target, catch_up = self.random.choice(SCHEDULES), self.random.choice(TARGETS), CatchUp.ALL
        await self.control.edit_job(
            job.id,
            lambda found: replace(
                found.definition, schedule=schedule, target=json.loads(target), catch_up=catch_up, lane=""
            ),
            Actor(BY, self.now),
            drop_backlog=True,
        )
        columns = {"schedule": schedule, "target": target, "catch_up": catch_up.value}
        case.becomes(case.columns | columns, case.version + 1, microseconds(self.now))


_MS = timedelta(milliseconds=1)


def _literal(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"'{value}'"


def hold(case: Case, moment: datetime, runs: list[Row], skips: list[Row]) -> list[int]:
    """Compare a job's runs and skips to its account; the times that are due by that."""
    due = {instant: period for period in case.periods for instant in period.instants(moment)}
    counts: Counter[int] = Counter()
    for run in runs:
        instant = microseconds(run["scheduled_at"])
        assert instant in due, f"{case.name}: a run at {run['scheduled_at']}, which nothing names"
        assert due[instant].may_run, f"{case.name}: a run at {run['scheduled_at']} of {due[instant]}"
        assert run["job_version"] == due[instant].version, f"{case.name}, {run['scheduled_at']}: {due[instant]}"
        counts[instant] += 1
    for skip in skips:
        first, last = microseconds(skip["first_at"]), microseconds(skip["last_at"])
        inside = [instant for instant in due if first <= instant <= last]
        is_of_one = len({due[instant].version for instant in inside}) == 1
        assert is_of_one or skip["reason"] == "paused", f"{case.name}: {skip} of several versions"
        assert len(inside) == skip["count"], f"{case.name}: {skip} covers {len(inside)}"
        assert all(due[instant].may_skip_for(skip["reason"]) for instant in inside), f"{case.name}: {skip}"
        counts.update(inside)
    missing, doubled = [at for at in due if not counts[at]], [at for at in due if counts[at] > 1]
    assert not missing, f"{case.name}: nothing for {[str(_instant(at)) for at in missing]} of {case.periods}"
    assert not doubled, f"{case.name}: more than one place for {[str(_instant(at)) for at in doubled]}"
    return sorted(due)


def _instant(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


async def check(backend: str, seed: int, jobs: int) -> None:
    async with BACKENDS[backend]() as database:
        history = History(seed, database, jobs)
        await history.happen()
        rows = {row["name"]: row for row in await database.rows("jobs")}
        runs, skips = await database.rows("runs"), await database.rows("skips")
        written = {(row["job_id"], row["version"]) for row in await database.rows("job_versions")}
        assert {(run["job_id"], run["job_version"]) for run in runs} <= written
        assert await database.rows("job_changes") == []
        for case in history.cases:
            row = rows[case.name]
            assert (row["version"], row["cursor_at"], row["error"]) == (case.version, history.now, None), case
            due = hold(case, history.moment, of_job(runs, row["id"]), of_job(skips, row["id"]))
            await explain_some(database, history, row["id"], due)


def of_job(rows: list[Row], job_id: UUID) -> list[Row]:
    return [row for row in rows if row["job_id"] == job_id]


async def explain_some(database: Database, history: History, job_id: UUID, due: list[int]) -> None:
    lists = database.lists()
    for instant in map(_instant, history.random.sample(due, min(3, len(due)))):
        facts = await lists.instant(job_id, instant)
        assert facts is not None
        verdict = explain(facts, instant, history.now).verdict
        assert verdict in (Verdict.WAITING, Verdict.SKIPPED, Verdict.CANCELLED), f"{instant}: {verdict}"


@pytest.mark.parametrize("backend", BACKENDS)
async def test_forty_jobs_that_plain_sql_changes_are_accounted_for(backend: str) -> None:
    await check(backend, seed=0, jobs=40)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, 26))
@pytest.mark.parametrize("backend", ["postgres", "sqlite"])
async def test_a_thousand_jobs_that_plain_sql_changes_are_accounted_for(backend: str, seed: int) -> None:
    await check(backend, seed, jobs=40)
