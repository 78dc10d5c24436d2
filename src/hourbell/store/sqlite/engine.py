"""The engine's verbs on SQLite. The runner executes each as one operation."""

import json
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from hourbell import clock
from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.version_json import definition_from_json
from hourbell.core.run.notes import Notes
from hourbell.core.run.outages import Outage, merge_outages
from hourbell.core.run.plan import Plan
from hourbell.core.run.run import Run
from hourbell.core.run.settle import SUSPECT_AFTER, Settlement, hand_back
from hourbell.sealing import Sealed
from hourbell.store.base import (
    LIVE_FOR,
    Backlog,
    HeartbeatReply,
    LaneDemand,
    LaneWork,
    LeaseKey,
    Mark,
    Node,
    Planned,
    Pruned,
    Refreshed,
    Saved,
    SettledAttempt,
    Tzdata,
    Wake,
)
from hourbell.store.control.store import ControlStore, pause_if_unchanged
from hourbell.store.engine.records import held as held_by
from hourbell.store.engine.records import note_values, serves, settled_lost, standing
from hourbell.store.errors import StoreUnavailable
from hourbell.store.rows import outage_of, run_of, secrets_of
from hourbell.store.sqlite.claiming import ReadyRuns, joined, ready_of, suspect_of
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.planning import next_plan_at, plan_due, refresh
from hourbell.store.sqlite.planning_ahead import PlanningAhead
from hourbell.store.sqlite.session import SqliteSessions
from hourbell.store.sqlite.settling import (
    count_expired,
    note_late,
    successes_of,
    write_settlements,
    write_successes,
)
from hourbell.store.sqlite.values import EPOCH, array
from hourbell.store.sqlite.write_params import SQL
from hourbell.store.sqlite.writer import Executor

_FORGET = timedelta(days=1)
_NOBODY = UUID(int=0)
_MANY = 500  # jobs per pass, from which planning ahead pays; few jobs start sooner in one transaction


