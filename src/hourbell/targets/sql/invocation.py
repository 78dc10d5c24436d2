"""One call of one SQL function, in a transaction that the caller commits.

1. `prepare` sets the run's facts in the session, finds the function and validates its arguments, without side effects.
2. `perform` sets the timeouts and calls the function. Success releases the savepoint; any failure rolls back to it, so
   that the caller can still settle and commit the transaction, without the function's work.

The timeout is enforced twice. The server's statement_timeout ends the function, unless the function catches the
cancellation; a moment later the client gives up, and the session is ended.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import asyncpg

from hourbell.core.job.target import SqlCall
from hourbell.core.run.run import trigger_of
from hourbell.core.run.settle import Failed, Outcome, Succeeded
from hourbell.targets.base import Call
from hourbell.targets.sql.answer import MAX_ANSWER_BYTES, read_answer
from hourbell.targets.sql.arguments import Arguments, BadArgument, add_payload, bind
from hourbell.targets.sql.errors import failure_of
from hourbell.targets.sql.signature import Function, NoSuchFunction, find_function

_GRACE = 2.0  # seconds that the client waits beyond the server's timeout
_SESSION_ENDS = ("08", "57P")  # SQLSTATE prefixes after which there is no session to roll back in
_FACTS = """
select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
       pg_catalog.set_config('hourbell.run_id', $1, true),
       pg_catalog.set_config('hourbell.job_name', $2, true),
       pg_catalog.set_config('hourbell.job', $2, true),
       pg_catalog.set_config('hourbell.scheduled_at', $3, true),
       pg_catalog.set_config('hourbell.attempt', $4, true),
       pg_catalog.set_config('hourbell.trigger', $5, true)
"""
_PATH = """
select pg_catalog.set_config('search_path', (
           select pg_catalog.string_agg(pg_catalog.quote_ident(part), ', ' order by place)
           from pg_catalog.unnest($1::text[]) with ordinality as path(part, place)), true)
"""
_LIMITS = """
select pg_catalog.set_config('statement_timeout', $1, true),
       pg_catalog.set_config('lock_timeout', coalesce($2, pg_catalog.current_setting('lock_timeout')), true)
"""
# `materialized` calls the function once, whatever its volatility, and an answer that is too large is not transferred.
_CALL = """
with called as materialized (select {call}::pg_catalog.jsonb::pg_catalog.text as answer)
select pg_catalog.octet_length(answer) as size,
       case when pg_catalog.octet_length(answer) operator(pg_catalog.<=) {largest} then answer end as answer
from called
"""
_SAVEPOINT = "savepoint hourbell_call"
_KEEP = "set constraints all immediate; close all; release savepoint hourbell_call"
_UNDO = "rollback to savepoint hourbell_call"


class Overdue(Exception):
    """Raised when the function exceeded its timeout and ignored cancellation: its transaction must be abandoned."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A resolved function with validated arguments."""

    function: Function
    arguments: Arguments


async def prepare(connection: Any, target: SqlCall, call: Call, allowed: Collection[str] | None) -> Prepared | Failed:
    """Find the function and validate the arguments; return a permanent failure if that is not possible."""
    run = call.run
    scheduled_at = run.scheduled_at.isoformat()
    trigger = trigger_of(run, call.definition)
    await connection.execute(_FACTS, str(run.id), call.definition.name, scheduled_at, str(run.attempt), trigger)
    try:
        function = await find_function(connection, target.schema, target.function, target.args, allowed)
        arguments = bind(function, add_payload(function, target.args, call.payload))
    except (NoSuchFunction, BadArgument) as error:
        return Failed(str(error), retryable=False, begun=False)
    await connection.execute(_SAVEPOINT)
    path = [part for part in target.search_path if part != "pg_temp"]
    await connection.execute(_PATH, [*path, "pg_temp"])  # some types, such as regclass, resolve names with it
    if not arguments.values:
        return Prepared(function, arguments)
    casts = ", ".join(f"({cast}) is null" for cast in arguments.plain)
    try:
        await connection.execute(f"select {casts}", *arguments.values)
    except (asyncpg.PostgresError, ValueError) as error:
        _raise_if_ended(error)
        await connection.execute(_UNDO)
        what = error.args[0] if error.args else error
        return Failed(f"the args do not fit {function.signature}: {what}", retryable=False, begun=False)
    return Prepared(function, arguments)


async def perform(connection: Any, target: SqlCall, prepared: Prepared) -> Outcome:
    """Call the function. Its work stays in the transaction if it succeeded, and is rolled back if not."""
    loop = asyncio.get_running_loop()
    lock_timeout = None if target.lock_timeout is None else _milliseconds(target.lock_timeout)
    await connection.execute(_LIMITS, _milliseconds(target.timeout), lock_timeout)
    call = f"{prepared.function.name}({', '.join(prepared.arguments.named)})"
    statement = _CALL.format(call=call, largest=MAX_ANSWER_BYTES)
    seconds = target.timeout.total_seconds()
    end = loop.time() + seconds
    try:
        row = await connection.fetchrow(statement, *prepared.arguments.values, timeout=seconds + _GRACE)
        outcome = read_answer(row["size"], row["answer"])
        if isinstance(outcome, Succeeded):
            await connection.execute(_KEEP, timeout=seconds + _GRACE)
            return outcome
    except TimeoutError as error:
        raise Overdue from error
    except asyncpg.PostgresError as error:
        _raise_if_ended(error)
        is_late = isinstance(error, asyncpg.QueryCanceledError) and loop.time() >= end - _GRACE / 4
        outcome = no_end_within(target.timeout) if is_late else failure_of(error)
    await connection.execute(_UNDO)
    return outcome


def no_end_within(timeout: timedelta) -> Failed:
    return Failed(f"timed out after {timeout.total_seconds():g}s")


def _raise_if_ended(error: Exception) -> None:
    """Raise an error that ended the session: it ends the transaction and not only the function."""
    if isinstance(error, asyncpg.PostgresError) and str(error.sqlstate).startswith(_SESSION_ENDS):
        raise error


def _milliseconds(duration: timedelta) -> str:
    return str(duration // timedelta(milliseconds=1))
