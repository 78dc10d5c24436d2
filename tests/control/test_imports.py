"""Imports read while they write, answer lines in order, and leave nothing running when the lines end early."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from hourbell.control.imports import AT_ONCE, Imports, Owner
from hourbell.control.rules import Rules
from hourbell.control.user import User
from hourbell.core.access.roles import Role
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ADMIN = User("somebody", Role.ADMIN)


class BrokenOff(Exception):
    pass


async def lines(count: int, *, breaks_off: bool = False) -> AsyncIterator[tuple[int, bytes]]:
    for number in range(1, count + 1):
        job = {"name": f"job-{number}", "schedule": "@daily", "target": {"type": "queue", "queue": "a"}}
        yield number, json.dumps(job).encode()
    if breaks_off:
        raise BrokenOff


def imports_on(database: SqliteDatabase) -> Imports:
    return Imports(database.control(), rules=Rules(forbids=lambda *_: None), now=lambda: NOW, new_id=uuid4)


async def test_results_come_batch_by_batch_in_the_order_of_the_lines() -> None:
    async with SqliteDatabase.in_memory() as database:
        batches = [each async for each in imports_on(database).run(lines(2 * AT_ONCE + 3), Owner(), ADMIN)]

    assert [len(batch) for batch in batches] == [AT_ONCE, AT_ONCE, 3]
    assert [each.line for batch in batches for each in batch] == list(range(1, 2 * AT_ONCE + 4))
    assert {each.result for batch in batches for each in batch} == {"created"}


async def test_lines_that_break_off_leave_nothing_under_way() -> None:
    async with SqliteDatabase.in_memory() as database:
        before = asyncio.all_tasks()
        with pytest.raises(BrokenOff):
            async for _ in imports_on(database).run(lines(2 * AT_ONCE + 3, breaks_off=True), Owner(), ADMIN):
                pass
        assert asyncio.all_tasks() == before
        [first] = await database.rows("jobs", "name limit 1")

    assert first["name"] == "job-1"


async def test_imports_write_one_batch_at_a_time() -> None:
    writing: list[int] = []

    async with SqliteDatabase.in_memory() as database:
        imports, store = imports_on(database), database.control()

        async def import_jobs(*given: Any, **options: Any) -> Any:
            writing.append(writing[-1] + 1 if writing else 1)
            await asyncio.sleep(0.01)
            writing.append(writing[-1] - 1)
            return await store.import_jobs(*given, **options)

        imports._store = cast("Any", SimpleNamespace(import_jobs=import_jobs))

        async def import_all() -> None:
            async for _ in imports.run(lines(3 * AT_ONCE), Owner(), ADMIN):
                pass

        await asyncio.gather(*(import_all() for _ in range(4)))

    assert max(writing) == 1


async def test_large_lines_leave_turns_to_others() -> None:
    turns = 0

    async def large_lines() -> AsyncIterator[tuple[int, bytes]]:
        async for number, line in lines(20):
            yield number, line[:-1] + b', "payload": [%s]}' % b",".join([b"1"] * 10_000)

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with SqliteDatabase.in_memory() as database:
        counting = asyncio.create_task(count_turns())
        batches = [each async for each in imports_on(database).run(large_lines(), Owner(), ADMIN, dry_run=True)]
        counting.cancel()

    assert {each.result for batch in batches for each in batch} == {"created"}
    assert turns > 20
