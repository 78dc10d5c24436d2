"""Error text of an exception that ends a task: Python's traceback with the frames of the task and its callees.

Frames of Hourbell and of asyncio.timeouts and contextlib say nothing about the task and are left out.
"""

import asyncio.timeouts
import contextlib
import traceback
from pathlib import Path

import hourbell
from hourbell.core.values.sanitize import sanitize_text
from hourbell.targets.task_run import MAX_ERROR_CHARACTERS

_OURS = str(Path(hourbell.__file__).parent) + "/"
_BETWEEN = (asyncio.timeouts.__file__, contextlib.__file__)
_OUR_ERRORS = ("hourbell.store.", "hourbell.targets.")
_MAX_READ_FRAMES = 50  # frames
_MAX_FRAMES = 8  # frames, the innermost
_MAX_MESSAGE_CHARACTERS = 1_000  # characters of the exception's own message


def error_text(error: BaseException) -> str:
    """Return the end of the traceback; only the message for an error that Hourbell raised on purpose."""
    if type(error).__module__.startswith(_OUR_ERRORS):
        return sanitize_text(str(error) or type(error).__name__)[:MAX_ERROR_CHARACTERS]
    trace = traceback.TracebackException.from_exception(error, limit=-_MAX_READ_FRAMES)
    _leave_out_ours(trace)
    said = "".join(trace.format_exception_only()).rstrip("\n")
    is_alone = trace.__cause__ is None and trace.__context__ is None and not trace.exceptions
    text = said if is_alone and not trace.stack else "".join(trace.format()).rstrip("\n")
    if len(said) > _MAX_MESSAGE_CHARACTERS and text.endswith(said):
        text = f"{text.removesuffix(said)}{said[:_MAX_MESSAGE_CHARACTERS]} … ({len(said):,} characters)"
    return sanitize_text(text[-MAX_ERROR_CHARACTERS:])


def _leave_out_ours(trace: traceback.TracebackException) -> None:
    theirs = [frame for frame in trace.stack if not frame.filename.startswith((_OURS, *_BETWEEN))]
    trace.stack[:] = theirs[-_MAX_FRAMES:]
    for other in (trace.__cause__, trace.__context__, *(trace.exceptions or ())):
        if other is not None:
            _leave_out_ours(other)
