"""last_beat, save_outage and the list of outages: when nothing could run."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from hourbell.core.run.outages import Outage, OutageOf
from hourbell.store.base import EngineStore
from hourbell.store.control.store import ControlStore
from tests.contract.steps import DAY, HOUR, MINUTE, NODE, OTHER_NODE, SECOND, T0, a_node, add_job
from tests.database import Database

pytestmark = pytest.mark.anyio
NODES, DATABASE = OutageOf.NODES, OutageOf.DATABASE


def outage(start: datetime, until: datetime, of: OutageOf = DATABASE, **more: Any) -> Outage:
    return Outage(of, start, until, **{"found_by": NODE, **more})


async def listed(database: Database) -> list[Outage]:
    return await database.lists().outages(100)


async def test_before_any_node_ran_there_is_no_last_heartbeat(store: EngineStore) -> None:
    assert await store.last_beat() is None


async def test_the_last_heartbeat_is_the_newest_of_all_nodes(store: EngineStore) -> None:
    await store.heartbeat(a_node(), T0 + MINUTE, T0 + HOUR, [])
    await store.heartbeat(a_node(node=OTHER_NODE), T0 + SECOND, T0 + HOUR, [])

    assert await store.last_beat() == T0 + MINUTE


async def test_the_last_heartbeat_of_a_retired_node_is_still_known(store: EngineStore) -> None:
    for node, at in ((NODE, T0 + MINUTE), (OTHER_NODE, T0 + SECOND)):
        await store.heartbeat(a_node(node=node), at, T0 + HOUR, [])
        await store.retire(node)
    await store.retire(OTHER_NODE)

    assert await store.last_beat() == T0 + MINUTE
    await store.heartbeat(a_node(), T0 + HOUR, T0 + 2 * HOUR, [])
    assert await store.last_beat() == T0 + HOUR


async def test_an_outage_is_recorded_once(store: EngineStore, database: Database) -> None:
    found = outage(T0, T0 + HOUR, NODES)

    assert await store.save_outage(found)
    assert not await store.save_outage(found)
    assert await listed(database) == [found]


async def test_nodes_that_saw_one_outage_write_one_record(store: EngineStore, database: Database) -> None:
    assert await store.save_outage(outage(T0 + 5 * SECOND, T0 + HOUR))
    assert await store.save_outage(outage(T0, T0 + HOUR - SECOND, found_by=OTHER_NODE))
    assert not await store.save_outage(outage(T0 + MINUTE, T0 + 2 * MINUTE))

    assert await listed(database) == [outage(T0, T0 + HOUR, found_by=OTHER_NODE)]


async def test_an_outage_that_joins_several_records_replaces_them(store: EngineStore, database: Database) -> None:
    await store.save_outage(outage(T0, T0 + MINUTE))
    await store.save_outage(outage(T0 + HOUR, T0 + 2 * HOUR))
    await store.save_outage(outage(T0 + MINUTE, T0 + HOUR, found_by=OTHER_NODE))

    assert await listed(database) == [outage(T0, T0 + 2 * HOUR)]


async def test_nodes_that_report_at_the_same_time_write_one_record(database: Database) -> None:
    stores = [database.engine() for _ in range(6)]
    spans = [outage(T0 + number * SECOND, T0 + HOUR + number * SECOND) for number in range(6)]

    written = await asyncio.gather(*(each.save_outage(span) for each, span in zip(stores, spans, strict=True)))

    assert any(written)
    [record] = await listed(database)
    assert (record.start, record.until) == (T0, T0 + HOUR + 5 * SECOND)


async def test_outages_of_different_kinds_stay_apart(store: EngineStore, database: Database) -> None:
    await store.save_outage(outage(T0, T0 + HOUR, NODES))
    await store.save_outage(outage(T0 + MINUTE, T0 + HOUR, DATABASE))

    assert [each.of for each in await listed(database)] == [DATABASE, NODES]


async def test_outages_are_pruned_like_runs(store: EngineStore, database: Database) -> None:
    old, kept = outage(T0 - 40 * DAY, T0 - 31 * DAY), outage(T0 - 31 * DAY + HOUR, T0 - 29 * DAY)
    for each in (old, kept):
        await store.save_outage(each)

    await store.prune(T0, 30 * DAY, keep=20, limit=10)

    assert await listed(database) == [kept]


async def test_a_list_has_what_touches_the_span_newest_first(store: EngineStore, database: Database) -> None:
    days = [outage(T0 + number * DAY, T0 + number * DAY + HOUR, NODES) for number in range(4)]
    for each in days:
        await store.save_outage(each)

    lists = database.lists()
    assert await lists.outages(10, since=T0 + DAY + MINUTE, until=T0 + 2 * DAY) == [days[2], days[1]]
    assert await lists.outages(2) == [days[3], days[2]]
    assert await lists.outages(2, before=(days[2].start, "nodes")) == [days[1], days[0]]


async def test_the_facts_about_a_time_have_the_outages_that_it_fell_into(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    during = outage(T0, T0 + HOUR, NODES)
    await store.save_outage(during)
    await store.save_outage(outage(T0 + 2 * HOUR, T0 + 3 * HOUR))

    facts = await database.lists().instant(job.id, T0 + MINUTE)

    assert facts is not None
    assert facts.outages == [during]
