"""A reader of compiled time zones (TZif, RFC 8536) that returns the list of offset changes.

`zoneinfo` reads the same files but does not expose when the offset changes, and both counting by arithmetic and finding
the end of a gap need that. The tests compare every zone with `zoneinfo`.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from hourbell.core.schedule.calendar import DAY, FIRST_YEAR, HOUR, LAST_YEAR, day_number, weekday_of

_HEADER = struct.Struct(">4sc15x6L")


class Change(NamedTuple):
    """A change of offset: from this UTC second on, local time is UTC + offset."""

    at: int
    offset: int
    abbreviation: str


def read_changes(data: bytes) -> tuple[Change, list[Change]]:
    """Return the offset in force before the first change, and every change to the end of the calendar."""
    body, _ = _block(data, 0, 4)
    times, types, abbreviations, end = _body(data, body)
    changes = [Change(at, types[index][0], _name(abbreviations, types[index][1])) for at, index in times]
    footer = data[end:].strip(b"\n").decode("ascii")
    if footer:
        last = changes[-1].at if changes else None
        changes += [change for change in _by_rule(footer) if last is None or change.at > last]
    offset, name_at = types[0]
    return Change(0, offset, _name(abbreviations, name_at)), changes


def _block(data: bytes, start: int, time_size: int) -> tuple[int, int]:
    """Return the position of the next block, and of this block's body."""
    magic, _, *counts = _HEADER.unpack_from(data, start)
    if magic != b"TZif":
        raise ValueError("not a TZif file")
    is_utc, is_standard, leap, times, types, characters = counts
    body = start + _HEADER.size
    size = times * time_size + times + types * 6 + characters + leap * (time_size + 4) + is_standard + is_utc
    return body + size, body


def _body(data: bytes, start: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]], bytes, int]:
    """Read the version 2 block: (time, type index) pairs, (offset, name index) types, names, and the block's end."""
    end, at = _block(data, start, 8)
    time_count, type_count, character_count = _HEADER.unpack_from(data, start)[5:]
    instants = struct.unpack_from(f">{time_count}q", data, at)
    at += 8 * time_count
    indexes = data[at : at + time_count]
    at += time_count
    types = [struct.unpack_from(">lxB", data, at + 6 * index) for index in range(type_count)]
    at += 6 * type_count
    return list(zip(instants, indexes, strict=True)), types, data[at : at + character_count], end


def _name(abbreviations: bytes, start: int) -> str:
    return abbreviations[start : abbreviations.index(0, start)].decode("ascii")


@dataclass(frozen=True, slots=True)
class _YearlyDate:
    """The yearly date of an offset change by a POSIX rule: a date, and seconds from its local midnight."""

    text: str
    seconds: int

    def local(self, year: int) -> int:
        new_year = day_number(year, 1, 1)
        if self.text.startswith("J"):  # 1 to 365, never counting 29 February
            number = int(self.text[1:])
            is_leap = day_number(year, 3, 1) - new_year == 60
            day = new_year + number - 1 + (is_leap and number >= 60)
        elif self.text.startswith("M"):  # month, week (5 is the last), weekday
            month, week, weekday = (int(part) for part in self.text[1:].split("."))
            first = day_number(year, month, 1)
            day = first + (weekday - weekday_of(first)) % 7 + 7 * (week - 1)
            next_month = day_number(year + month // 12, month % 12 + 1, 1)
            while day >= next_month:
                day -= 7
        else:  # 0 to 365
            day = new_year + int(self.text)
        return day * DAY + self.seconds


def _by_rule(footer: str) -> Iterator[Change]:
    """Return the changes of a POSIX TZ string such as `EST5EDT,M3.2.0,M11.1.0`, year by year."""
    names, *dates = footer.split(",")
    standard, rest = _split_name(names)
    standard_offset, rest = _split_offset(rest)
    if not rest:
        yield Change(0, standard_offset, standard)
        return
    daylight, rest = _split_name(rest)
    daylight_offset = _split_offset(rest)[0] if rest else standard_offset + HOUR
    begins, ends = (_yearly_date(text) for text in dates)
    for year in range(FIRST_YEAR - 1, LAST_YEAR + 2):
        yield from sorted(
            (
                Change(begins.local(year) - standard_offset, daylight_offset, daylight),
                Change(ends.local(year) - daylight_offset, standard_offset, standard),
            )
        )


def _split_name(text: str) -> tuple[str, str]:
    if text.startswith("<"):
        name, _, rest = text[1:].partition(">")
        return name, rest
    rest = text.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
    return text[: len(text) - len(rest)], rest


def _split_offset(text: str) -> tuple[int, str]:
    """Parse a leading offset. POSIX counts westward; the result counts eastward."""
    rest = text.lstrip("+-0123456789:")
    return -_seconds(text[: len(text) - len(rest)]), rest


def _yearly_date(text: str) -> _YearlyDate:
    date, _, time = text.partition("/")
    return _YearlyDate(date, _seconds(time or "2"))


def _seconds(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = ([int(part) for part in text.lstrip("+-").split(":")] + [0, 0])[:3]
    return sign * (hours * 3_600 + minutes * 60 + seconds)
