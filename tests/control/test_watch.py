"""Change streams under virtual time: at most once a second, no duplicates, no silent gaps."""

import asyncio
from contextlib import suppress
from itertools import pairwise
from typing import Any

from hourbell.control.changes import Event, Quiet, Watch
from hourbell.store.control.actor import Actor
from hourbell.store.errors import StoreUnavailable
from tests.engine.nodes import SECOND, Cluster, takes, virtually

NEVER = "0 0 29 2 *"


class Listener:
    """A listener and the events it received. `pause` makes it slow."""

    def __init__(self, watch: Watch, last_id: str | None = None) -> None:
        self.heard: list[Event | Quiet] = []
        self.times: list[float] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.task = asyncio.create_task(self._listen(watch, last_id))

    async def _listen(self, watch: Watch, last_id: str | None) -> None:
        async for event in watch.listen(last_id):
            self.heard.append(event)
            self.times.append(asyncio.get_running_loop().time())
            await self.may_go_on.wait()

    async def hang_up(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task

    @property
    def last_id(self) -> str:
        return self.heard[-1].id

    @property
    def resets(self) -> int:
        return sum(isinstance(event, Event) and event.changes is None for event in self.heard)

    @property
    def jobs(self) -> list[int | None]:
        """Return the reported versions of jobs in order; None for a deleted job."""
        return [job.version for event in self._changes for job in event.jobs]

    @property
    def runs(self) -> list[str]:
        return [run.state.value for event in self._changes for run in event.runs]

    @property
    def _changes(self) -> list[Any]:
        return [event.changes for event in self.heard if isinstance(event, Event) and event.changes is not None]


async def watched(cluster: Cluster) -> tuple[Watch, Listener]:
    watch = Watch(cluster.database.lists(), now=cluster.now, epoch="e")
    listener = Listener(watch)
    await cluster.advance(1.5 * SECOND)
    return watch, listener


@virtually
async def test_events_report_a_job_that_is_created_changed_or_deleted(cluster: Cluster) -> None:
    _, listener = await watched(cluster)
    job = await cluster.add_job(schedule=NEVER)
    await cluster.advance(1 * SECOND)
    await cluster.edit(job, description="new")
    await cluster.advance(1 * SECOND)
    await cluster.control.delete_job(job.id, Actor("test", cluster.now()))
    await cluster.advance(10 * SECOND)

    assert listener.jobs == [1, 2, None]
    assert listener.resets == 0


@virtually
async def test_events_report_a_run_that_begins_or_ends(cluster: Cluster) -> None:
    cluster.script["job"] = takes(3 * SECOND)
    job = await cluster.add_job(schedule=NEVER)
    await cluster.start()
    await cluster.advance(5 * SECOND)
    _, listener = await watched(cluster)
    await cluster.trigger(job)
    await cluster.advance(10 * SECOND)

    assert listener.runs == ["running", "succeeded"]
    assert listener.jobs == []


@virtually
async def test_events_come_once_a_second_at_most_however_much_happens(cluster: Cluster) -> None:
    _, listener = await watched(cluster)
    for number in range(100):
        await cluster.add_job(f"job-{number}", NEVER)
        await cluster.advance(SECOND / 20)
    await cluster.advance(2 * SECOND)

    reported = [at for at, event in zip(listener.times, listener.heard, strict=True) if isinstance(event, Event)]
    assert len(listener.jobs) == 100
    assert all(later - earlier >= 0.99 for earlier, later in pairwise(reported))


@virtually
async def test_a_reconnected_listener_continues_where_it_was_while_others_listen(cluster: Cluster) -> None:
    watch, other = await watched(cluster)
    first = Listener(watch)
    await cluster.add_job("one", NEVER)
    await cluster.advance(2 * SECOND)
    await first.hang_up()
    await cluster.add_job("two", NEVER)
    await cluster.advance(2 * SECOND)
    again = Listener(watch, first.last_id)
    await cluster.advance(2 * SECOND)

    assert [len(each.jobs) for each in (first, other, again)] == [1, 2, 1]
    assert again.resets == 0


@virtually
async def test_an_id_that_is_not_known_is_answered_by_a_reset(cluster: Cluster) -> None:
    watch, _ = await watched(cluster)
    unknown = [Listener(watch, last_id) for last_id in ("e-99", "other-0", "", "e-", "e--1", "e-" + "9" * 50, "e-²")]
    await cluster.advance(2 * SECOND)

    assert [each.resets for each in unknown] == [1] * len(unknown)


@virtually
async def test_a_listener_that_returns_after_nobody_listened_gets_a_reset(cluster: Cluster) -> None:
    watch, listener = await watched(cluster)
    await listener.hang_up()
    await cluster.advance(5 * SECOND)
    await cluster.add_job(schedule=NEVER)
    await cluster.advance(5 * SECOND)
    again = Listener(watch, listener.last_id)
    await cluster.advance(2 * SECOND)

    assert again.resets == 1


@virtually
async def test_a_listener_that_is_too_far_behind_gets_a_reset(cluster: Cluster) -> None:
    _, listener = await watched(cluster)
    listener.may_go_on.clear()
    for number in range(400):
        await cluster.add_job(f"job-{number}", NEVER)
        await cluster.advance(SECOND)
    listener.may_go_on.set()
    await cluster.advance(2 * SECOND)

    assert listener.resets == 1


@virtually
async def test_a_slow_listener_misses_nothing(cluster: Cluster) -> None:
    _, listener = await watched(cluster)
    listener.may_go_on.clear()
    for number in range(20):
        await cluster.add_job(f"job-{number}", NEVER)
        await cluster.advance(SECOND)
        if number % 7 == 0:
            listener.may_go_on.set()
            await cluster.advance(0)
            listener.may_go_on.clear()
    listener.may_go_on.set()
    await cluster.advance(2 * SECOND)

    assert len(listener.jobs) == 20
    assert listener.resets == 0


@virtually
async def test_more_than_fits_is_a_reset(cluster: Cluster) -> None:
    _, listener = await watched(cluster)
    for number in range(501):
        await cluster.add_job(f"job-{number}", NEVER)
    await cluster.advance(2 * SECOND)

    assert listener.resets >= 1
    assert listener.jobs == []


@virtually
async def test_a_comment_is_sent_every_fifteen_silent_seconds(cluster: Cluster) -> None:
    _, listener = await watched(cluster)
    await cluster.advance(60 * SECOND)

    assert {type(event) for event in listener.heard} == {Quiet}
    assert [round(at) for at in listener.times] == [0, 15, 30, 45, 60]


@virtually
async def test_nobody_asks_the_database_while_nobody_listens(cluster: Cluster) -> None:
    asked = 0

    class Counting:
        """The list store, with a count of its queries."""

        def __init__(self, lists: Any) -> None:
            self._lists = lists

        async def changes(self, *arguments: Any) -> Any:
            nonlocal asked
            asked += 1
            return await self._lists.changes(*arguments)

    watch = Watch(Counting(cluster.database.lists()), now=cluster.now, epoch="e")  # type: ignore[arg-type]
    await cluster.advance(10 * SECOND)
    assert asked == 0
    listeners = [Listener(watch) for _ in range(3)]
    await cluster.advance(10 * SECOND)
    while_listening = asked
    for listener in listeners:
        await listener.hang_up()
    await cluster.advance(SECOND)
    after = asked
    await cluster.advance(60 * SECOND)

    assert 9 <= while_listening <= 11
    assert asked == after


@virtually
async def test_after_an_outage_listeners_get_a_reset(cluster: Cluster) -> None:
    class Broken:
        """The list store of a database that is unreachable at times."""

        is_out = False

        async def changes(self, *arguments: Any) -> Any:
            if self.is_out:
                raise StoreUnavailable("unreachable")
            return await lists.changes(*arguments)

    lists, broken = cluster.database.lists(), Broken()
    watch = Watch(broken, now=cluster.now, epoch="e")  # type: ignore[arg-type]
    listener = Listener(watch)
    await cluster.advance(2 * SECOND)
    broken.is_out = True
    await cluster.add_job(schedule=NEVER)
    await cluster.advance(60 * SECOND)
    broken.is_out = False
    await cluster.advance(2 * SECOND)

    assert (listener.jobs, listener.resets) == ([], 1)  # what ended meanwhile may be written later than it is dated


@virtually
async def test_closing_ends_every_listener_and_lets_none_in(cluster: Cluster) -> None:
    watch, listener = await watched(cluster)
    await watch.close()
    late = Listener(watch)
    await cluster.advance(SECOND / 10)

    assert (listener.task.done(), late.task.done()) == (True, True)
