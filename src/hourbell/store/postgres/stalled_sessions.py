"""End sessions that a frozen process left in the middle of a statement.

A driver sends a statement in parts. If its process is frozen between two of them, inside a transaction, the session
waits for the next part and keeps its row locks: nobody plans, claims or reaps those rows meanwhile. The server's limits
do not apply to it: the statement is not running, and the session is not idle. So other nodes end such sessions.
"""

import logging
from datetime import timedelta
from typing import Any

import asyncpg

from hourbell.store.sql.queries import load_queries

log = logging.getLogger("hourbell.store")

STALLED_AFTER = timedelta(seconds=10)  # a driver that works sends the next part at once
_SQL = load_queries("hourbell.store.postgres", "stalled_sessions.sql")


async def end_stalled_sessions(connection: Any, stalled_after: timedelta) -> None:
    """End Hourbell's sessions that have waited for so long for the rest of a statement.

    A role that may not end sessions leaves them alone: the reaper, which calls this, must not fail because of it.
    """
    try:
        rows = await connection.fetch(_SQL["end_stalled_sessions"], stalled_after)
    except asyncpg.InsufficientPrivilegeError:
        return
    for row in rows:
        log.warning("stalled_session_ended", extra={"pid": row["pid"], "seconds": round(row["seconds"], 1)})
