"""Settling on PostgreSQL: outcomes that arrive together are written by one statement."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from hourbell.store.base import LeaseKey, SettledAttempt
from hourbell.store.engine.records import Success, going_to_wait, late_values, settlement_values, with_cancels
from hourbell.store.postgres.planning import SQL
from hourbell.store.rows import columns


async def write_settlements(connection: Any, settled: Sequence[SettledAttempt]) -> set[LeaseKey]:
    """Write settlements with their attempts, in the order of their ids so that two writers cannot deadlock.

    Return those that were not written.
    """
    if waiting := going_to_wait(settled):
        cancelled = {row["run_id"] for row in await connection.fetch(SQL["cancels_of"], waiting)}
        settled = with_cancels(settled, cancelled)
    rows = sorted(map(settlement_values, settled), key=_by_run)
    return await _unwritten(connection, "settle", columns(rows, 17))


async def write_successes(connection: Any, node: UUID, successes: Sequence[Success]) -> set[LeaseKey]:
    """Write successful attempts of one node in the same way; return those that were not written."""
    arrays = columns(sorted(successes, key=_by_run), 8)
    # A column of nulls is sent as one null: each element of an array costs as much as a small row.
    given = [None if column.count(None) == len(column) else column for column in arrays]
    return await _unwritten(connection, "settle_succeeded", given, node)


async def note_late(connection: Any, left: Sequence[SettledAttempt]) -> set[LeaseKey]:
    """Store outcomes that arrived too late; return those that an earlier commit wrote, whose response was lost."""
    found = await connection.fetch(SQL["late_outcomes"], *columns(map(late_values, left), 4))
    return {LeaseKey(row["run_id"], row["attempt"]) for row in found}


async def _unwritten(connection: Any, statement: str, arrays: Sequence[Any], *values: Any) -> set[LeaseKey]:
    rows = await connection.fetch(SQL[statement], *arrays, *values)
    if rows and rows[0]["runs"] is None:
        return set()  # all were written
    written = set(map(LeaseKey, rows[0]["runs"], rows[0]["attempts"])) if rows else set()
    runs, attempts, *_ = arrays
    return set(map(LeaseKey, runs, attempts)) - written


def _by_run(row: Sequence[Any]) -> bytes:
    run_id: UUID = row[0]
    return run_id.bytes
