"""Detection of processes that must not run the scheduler: helper processes, and those with HOURBELL_START=0."""

import multiprocessing
import os
import sys

from hourbell.targets.task_run import ISOLATED

_THEIR_PARENTS = ("multiprocessing.popen_fork", "subprocess")  # modules that fork
_NO = ("0", "false", "no", "off")


def may_start() -> bool:
    """Return False if HOURBELL_START=0 disables `start`, as in tests and scripts that import a program."""
    return os.environ.get("HOURBELL_START", "").strip().lower() not in _NO


def a_helper_is_forked() -> bool:
    """Return True if `multiprocessing` or `subprocess` makes the current fork.

    It inspects the call stack: `multiprocessing.parent_process()` is set only after the child has started.
    """
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__") in _THEIR_PARENTS:
            return True
    return False


def is_isolated_call() -> bool:
    """Return True in a process for one isolated task call, which imports the program only to find its function.

    It checks the name of the process, which is set even while the program's main file is imported.
    """
    return multiprocessing.current_process().name.startswith(ISOLATED)
