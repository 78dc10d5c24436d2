"""Settling on PostgreSQL: outcomes that arrived together are one statement."""

from collections.abc import Sequence
from typing import Any

from hourbell.store.base import Held, Settled
from hourbell.store.postgres.planning import SQL
from hourbell.store.records import going_to_wait, late_values, settlement_values, with_cancels
from hourbell.store.rows import columns


async def write_settlements(connection: Any, settled: Sequence[Settled]) -> set[Held]:
    """Write settlements with their attempts, by id: two writers in the same order never wait for each other."""
    if waiting := going_to_wait(settled):
        cancelled = {row["run_id"] for row in await connection.fetch(SQL["cancels_of"], waiting)}
        settled = with_cancels(settled, cancelled)
    ordered = sorted(settled, key=lambda each: each.settlement.run.id)
    changed = await connection.fetch(SQL["settle"], *columns(map(settlement_values, ordered), 17))
    return {Held(row["id"], row["attempt"]) for row in changed}


async def note_late(connection: Any, left: Sequence[Settled]) -> set[Held]:
    """Keep outcomes that came too late; those that were written before, by a commit whose answer was lost."""
    found = await connection.fetch(SQL["late_outcomes"], *columns(map(late_values, left), 4))
    return {Held(row["run_id"], row["attempt"]) for row in found}
