"""What is kept of an exception that ends a task: Python's own words, with the frames of the task and of what it calls.

Frames of Hourbell and of the context managers in between say nothing about the task and are left out.
"""

import asyncio.timeouts
import contextlib
import traceback
from pathlib import Path

import hourbell
from hourbell.core.storable import storable
from hourbell.targets.task_run import MOST_ERROR

_OURS = str(Path(hourbell.__file__).parent) + "/"
_BETWEEN = (asyncio.timeouts.__file__, contextlib.__file__)
_OUR_ERRORS = ("hourbell.store.", "hourbell.targets.")
_MOST_READ = 50  # frames
_MOST_KEPT = 8  # frames, the innermost


def error_text(error: BaseException) -> str:
    """The end of the traceback; of an error that Hourbell raised on purpose, only what it says."""
    if type(error).__module__.startswith(_OUR_ERRORS):
        return storable(str(error) or type(error).__name__)[:MOST_ERROR]
    told = traceback.TracebackException.from_exception(error, limit=-_MOST_READ)
    _leave_out_ours(told)
    is_alone = told.__cause__ is None and told.__context__ is None and not told.exceptions
    lines = told.format_exception_only() if is_alone and not told.stack else told.format()
    return storable("".join(lines)[-MOST_ERROR:].rstrip("\n"))


def _leave_out_ours(told: traceback.TracebackException) -> None:
    theirs = [frame for frame in told.stack if not frame.filename.startswith((_OURS, *_BETWEEN))]
    told.stack[:] = theirs[-_MOST_KEPT:]
    for other in (told.__cause__, told.__context__, *(told.exceptions or ())):
        if other is not None:
            _leave_out_ours(other)
