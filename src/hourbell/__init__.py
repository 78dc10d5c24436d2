"""Hourbell: cron you can trust."""

from hourbell.core.schedule import Fault, Occurrence, Schedule, ScheduleError, ScheduleWarning

__version__ = "0.1.0.dev0"

__all__ = ["Fault", "Occurrence", "Schedule", "ScheduleError", "ScheduleWarning"]
