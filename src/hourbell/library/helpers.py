"""Processes that are no place for a program's scheduler: those made to help it, and those that were told so."""

import multiprocessing
import os
import sys

from hourbell.targets.task_run import ISOLATED

_THEIR_PARENTS = ("multiprocessing.popen_fork", "subprocess")  # modules that fork
_NO = ("0", "false", "no", "off")


def may_start() -> bool:
    """Whether `start` shall begin to work: not with HOURBELL_START=0, as in tests and scripts that import a program."""
    return os.environ.get("HOURBELL_START", "").strip().lower() not in _NO


def a_helper_is_forked() -> bool:
    """Whether the fork under way is one of `multiprocessing` or `subprocess`.

    The stack tells: `multiprocessing.parent_process()` is set only when the child has begun.
    """
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__") in _THEIR_PARENTS:
            return True
    return False


def is_isolated_call() -> bool:
    """Whether this process was made for one call of a task, and imports the program only to find its function.

    Its name tells, also while the program's main file is imported.
    """
    return multiprocessing.current_process().name.startswith(ISOLATED)
