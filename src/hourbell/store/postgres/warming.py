"""What a connection of the engine does before it is used, so that nothing of it is left for when a job is due.

The first time a statement is run on a connection, it is parsed and planned and its tables are looked up, which takes up
to 7 ms; and before it may go, asyncpg asks the server about the types it does not know. Left to then, a job that is due
once an hour would begin 20 to 30 ms later than one that is due every second.
"""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from hourbell.store.postgres.planning import SQL

# Every type of array that statements of the engine are given: asked for all at once.
_ARRAYS = """select $1::uuid[], $2::text[], $3::int[], $4::smallint[], $5::bigint[], $6::bool[], $7::timestamptz[],
    $8::timestamp[], $9::float8[]"""
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_NOBODY = UUID(int=0)
# What comes between an instant and its task, and after it, with nothing to do.
_NOTHING_TO_DO: dict[str, list[Any]] = {
    "due_jobs": [_NEVER, 0],
    "save_plans": [[]] * 14 + [_NEVER] + [[]] * 7 + [False],
    "claim": [[]] * 3 + [_NEVER, _NOBODY, _NEVER, 0],
    "definitions": [[], []],
    "secrets_of_jobs": [[], _NEVER],
    "settle_succeeded": [[]] * 8 + [_NOBODY],
}


async def warm_up(connection: Any) -> None:
    """Run the statements that somebody waits for, with nothing to do."""
    await connection.prepare(_ARRAYS)
    for statement, values in _NOTHING_TO_DO.items():
        await connection.fetch(SQL[statement], *values)
