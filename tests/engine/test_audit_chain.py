"""The loop that chains audit rows: in batches, only new rows, with a log line if links it has seen are missing."""

import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from hourbell.core.access.audit_chain import SealKeys
from hourbell.engine.audit_chain import INTERVAL_SECONDS, AuditChainer
from hourbell.engine.loop import NotAsked
from hourbell.engine.time import DatabaseClock
from hourbell.metrics import Metrics
from hourbell.store.control.audit_chain import PAGE_ROWS, verify_chain
from tests.contract.steps import T0, add_job
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio
OLD, NEW = SealKeys({"old": b"o" * 32}, "old"), SealKeys({"new": b"n" * 32, "old": b"o" * 32}, "new")


@pytest.fixture
async def database() -> AsyncIterator[SqliteDatabase]:
    async with SqliteDatabase.in_memory() as made:
        yield made


class Node:
    def __init__(self, database: SqliteDatabase, seals: SealKeys | None = None) -> None:
        self.seconds = 0.0
        self.metrics = Metrics()
        clock = DatabaseClock(lambda: self.seconds)
        self.chainer = AuditChainer(database.audit_chain(), clock, metrics=self.metrics, seals=seals or SealKeys())
        clock.observe(T0, 0)

    async def work(self) -> list[float]:
        """Tick until nothing is left to do; the delays."""
        delays = [await self.tick()]
        while delays[-1] < INTERVAL_SECONDS:
            delays.append(await self.tick())
        return delays

    async def tick(self) -> float:
        delay = await self.chainer.tick()
        self.seconds += delay
        return delay

    @property
    def is_broken(self) -> bool:
        return self.metrics.registry.get_sample_value("hourbell_audit_chain_broken") == 1


async def started(database: SqliteDatabase, seals: SealKeys | None = None) -> Node:
    node = Node(database, seals)
    assert await node.tick() == INTERVAL_SECONDS  # it only looks
    return node


async def add_rows(database: SqliteDatabase, count: int, prefix: str = "job") -> None:
    for number in range(count):
        await add_job(database.control(), f"{prefix}-{number}")


async def links(database: SqliteDatabase) -> list[dict[str, Any]]:
    return await database.rows("audit_chain")


async def drop_triggers(database: SqliteDatabase) -> None:
    for name in ("audit_updated", "audit_deleted", "audit_chain_deleted"):
        await database.sql(f"drop trigger hourbell.{name}")


def events(caplog: pytest.LogCaptureFixture, name: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.message == name]


async def test_a_backlog_is_chained_in_batches_and_logged_once(
    database: SqliteDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    await add_rows(database, PAGE_ROWS + 1)
    node = await started(database)

    with caplog.at_level(logging.INFO, "hourbell.engine"):
        delays = await node.work()
    rows = await links(database)
    assert (len(delays), len(rows)) == (3, PAGE_ROWS + 1)
    [event] = events(caplog, "audit_chained")
    assert vars(event).items() >= {"links": PAGE_ROWS + 1, "position": PAGE_ROWS + 1, "hash": rows[-1]["hash"]}.items()


async def test_an_idle_node_writes_nothing(database: SqliteDatabase) -> None:
    await add_rows(database, 1)
    node = await started(database, NEW)
    await node.work()
    before = database.connection.pragma("data_version")

    assert [await node.tick() for _ in range(3)] == [INTERVAL_SECONDS] * 3
    assert database.connection.pragma("data_version") == before


async def test_a_loop_waits_for_the_time_of_the_database(database: SqliteDatabase) -> None:
    chainer = AuditChainer(database.audit_chain(), DatabaseClock(lambda: 0.0), metrics=Metrics(), seals=SealKeys())

    assert isinstance(await chainer.tick(), NotAsked)


async def test_a_broken_chain_is_logged_at_the_start(
    database: SqliteDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    await add_rows(database, 2)
    await (await started(database)).work()
    await drop_triggers(database)
    await database.sql("update hourbell.audit set actor = 'mallory' where id = 2")

    node = await started(database)

    [event] = events(caplog, "audit_chain_broken")
    assert vars(event).items() >= {"kind": "row_changed", "position": 2, "audit_id": 2}.items()
    assert node.is_broken


async def test_links_that_vanish_under_a_node_are_logged_once(
    database: SqliteDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    await add_rows(database, 2)
    node = await started(database)
    await node.work()
    assert not node.is_broken
    newest = (await links(database))[-1]
    await drop_triggers(database)
    await database.sql("delete from hourbell.audit_chain where position = 2")
    await database.sql("delete from hourbell.audit where id = 2")

    await node.work()
    await node.work()
    [event] = events(caplog, "audit_chain_broken")
    assert event.kind == "links_removed"  # type: ignore[attr-defined]
    assert newest["hash"] in event.error  # type: ignore[attr-defined]
    assert node.is_broken


async def test_a_node_with_another_key_seals_the_chain_once_at_its_start(database: SqliteDatabase) -> None:
    await add_rows(database, 1)
    await (await started(database, OLD)).work()
    nodes = [await started(database, NEW) for _ in range(2)]
    for node in nodes:
        await node.work()
        await node.tick()

    assert [(row["audit_id"], row["key_id"]) for row in await links(database)] == [(1, "old"), (None, "new")]
    verdict = await verify_chain(
        database.audit_chain(), T0 + timedelta(days=1), SealKeys({"new": NEW.keys["new"]}, "new")
    )
    assert (verdict.is_intact, verdict.rows, verdict.sealed_position) == (True, 1, 2)


async def test_links_of_a_node_without_a_key_are_sealed_by_one_that_has_it(database: SqliteDatabase) -> None:
    keyed, plain = await started(database, NEW), await started(database)
    await add_rows(database, 1)
    await plain.work()
    await keyed.work()
    await plain.work()

    assert [row["key_id"] for row in await links(database)] == [None, "new"]
