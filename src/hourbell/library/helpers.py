"""Processes that are made to help a program, and are no place for its scheduler."""

import multiprocessing
import sys

from hourbell.targets.task_run import ISOLATED

_THEIR_PARENTS = ("multiprocessing.popen_fork", "subprocess")  # modules that fork


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
