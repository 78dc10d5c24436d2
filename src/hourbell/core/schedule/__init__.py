"""The schedule language: cron, nicknames, `every`, `at`, `yearly` and RRULE, in any time zone.

Text becomes a form (`parse`), a form becomes a pattern of seconds on one line of time (`pattern`), and a timeline
reads that line as instants under the daylight-saving rule (`timeline`). `Schedule` is the door to all of it.
"""

from hourbell.core.schedule.errors import Fault, ScheduleError
from hourbell.core.schedule.schedule import Occurrence, Schedule
from hourbell.core.schedule.warnings import ScheduleWarning
from hourbell.core.schedule.zones import TZDATA_VERSION, zone_names

__all__ = [
    "TZDATA_VERSION",
    "Fault",
    "Occurrence",
    "Schedule",
    "ScheduleError",
    "ScheduleWarning",
    "zone_names",
]
