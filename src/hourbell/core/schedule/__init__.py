"""The schedule language: cron, nicknames, `every`, `at`, `yearly` and RRULE, in any time zone.

Text is parsed to a form (`parse`), a form is compiled to a pattern of seconds on one time axis (`pattern`), and a
timeline converts that axis to instants under the daylight-saving rule (`timeline`). `Schedule` is the public interface.
"""

from hourbell.core.schedule.errors import ErrorDetail, ScheduleError
from hourbell.core.schedule.schedule import Occurrence, Schedule
from hourbell.core.schedule.warnings import ScheduleWarning
from hourbell.core.schedule.zones import TZDATA_VERSION, zone_names

__all__ = [
    "TZDATA_VERSION",
    "ErrorDetail",
    "Occurrence",
    "Schedule",
    "ScheduleError",
    "ScheduleWarning",
    "zone_names",
]
