"""The Python library: functions as tasks, and jobs beside the functions they call."""

from hourbell.library.scheduler import Scheduler

__all__ = ["Scheduler"]