class SqliteEngineStore:
    def __init__(self, runner: Executor) -> None:
        self._runner = runner
        self._planning_ahead = PlanningAhead(runner)
        self._hears = False

    async def sample_time(self) -> datetime:
        """Return the time of the host's clock, which SQLite uses too, but only in whole milliseconds."""
        return await self._runner.read(lambda _: clock.now())

    async def heartbeat(
        self,
        node: Node,
        now: datetime,
        lease_until: datetime,
        held: Sequence[LeaseKey],
        *,
        given_up: Collection[LeaseKey] = (),
        orphans: Collection[LeaseKey] = (),
    ) -> HeartbeatReply:
        def renew(session: Session) -> HeartbeatReply:
            session.execute(SQL["beat"], node.id, node.host, node.started_at, now, node.lanes, node.tzdata)
            rows = session.fetch(SQL["unheld"], node.id, array([*held, *given_up]))
            leases = [(run_of(row), LeaseKey(row["id"], row["attempt"])) for row in rows]
            unheld = tuple(lease for _, lease in leases if lease not in orphans)
            handed_back = tuple(lease for _, lease in leases if lease in orphans)
            if handed_back:
                returned = [hand_back(run, now) for run, lease in leases if lease in orphans]
                write_settlements(session, list(map(SettledAttempt, returned)))
                session.wakes.add(Wake.RUNS)
            if not held:
                return HeartbeatReply((), (), handed_back, unheld)
            rows = session.fetch(SQL["renew"], [(each.run_id, each.attempt) for each in held], lease_until, node.id)
            renewed_keys = {LeaseKey(row["id"], row["attempt"]) for row in rows}
            cancels = session.fetch(SQL["cancels_of"], [each.run_id for each in held])
            lost = tuple(each for each in held if each not in renewed_keys)
            return HeartbeatReply(lost, tuple(row["run_id"] for row in cancels), handed_back, unheld)

        return await self._runner.write(renew)

    async def retire(self, node: UUID) -> None:
        def retire(session: Session) -> None:
            session.execute(SQL["keep_last_beat"], node)
            session.execute(SQL["retire"], node)

        await self._runner.write(retire)

    async def last_beat(self) -> datetime | None:
        row = await self._runner.read(lambda session: session.fetch_one(SQL["last_beat"]))
        return None if row is None else row["beat_at"]

    async def save_outage(self, outage: Outage) -> bool:
        def save(session: Session) -> bool:
            span = (outage.of.value, outage.start, outage.until)
            known = [outage_of(row) for row in session.fetch(SQL["overlapping_outages"], *span)]
            merged = merge_outages(outage, known)
            if known == [merged]:
                return False
            session.execute(SQL["delete_outages"], *span)
            session.execute(SQL["insert_outage"], merged.of.value, merged.start, merged.until, merged.found_by)
            return True

        return await self._runner.write(save)

    async def plan_due(self, now: datetime, limit: int, decide: Callable[[Job, datetime], Plan]) -> Planned:
        if limit >= _MANY:
            return await self._planning_ahead.plan_due(now, limit, decide)
        next_at = await self._runner.read(next_plan_at)
        if next_at is None or next_at > now:
            return Planned(0, 0, {}, (), frozenset(), next_at)
        return await self._runner.write(lambda session: plan_due(session, now, limit, decide))

    async def lanes(self, now: datetime) -> list[LaneWork]:  # noqa: ARG002
        rows = await self._runner.read(lambda session: session.fetch(SQL["lanes"]))
        return [LaneWork(row["lane"], row["ready_at"]) for row in rows]

    async def claim(
        self,
        node: UUID,
        now: datetime,
        lease_until: datetime,
        demands: Sequence[LaneDemand],
        *,
        suspects: bool = False,
        suspect_after: int = SUSPECT_AFTER,
    ) -> list[Run]:
        def claim(session: Session) -> ReadyRuns:
            if suspects:
                ready = suspect_of(session, [demand.lane for demand in demands if demand.free > 0], now, suspect_after)
            else:
                ready = joined(ready_of(session, demand, now, suspect_after) for demand in demands)
            if ready.count and session.execute(SQL["claim"], ready.row_ids, node, lease_until, now) != ready.count:
                raise RuntimeError("a run that was found waiting does not wait any more")  # rolls the claim back
            return ready

        return [run.claimed() for run in (await self._runner.write(claim)).runs]

    async def definitions(self, versions: Collection[tuple[UUID, int]]) -> dict[tuple[UUID, int], Definition]:
        rows = await self._runner.read(lambda session: session.fetch(SQL["definitions"], list(versions)))
        return {(row["job_id"], row["version"]): definition_from_json(json.loads(row["definition"])) for row in rows}

    async def secrets(self, jobs: Collection[UUID], now: datetime) -> dict[UUID, tuple[Sealed, ...]]:
        wanted = list(jobs)
        return await self._runner.read(lambda session: secrets_of(session.fetch(SQL["secrets_of_jobs"], wanted, now)))

    async def command_seal(self, job_id: UUID, version: int) -> str | None:
        row = await self._runner.read(lambda session: session.fetch_one(SQL["command_seal"], job_id, version))
        return None if row is None else str(row["seal"])

    async def last_success(self, job_id: UUID, before: datetime) -> datetime | None:
        row = await self._runner.read(lambda session: session.fetch_one(SQL["last_success"], job_id, before))
        return None if row is None else row["scheduled_at"]

    async def pause_gone(self, job_id: UUID, version: int, now: datetime, note: str) -> bool:
        return await pause_if_unchanged(ControlStore(SqliteSessions(self._runner)), job_id, version, now, note)

    async def begin(self, held: LeaseKey) -> bool:
        return bool(await self._runner.write(lambda session: session.fetch(SQL["begin"], held.run_id, held.attempt)))

    async def write_notes(self, notes: Sequence[Notes], now: datetime) -> None:
        rows = array(note_values(each, now) for each in notes)
        await self._runner.write(lambda session: session.execute(SQL["write_notes"], rows))

    async def settle(self, settled: Sequence[SettledAttempt]) -> list[Saved]:
        successes = successes_of(settled)  # serialized here, because the writer thread is the bottleneck

        def settle(session: Session) -> dict[LeaseKey, Saved]:
            if successes is not None and write_successes(session, successes):
                return {}
            unwritten = write_settlements(session, settled)
            if not unwritten:
                return {}
            repeated = note_late(session, [each for each in settled if held_by(each) in unwritten])
            return dict.fromkeys(unwritten, Saved.SUPERSEDED) | dict.fromkeys(repeated, Saved.REPEATED)

        late = await self._runner.write(settle)
        return [late.get(held_by(each), Saved.SAVED) for each in settled] if late else [Saved.SAVED] * len(settled)

    async def reap(
        self, now: datetime, limit: int, decide: Callable[[Run, datetime, int], Settlement]
    ) -> list[Settlement]:
        def reap(session: Session) -> list[SettledAttempt]:
            rows = session.fetch(SQL["expired_leases"], now, limit)
            found = session.fetch(SQL["deaths"], [row["id"] for row in rows if row["crashes"]])
            deaths = {row["run_id"]: row["deaths"] for row in found}
            lost = []
            for row in rows:
                run = run_of(row)
                lost.append(settled_lost(decide(run, now, deaths.get(run.id, 0)), row["lease_owner"]))
            if lost:
                write_settlements(session, lost)
                session.wakes.add(Wake.RUNS)
            return lost

        return [each.settlement for each in await self._runner.write(reap)]

    async def expire(self, now: datetime, limit: int, live_for: timedelta = LIVE_FOR) -> list[UUID]:
        def expire(session: Session) -> list[UUID]:
            rows = session.fetch(SQL["too_old"], now, now - live_for, limit)
            ids = [row["id"] for row in rows]
            if ids:
                session.execute(SQL["expire"], ids, now)
                count_expired(session, [(row["id"], row["job_id"]) for row in rows], now)
            return ids

        return await self._runner.write(expire)

    async def prune(self, now: datetime, age: timedelta, keep: int, limit: int, after: Mark | None = None) -> Pruned:
        mark = after or Mark(EPOCH, _NOBODY)

        def prune(session: Session) -> Pruned:
            rows = session.fetch(SQL["prune_candidates"], now - age, mark.finished_at, mark.run_id, keep, limit)
            pruned = [row["id"] for row in rows if row["goes"]]
            if pruned:
                session.execute(SQL["begin_pruning"])
                for statement in ("mark_pruned", "delete_attempts", "delete_cancels", "delete_runs"):
                    session.execute(SQL[statement], pruned)
                session.execute(SQL["delete_finished_jobs"], list({row["job_id"] for row in rows if row["goes"]}))
                session.execute(SQL["end_pruning"])
            session.execute(SQL["forget_nodes"], now - _FORGET)
            session.execute(SQL["forget_outages"], now - age)
            last = rows[-1] if len(rows) == limit else None
            return Pruned(len(pruned), None if last is None else Mark(last["finished_at"], last["id"]))

        return await self._runner.write(prune)

    async def backlog(self, now: datetime, live_for: timedelta = LIVE_FOR) -> Backlog:
        def count(session: Session) -> Backlog:
            [row] = session.fetch(SQL["backlog"], now)
            lanes = [work["lane"] for work in session.fetch(SQL["lanes"])]
            served = [node["served"] for node in session.fetch(SQL["served_lanes"], now - live_for)]
            unserved = tuple(lane for lane in lanes if not serves(served, lane))
            return Backlog(row["waiting"], row["oldest_at"], unserved)

        return await self._runner.read(count)

    async def check_tzdata(self, version: str) -> Tzdata:
        def check(session: Session) -> Tzdata:
            [newest] = session.fetch(SQL["tzdata_version"], version)
            planned_by = session.fetch_one(SQL["planned_by_tzdata"])
            return standing(version, newest["value"], planned_by["value"] if planned_by else None)

        return await self._runner.write(check)

    async def refresh(
        self,
        version: str,
        now: datetime,
        limit: int,
        decide: Callable[[Job, datetime | None], Plan | None],
        after: UUID | None = None,
    ) -> Refreshed:
        return await self._runner.write(
            lambda session: refresh(session, version, now, limit, decide, after=after or _NOBODY)
        )

    @property
    def hears_others(self) -> bool:
        return self._hears

    async def wakes(self) -> AsyncIterator[Wake]:
        """Yield every hint once, then those of each commit in this process, and every hint after one elsewhere."""
        with self._runner.hints.listener() as listener:
            try:
                await self._poll_others()
                while True:
                    heard = await listener.next(self._runner.poll_seconds)
                    for wake in heard:
                        yield wake
                    if not heard:
                        await self._poll_others()
            finally:
                self._hears = False

    async def _poll_others(self) -> None:
        """Run an empty operation: every operation detects commits of other processes."""
        try:
            await self._runner.read(lambda _: None)
            self._hears = True
        except StoreUnavailable:
            self._hears = False

    async def close(self) -> None:
        await self._runner.close()
