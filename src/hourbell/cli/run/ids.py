"""Run ids, which may be shortened to a first or last part that is unique among the newest runs.

Ids begin with the time, so runs of the same minute differ in the last part.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from hourbell.cli.shared.remote import NOT_FOUND, USAGE, fail

if TYPE_CHECKING:
    from hourbell.client import Client, Run

RunPart = UUID | str  # the whole id, or its first or last characters
SHORTEST, NEWEST = 6, 1_000
_FORM = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
_DIGIT = re.compile("[0-9a-f]")
_SHOWN = 5


def read_part(text: str) -> RunPart:
    """Parse an id, or its first or last characters. Raises a ValueError with the accepted forms."""
    try:
        return UUID(text)
    except ValueError:
        part = text.lower()
    form = _DIGIT.sub("x", part.replace("x", "?"))
    if len(part) < SHORTEST or not (_FORM.startswith(form) or _FORM.endswith(form)):
        hint = f"write it, or its first or last {SHORTEST} characters or more"
        raise ValueError(f"{text[:40]!r} is not the id of a run; {hint}")
    return part


def run_id(client: "Client", part: RunPart) -> UUID:
    """Find the one run with this part of an id among the newest runs and failures, or exit with an error."""
    if isinstance(part, UUID):
        return part
    return only_run([*client.runs.list(limit=NEWEST), *client.runs.list(state="failed", limit=NEWEST)], part)


def only_run(runs: "Iterable[Run]", part: str) -> UUID:
    """Find the one run whose id begins or ends with this part, or exit with an error."""
    found = {run.id: run for run in runs if str(run.id).startswith(part) or str(run.id).endswith(part)}
    if not found:
        none = f"the id of none of the newest {NEWEST:,} runs begins or ends with {part}"
        fail(none, "write the whole id", exit_code=NOT_FOUND)
    if len(found) > 1:
        few = [f"{run.id}  {run.job_name or '(deleted)'}, {run.state}" for run in found.values()][:_SHOWN]
        more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        several = f"{len(found)} ids of runs begin or end with {part}; write more of one's end"
        fail(several, *few, *more, exit_code=USAGE)
    return next(iter(found))
