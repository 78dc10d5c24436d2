"""Hourbell: cron you can trust."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hourbell.core.schedule import Fault, Occurrence, Schedule, ScheduleError, ScheduleWarning

__version__ = "0.1.0.dev0"

__all__ = ["Fault", "Occurrence", "Schedule", "ScheduleError", "ScheduleWarning"]


def __getattr__(name: str) -> object:
    """Load the schedule language when it is first asked for, so that the command line starts at once."""
    if name in __all__:
        from hourbell.core import schedule

        return getattr(schedule, name)
    raise AttributeError(f"module 'hourbell' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
