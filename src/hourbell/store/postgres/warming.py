"""Warms up a connection of the engine, so that none of this is left for the moment a job is due.

The first time a statement runs on a connection, it is parsed and planned and its tables are looked up, which takes up
to 7 ms; before that, asyncpg queries types that it does not know. Without warm-up, a job that is due once an hour would
start 20 to 30 ms later than one that is due every second.
"""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from hourbell.store.postgres.planning import SQL

# Every array type that the engine's statements use, so that all are queried at once.
_ARRAYS = """select $1::uuid[], $2::text[], $3::int[], $4::smallint[], $5::bigint[], $6::bool[], $7::timestamptz[],
    $8::timestamp[], $9::float8[]"""
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_NOBODY = UUID(int=0)
# The statements on the way from a scheduled time to its task and back, without any rows.
_NOTHING_TO_DO: dict[str, list[Any]] = {
    "due_jobs": [_NEVER, 0],
    "save_plans": [[]] * 14 + [_NEVER] + [[]] * 7 + [False],
    "claim": [[]] * 3 + [_NEVER, _NOBODY, _NEVER, 0],
    "definitions": [[], []],
    "secrets_of_jobs": [[], _NEVER],
    "settle_succeeded": [[]] * 8 + [_NOBODY],
}


async def warm_up(connection: Any) -> None:
    """Run the latency-critical statements without any rows."""
    await connection.prepare(_ARRAYS)
    for statement, values in _NOTHING_TO_DO.items():
        await connection.fetch(SQL[statement], *values)
