"""Time zones from the `tzdata` package, never from the host, so that all nodes can use the same data."""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pkgutil import get_data

import tzdata

from hourbell.core.schedule.calendar import DAY, END_OF_CALENDAR
from hourbell.core.schedule.errors import echo
from hourbell.core.schedule.tzif import read_changes

_FAR = 1 << 60
TZDATA_VERSION: str = tzdata.IANA_VERSION


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone as periods of constant offset.

    Period i lasts from `starts[i]` to `starts[i + 1]` (UTC seconds); local time in it is UTC + `offsets[i]`. `highs[i]`
    is the end of the local readings seen before it. A period whose first reading is above its high began with a gap; a
    period whose first reading is below its high repeats the readings in between. `starts` and `highs` never decrease,
    and have one entry more than there are periods.
    """

    name: str
    starts: tuple[int, ...]
    highs: tuple[int, ...]
    offsets: tuple[int, ...]
    abbreviations: tuple[str, ...]

    @property
    def is_utc(self) -> bool:
        return self.offsets == (0,)

    def period_at(self, second: int) -> int:
        """Return the index of the period that contains this UTC second."""
        return bisect_right(self.starts, second) - 1

    def first_reading(self, period: int) -> int:
        """Return the local reading at the start of a period."""
        return self.starts[period] + self.offsets[period]

    def gaps(self, first: int, end: int) -> list[int]:
        """Return the periods that begin with a gap, at a UTC second in [first, end)."""
        periods = range(max(1, bisect_right(self.starts, first - 1)), bisect_right(self.starts, end - 1))
        return [period for period in periods if self.first_reading(period) > self.highs[period]]


def _read(path: str) -> bytes:
    data = get_data("tzdata", path)
    if data is None:
        raise FileNotFoundError(f"the tzdata package holds no {path}")
    return data


@cache
def zone_names() -> frozenset[str]:
    """Return all time zone names."""
    return frozenset(_read("zones").decode("ascii").split())


@cache
def load_zone(name: str) -> Zone:
    """Load a zone by name; raise a ValueError, before any file is opened, if it is not in `zone_names()`."""
    if name not in zone_names():
        raise ValueError(f"unknown time zone {echo(name)!r}")
    before, changes = read_changes(_read(f"zoneinfo/{name}"))
    periods = [before._replace(at=-_FAR)]
    for change in changes:
        if change.at < -2 * DAY:
            periods = [change._replace(at=-_FAR)]
        elif change.at < END_OF_CALENDAR + 2 * DAY and change[1:] != periods[-1][1:]:
            periods.append(change)
    high = -_FAR
    highs = [high]
    for period, following in pairwise(periods):
        high = max(high, following.at + period.offset)
        highs.append(high)
    return Zone(
        name=name,
        starts=(*(period.at for period in periods), _FAR),
        highs=(*highs, _FAR),
        offsets=tuple(period.offset for period in periods),
        abbreviations=tuple(period.abbreviation for period in periods),
    )


def local_time_at(name: str, instant: datetime) -> tuple[datetime, timedelta, str]:
    """Return the local time of a zone at an instant, with its offset and abbreviation."""
    zone = load_zone(name)
    period = zone.period_at(int(instant.timestamp()))
    offset = timedelta(seconds=zone.offsets[period])
    return (instant.astimezone(UTC) + offset).replace(tzinfo=None), offset, zone.abbreviations[period]
