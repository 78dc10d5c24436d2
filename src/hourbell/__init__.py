"""Hourbell: cron you can trust."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hourbell.core.schedule import ErrorDetail, Occurrence, Schedule, ScheduleError, ScheduleWarning
    from hourbell.engine.run_events import RunEvent
    from hourbell.library.refused import Refused
    from hourbell.library.scheduler import Scheduler
    from hourbell.targets.task_run import Run, Superseded

__version__ = "0.1.0.dev0"

__all__ = [
    "ErrorDetail",
    "Occurrence",
    "Refused",
    "Run",
    "RunEvent",
    "Schedule",
    "ScheduleError",
    "ScheduleWarning",
    "Scheduler",
    "Superseded",
]


def __getattr__(name: str) -> object:
    """Import an exported name on first use, so that the command line starts fast."""
    if name == "Scheduler":
        from hourbell.library.scheduler import Scheduler

        return Scheduler
    if name == "Refused":
        from hourbell.library.refused import Refused

        return Refused
    if name == "RunEvent":
        from hourbell.engine.run_events import RunEvent

        return RunEvent
    if name in ("Run", "Superseded"):
        from hourbell.targets import task_run

        return getattr(task_run, name)
    if name in __all__:
        from hourbell.core import schedule

        return getattr(schedule, name)
    raise AttributeError(f"module 'hourbell' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
