"""Time-zone data: a node with newer data moves jobs between planning passes, one with older data plans nothing."""

from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import pytest

from hourbell.engine.zone_data import CHECK_EVERY, ZoneData
from hourbell.store.base import EngineStore, Refreshed, Tzdata

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class ScriptedStore:
    """Gives scripted answers and counts the refreshes."""

    def __init__(self, standing: Tzdata, batches: int = 1) -> None:
        self.standing = standing
        self.checks = 0
        self.left = batches

    async def check_tzdata(self, _version: str) -> Tzdata:
        self.checks += 1
        return self.standing

    async def refresh(self, *_arguments: Any) -> Refreshed:
        self.left -= 1
        return Refreshed((), UUID(int=1) if self.left else None)


def zone_data(store: ScriptedStore) -> ZoneData:
    return ZoneData(cast(EngineStore, store), "2026b")


async def test_a_node_with_older_time_zone_data_plans_nothing_until_it_is_upgraded() -> None:
    store = ScriptedStore(Tzdata.OUTDATED)
    data = zone_data(store)

    assert not await data.may_plan(NOW)
    store.standing = Tzdata.CURRENT
    assert await data.may_plan(NOW + 2 * CHECK_EVERY)


async def test_newer_time_zone_data_is_applied_step_by_step_while_planning_continues() -> None:
    store = ScriptedStore(Tzdata.NEWER, batches=3)
    data = zone_data(store)

    assert [(await data.may_plan(NOW), data.is_refreshing) for _ in range(4)] == [
        (True, True),
        (True, True),
        (True, False),
        (True, False),
    ]
    assert store.left == 0


async def test_time_zone_data_is_not_queried_at_every_pass() -> None:
    store = ScriptedStore(Tzdata.CURRENT)
    data = zone_data(store)

    for second in range(10):
        await data.may_plan(NOW + CHECK_EVERY * second / 20)
    assert store.checks == 1
