"""The Python library: define tasks and jobs next to the functions they call, and run them."""

from hourbell.library.scheduler import Scheduler

__all__ = ["Scheduler"]
