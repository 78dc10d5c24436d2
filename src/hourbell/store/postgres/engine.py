"""The engine's verbs on PostgreSQL."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

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
from hourbell.store.engine.batch import Batch
from hourbell.store.engine.due import change_errors, job_errors
from hourbell.store.engine.records import (
    Success,
    note_values,
    refreshed,
    serves,
    settled_lost,
    standing,
    success_of,
)
from hourbell.store.engine.records import held as held_by
from hourbell.store.errors import StoreUnavailable
from hourbell.store.postgres.connections import Connections
from hourbell.store.postgres.hosts import check_writable
from hourbell.store.postgres.planning import REFUSED, SQL, Write, plan_jobs, write_plans, write_together
from hourbell.store.postgres.session import PostgresSessions
from hourbell.store.postgres.settling import note_late, write_settlements, write_successes
from hourbell.store.postgres.stalled_sessions import STALLED_AFTER, end_stalled_sessions
from hourbell.store.rows import claimed_runs_of, columns, outage_of, run_of, secrets_of

_FORGET = timedelta(days=1)
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_NOBODY = UUID(int=0)
MAX_NOTIFICATIONS_A_SECOND = 10_000  # the channel that nodes listen to; every login of the database may send to it
_SILENCE = 10  # seconds without a notification before the connection is tested


class PostgresEngineStore:
    def __init__(self, connections: Connections, *, stalled_after: timedelta = STALLED_AFTER) -> None:
        self._connections = connections
        self._stalled_after = stalled_after
        self._listens = False
        self._next_plan_at: datetime | None = None  # as last seen; a job may be due sooner by now

    async def sample_time(self) -> datetime:
        async with self._connections.connection() as connection:
            time: datetime = await connection.fetchval(SQL["sample_time"])
            return time

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
        ids = [each.run_id for each in held]
        async with self._connections.transaction() as connection:
            await connection.execute(
                SQL["beat"], node.id, node.host, node.started_at, now, list(node.lanes), node.tzdata
            )
            attempts = [each.attempt for each in held]
            renewed = await connection.fetch(SQL["renew"], ids, attempts, lease_until, node.id) if held else []
            cancels = await connection.fetch(SQL["cancels_of"], ids) if held else []
            known = columns([*held, *given_up], 2)
            unheld = await connection.fetch(SQL["unheld"], node.id, *known)
            orphaned = [row for row in unheld if _held(row) in orphans]
            if orphaned:
                await write_settlements(connection, [SettledAttempt(hand_back(run_of(row), now)) for row in orphaned])
                await connection.execute(SQL["wake"], Wake.RUNS)
        renewed_keys = {_held(row) for row in renewed}
        return HeartbeatReply(
            tuple(each for each in held if each not in renewed_keys),
            tuple(row["run_id"] for row in cancels),
            tuple(_held(row) for row in orphaned),
            tuple(_held(row) for row in unheld if _held(row) not in orphans),
        )

    async def retire(self, node: UUID) -> None:
        async with self._connections.connection() as connection:
            await connection.execute(SQL["retire"], node)

    async def last_beat(self) -> datetime | None:
        async with self._connections.connection() as connection:
            found: datetime | None = await connection.fetchval(SQL["last_beat"])
            return found

    async def save_outage(self, outage: Outage) -> bool:
        span = (outage.of.value, outage.start, outage.until)
        async with self._connections.transaction() as connection:
            await connection.execute(SQL["lock_outages"])  # else two nodes would not see each other's records
            known = [outage_of(row) for row in await connection.fetch(SQL["overlapping_outages"], *span)]
            merged = merge_outages(outage, known)
            if known == [merged]:
                return False
            await connection.execute(SQL["delete_outages"], *span)
            await connection.execute(SQL["insert_outage"], merged.of.value, merged.start, merged.until, merged.found_by)
            return True

    async def plan_due(self, now: datetime, limit: int, decide: Callable[[Job, datetime], Plan]) -> Planned:
        async with self._connections.connection() as connection:
            if self._next_plan_at is None or self._next_plan_at > now:  # else it is known to be due
                self._next_plan_at = await connection.fetchval(SQL["next_plan_at"])
            if self._next_plan_at is None or self._next_plan_at > now:
                return Planned(0, 0, {}, (), frozenset(), self._next_plan_at)
            try:
                async with connection.transaction():
                    planned = await self._plan_due(connection, now, limit, decide, write_together)
            except REFUSED:  # nothing was written; the second attempt sets the job aside whose data was refused
                async with connection.transaction():
                    planned = await self._plan_due(connection, now, limit, decide, write_plans)
            self._next_plan_at = planned.next_plan_at
            return planned

    async def _plan_due(
        self, connection: Any, now: datetime, limit: int, decide: Callable[[Job, datetime], Plan], write: Write
    ) -> Planned:
        rows = await connection.fetch(SQL["due_jobs"], now, limit)
        is_full = len(rows) == limit
        written = await plan_jobs(connection, rows, now, decide, write, asks_next=not is_full)
        if written.broken:
            await connection.execute(SQL["set_job_errors"], *columns(job_errors(written.broken), 2))
            if superseded := change_errors(written.broken):
                await connection.execute(SQL["set_change_errors"], *columns(superseded, 3), now)
        next_plan_at = now if is_full else written.next_plan_at
        if not is_full and (written.broken or not written.plans):
            next_plan_at = await connection.fetchval(SQL["next_plan_at"])
        batch = Batch(tuple(written.plans))
        return Planned(
            jobs=len(rows),
            runs=written.lanes.total(),
            skipped=batch.skipped,
            errors=batch.errors + tuple((each.name, each.error) for each in written.broken if each.change_id is None),
            lanes=frozenset(written.lanes),
            next_plan_at=next_plan_at,
        )

    async def lanes(self, now: datetime) -> list[LaneWork]:  # noqa: ARG002
        async with self._connections.connection() as connection:
            return [LaneWork(row["lane"], row["ready_at"]) for row in await connection.fetch(SQL["lanes"])]

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
        async with self._connections.connection() as connection:
            try:
                if suspects:
                    lanes = [demand.lane for demand in demands if demand.free > 0]
                    rows = await connection.fetch(SQL["claim_suspect"], lanes, now, node, lease_until, suspect_after)
                else:
                    arrays = columns(((demand.lane, demand.free, demand.oldest) for demand in demands), 3)
                    rows = await connection.fetch(SQL["claim"], *arrays, now, node, lease_until, suspect_after)
            except asyncpg.UniqueViolationError:
                return []  # another node was first with a run of the same job: a lost race
        return claimed_runs_of(rows)

    async def definitions(self, versions: Collection[tuple[UUID, int]]) -> dict[tuple[UUID, int], Definition]:
        async with self._connections.connection() as connection:
            rows = await connection.fetch(SQL["definitions"], *columns(versions, 2))
        return {(row["job_id"], row["version"]): definition_from_json(json.loads(row["definition"])) for row in rows}

    async def secrets(self, jobs: Collection[UUID], now: datetime) -> dict[UUID, tuple[Sealed, ...]]:
        async with self._connections.connection() as connection:
            return secrets_of(await connection.fetch(SQL["secrets_of_jobs"], list(jobs), now))

    async def command_seal(self, job_id: UUID, version: int) -> str | None:
        async with self._connections.connection() as connection:
            found: str | None = await connection.fetchval(SQL["command_seal"], job_id, version)
        return found

    async def last_success(self, job_id: UUID, before: datetime) -> datetime | None:
        async with self._connections.connection() as connection:
            found: datetime | None = await connection.fetchval(SQL["last_success"], job_id, before)
        return found

    async def pause_gone(self, job_id: UUID, version: int, now: datetime, note: str) -> bool:
        return await pause_if_unchanged(ControlStore(PostgresSessions(self._connections)), job_id, version, now, note)

    async def begin(self, held: LeaseKey) -> bool:
        async with self._connections.connection() as connection:
            return await connection.fetchval(SQL["begin"], held.run_id, held.attempt) is not None

    async def write_notes(self, notes: Sequence[Notes], now: datetime) -> None:
        async with self._connections.connection() as connection:
            await connection.execute(SQL["write_notes"], *columns([note_values(each, now) for each in notes], 6))

    async def settle(self, settled: Sequence[SettledAttempt]) -> list[Saved]:
        successes, others = _split(settled)
        if others and successes:  # the statistics of a job are written together, in the order of its outcomes
            successes, others = _split(settled, {each.settlement.run.job_id for each in others})
        unwritten: set[LeaseKey] = set()
        async with self._connections.connection() as connection:
            try:
                for node, of_node in successes.items():  # separately: each statement takes its locks in order
                    unwritten |= await write_successes(connection, node, of_node)
            except asyncpg.UniqueViolationError:  # somebody else wrote one of the attempts
                unwritten, others = set(), list(settled)
            if others:
                async with connection.transaction():
                    unwritten |= await write_settlements(connection, others)
            if not unwritten:
                return [Saved.SAVED] * len(settled)
            repeated = await note_late(connection, [each for each in settled if held_by(each) in unwritten])
        late = dict.fromkeys(unwritten, Saved.SUPERSEDED) | dict.fromkeys(repeated, Saved.REPEATED)
        return [late.get(held_by(each), Saved.SAVED) for each in settled]

    async def reap(
        self, now: datetime, limit: int, decide: Callable[[Run, datetime, int], Settlement]
    ) -> list[Settlement]:
        async with self._connections.connection() as connection:
            await end_stalled_sessions(connection, self._stalled_after)
        async with self._connections.transaction() as connection:
            rows = await connection.fetch(SQL["expired_leases"], now, limit)
            charged = [row["id"] for row in rows if row["crashes"]]
            found = await connection.fetch(SQL["deaths"], charged) if charged else []
            deaths = {row["run_id"]: row["deaths"] for row in found}
            lost = []
            for row in rows:
                run = run_of(row)
                lost.append(settled_lost(decide(run, now, deaths.get(run.id, 0)), row["lease_owner"]))
            if lost:
                await write_settlements(connection, lost)
                await connection.execute(SQL["wake"], Wake.RUNS)
        return [each.settlement for each in lost]

    async def expire(self, now: datetime, limit: int, live_for: timedelta = LIVE_FOR) -> list[UUID]:
        async with self._connections.connection() as connection:
            return [row["id"] for row in await connection.fetch(SQL["expire"], now, now - live_for, limit)]

    async def prune(self, now: datetime, age: timedelta, keep: int, limit: int, after: Mark | None = None) -> Pruned:
        mark = after or Mark(_LONG_AGO, _NOBODY)
        async with self._connections.transaction() as connection:
            rows = await connection.fetch(
                SQL["prune_candidates"], now - age, mark.finished_at, mark.run_id, keep, limit
            )
            pruned = [row["id"] for row in rows if row["goes"]]
            if pruned:
                await connection.execute("set local hourbell.prunes = 'on'")
                for statement in ("mark_pruned", "delete_attempts", "delete_cancels", "delete_runs"):
                    await connection.execute(SQL[statement], pruned)
                jobs = list({row["job_id"] for row in rows if row["goes"]})
                finished = await connection.fetch(SQL["lock_finished_jobs"], jobs)
                await connection.execute(SQL["delete_finished_jobs"], [row["id"] for row in finished])
            await connection.execute(SQL["forget_nodes"], now - _FORGET)
            await connection.execute(SQL["forget_outages"], now - age)
        last = rows[-1] if len(rows) == limit else None
        return Pruned(len(pruned), None if last is None else Mark(last["finished_at"], last["id"]))

    async def backlog(self, now: datetime, live_for: timedelta = LIVE_FOR) -> Backlog:
        async with self._connections.connection() as connection:
            await check_writable(connection)  # a read alone would succeed on a server that refuses writes
            row = await connection.fetchrow(SQL["backlog"], now)
            lanes = [work["lane"] for work in await connection.fetch(SQL["lanes"])]
            served = [node["served"] for node in await connection.fetch(SQL["served_lanes"], now - live_for)]
        return Backlog(row["waiting"], row["oldest"], tuple(lane for lane in lanes if not serves(served, lane)))

    async def check_tzdata(self, version: str) -> Tzdata:
        async with self._connections.connection() as connection:
            row = await connection.fetchrow(SQL["tzdata_version"], version)
        return standing(version, row["value"], row["planned_by"])

    async def refresh(
        self,
        version: str,
        now: datetime,
        limit: int,
        decide: Callable[[Job, datetime | None], Plan | None],
        after: UUID | None = None,
    ) -> Refreshed:
        async with self._connections.transaction() as connection:
            rows = await connection.fetch(SQL["jobs_to_refresh"], after or _NOBODY, limit)
            served = await connection.fetch(SQL["newest_local_times"], [row["id"] for row in rows])
            local_times = {row["id"]: row["local_at"] for row in served}
            plans = refreshed(rows, local_times, decide)
            unsaved = {row["id"]: row["updated_at"] for row in rows if row["saved_version"] != row["version"]}
            await write_plans(connection, plans, unsaved, now)
            if len(rows) < limit:
                await connection.execute(SQL["set_planned_by_tzdata"], version)
        moved = tuple((plan.job.definition.name, plan.job.next_at, plan.next_at) for plan in plans)
        return Refreshed(moved, rows[-1]["id"] if len(rows) == limit else None)

    @property
    def hears_others(self) -> bool:
        return self._listens

    async def wakes(self) -> AsyncIterator[Wake]:
        """Listen on a dedicated connection, and replace it when it dies."""
        while True:
            try:
                async with self._connections.dedicated() as connection, aclosing(self._heard(connection)) as heard:
                    async for wake in heard:
                        yield wake
            except StoreUnavailable:
                await asyncio.sleep(1)

    async def _heard(self, connection: Any) -> AsyncGenerator[Wake, None]:
        """Yield all hints once, then each as it arrives. After a silence the connection is tested, so a dead one is
        noticed.

        A flood of notifications closes the connection: hints must not take the time that deliveries need.
        """
        heard: asyncio.Queue[Wake | None] = asyncio.Queue(maxsize=100)
        connection.add_termination_listener(lambda _: _offer(heard, None))

        elapsed = asyncio.get_running_loop().time
        began, count = elapsed(), 0

        def hear(_: Any, pid: int, __: str, payload: str) -> None:
            nonlocal began, count
            if elapsed() - began >= 1:
                began, count = elapsed(), 0
            count += 1
            if count > MAX_NOTIFICATIONS_A_SECOND:
                connection.terminate()  # the rest is not read
                return
            wake = _wake_of(payload)
            if wake is not Wake.RUNS or not self._connections.has(pid):  # their planner in this process knows already
                _offer(heard, wake)

        await connection.add_listener("hourbell", hear)
        self._listens = True
        try:
            for wake in Wake:
                yield wake
            while True:
                try:
                    async with asyncio.timeout(_SILENCE):  # wait_for may lose a cancellation
                        hint = await heard.get()
                except TimeoutError:
                    async with asyncio.timeout(_SILENCE):
                        await check_writable(connection)
                else:
                    if hint is None:
                        raise StoreUnavailable("the connection for notifications was closed")
                    yield hint
        finally:
            self._listens = False

    async def close(self) -> None:
        await self._connections.close()


def _held(row: asyncpg.Record) -> LeaseKey:
    return LeaseKey(row["id"], row["attempt"])


def _wake_of(payload: str) -> Wake:
    """Parse a notification; any login may send one, and one that is not Hourbell's could mean anything."""
    return Wake(payload) if payload in Wake.__members__.values() else Wake.JOBS


def _offer(heard: asyncio.Queue[Wake | None], wake: Wake | None) -> None:
    """Queue a hint. Hints are dropped when the queue is full; the end of the connection is not."""
    if heard.full():
        heard.get_nowait()
    heard.put_nowait(wake)


def _split(
    settled: Sequence[SettledAttempt], together: Collection[UUID] = ()
) -> tuple[dict[UUID, list[Success]], list[SettledAttempt]]:
    """Split settlements into plain successes by node, which have a statement of their own, and others; `together` names
    jobs whose settlements all belong to the others.
    """
    successes: dict[UUID, list[Success]] = {}
    others: list[SettledAttempt] = []
    node: UUID | None = None
    for each in settled:
        success = success_of(each)
        if success is None or each.node is None or (together and each.settlement.run.job_id in together):
            others.append(each)
            continue
        if each.node is not node:  # nearly all belong to one node, which need not be looked up for each
            node = each.node
            of_node = successes.setdefault(node, [])
        of_node.append(success)
    return successes, others
