"""Runs by their ids, of which the beginning is enough if no other run of the newest begins so."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from hourbell.cli.remote import NOT_FOUND, USAGE, fail

if TYPE_CHECKING:
    from hourbell.client import Client, Run

RunStart = UUID | str  # the whole id, or how it begins
SHORTEST, NEWEST = 6, 1_000
_START = re.compile(rf"[0-9a-f]{{{SHORTEST},8}}|[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{0,3}}-[0-9a-f]{{0,12}}", re.ASCII)
_SHOWN = 5


def read_start(text: str) -> RunStart:
    """An id, or the beginning of one; a ValueError says how to write it."""
    try:
        return UUID(text)
    except ValueError:
        start = text.lower()
    if _START.fullmatch(start) is None:
        raise ValueError(f"{text[:40]!r} is not the id of a run; write it, or its first {SHORTEST} characters or more")
    return start


def run_id(client: "Client", start: RunStart) -> UUID:
    """The only run that begins so, among the newest and the newest that failed; else the command ends."""
    if isinstance(start, UUID):
        return start
    return only_run([*client.runs.list(limit=NEWEST), *client.runs.list(state="failed", limit=NEWEST)], start)


def only_run(runs: "Iterable[Run]", start: str) -> UUID:
    """The only one of these that begins so; else the command ends."""
    found = {run.id: run for run in runs if str(run.id).startswith(start)}
    if not found:
        fail(f"none of the newest {NEWEST:,} runs begins with {start}", "write the whole id", exit_code=NOT_FOUND)
    if len(found) > 1:
        few = [f"{run.id}  {run.job_name or '(deleted)'}, {run.state}" for run in found.values()][:_SHOWN]
        more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        fail(f"{len(found)} runs begin with {start}; write more of the id", *few, *more, exit_code=USAGE)
    return next(iter(found))
