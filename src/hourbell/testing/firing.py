"""`fires`: the times of a schedule as text that a test can compare."""

from itertools import islice

from hourbell.core.job.definition import Definition
from hourbell.core.schedule import Schedule
from hourbell.testing.times import Moment, end_of, local_text, moment, zone_of

_MAX_FIRED_RUNS = 10_000


def fires(
    schedule: str | Definition,
    *,
    between: tuple[Moment, Moment],
    timezone: str = "UTC",
    dst: str = "once",
    name: str | None = None,
) -> list[str]:
    """List the times at which a schedule fires between two moments (inclusive), as local time with its offset.

    A job of a Scheduler, such as `scheduler.jobs["nightly"]`, has its own time zone and fires only between its
    `starts_at` and `ends_at`. If the end is a date, the whole day is included. Raises ValueError for an invalid
    schedule or for more than 10,000 times.

    >>> fires("0 9 * * 1", between=("2026-10-19", "2026-10-26"), timezone="Europe/Paris")
    ['2026-10-19T09:00+02:00', '2026-10-26T09:00+01:00']
    """
    parsed = schedule.parsed() if isinstance(schedule, Definition) else _parsed(schedule, timezone, dst, name)
    zone = zone_of(parsed.timezone)
    first, last = moment(between[0], zone), end_of(between[1], zone)
    if last < first:
        raise ValueError(f"between ends at {between[1]}, before it begins")
    if isinstance(schedule, Definition):
        first, last = max(first, schedule.starts_at or first), min(last, schedule.ends_at or last)
        if last < first:
            return []
    found = parsed.between(first, last)
    instants = ([first] if parsed.matches(first) else []) + list(islice(found, _MAX_FIRED_RUNS + 1))
    if len(instants) > _MAX_FIRED_RUNS:
        raise ValueError(f"the schedule fires more than {_MAX_FIRED_RUNS:,} times; look at a shorter time")
    return [local_text(at, zone) for at in instants]


def _parsed(schedule: str, timezone: str, dst: str, name: str | None) -> Schedule:
    return Schedule.parse(schedule, timezone, dst, name)  # type: ignore[arg-type]
