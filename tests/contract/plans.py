"""Query plans of PostgreSQL: which indexes a statement takes, which tables it reads from end to end, and how much it
looks at. The statement is carried out, and undone."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.database import PostgresDatabase

# As if all runs had ended, and back again: their states are stored elsewhere meanwhile.
END_ALL = """update hourbell.runs set result = to_jsonb(state), state = 'succeeded', finished_at = ready_at
    where finished_at is null"""
AS_BEFORE = """update hourbell.runs set state = result #>> '{}', result = null, finished_at = null
    where result is not null"""
MODES = ("force_custom_plan", "force_generic_plan")
# Triggers and foreign keys run statements that no plan shows; what they read is counted here.
READ_SO_FAR = "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_xact_user_tables"
REMOVED = ("Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter")


@dataclass(frozen=True, slots=True)
class Seen:
    indexes: frozenset[str]
    scanned: frozenset[str]
    rows: float
    blocks: int


async def analyse_as_if_idle(database: PostgresDatabase) -> None:
    """Collect the statistics of a time at which nothing waited, and no run was running."""
    await database.sql(f"set session_replication_role = replica; {END_ALL}")
    await database.sql("vacuum analyze")
    await database.sql(f"{AS_BEFORE}; reset session_replication_role")


async def explained(connection: Any, statement: str, arguments: tuple[Any, ...], mode: str) -> Seen:
    given = f"({', '.join(map(literal, arguments))})" if arguments else ""
    await connection.execute(f"set plan_cache_mode = {mode}; prepare asked as {statement}")
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute("set local hourbell.prunes = 'on'")
        before = await connection.fetchval(READ_SO_FAR)
        text = await connection.fetchval(f"explain (analyze, buffers, timing off, format json) execute asked{given}")
        read = await connection.fetchval(READ_SO_FAR) - before
    finally:
        await transaction.rollback()
        await connection.execute("deallocate asked; reset plan_cache_mode")
    plan = json.loads(text)[0]["Plan"]
    nodes = list(walk(plan))
    return Seen(
        frozenset(node["Index Name"] for node in nodes if "Index Name" in node),
        frozenset(node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"),
        max(float(read), sum(map(rows_read, nodes))),
        plan["Shared Hit Blocks"] + plan["Shared Read Blocks"],
    )


def rows_read(node: dict[str, Any]) -> float:
    """The rows that a node brings in or throws away. To look and find nothing counts as one."""
    rows = sum(node.get(key, 0) for key in REMOVED)
    if "Plans" not in node:
        rows = max(rows + node["Actual Rows"], 1)
    return float(rows * node["Actual Loops"])


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from walk(below)


def literal(value: Any) -> str:
    """A value as SQL text, for EXECUTE takes no parameters."""
    match value:
        case None:
            return "null"
        case list():
            return "'{" + ", ".join("null" if each is None else f'"{each}"' for each in value) + "}'"
        case UUID() | str() | datetime():
            return f"'{value}'"
        case timedelta():
            return f"'{value.total_seconds()} seconds'"
        case _:
            return str(value)
