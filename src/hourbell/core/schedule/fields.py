"""The grammar of one cron field, parsed term by term, with the column of each error.

The parser is hand-written and linear in the text. It does not stop at the first error: an invalid term is reported and
left out, and the caller raises all errors together.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hourbell.core.schedule.calendar import FIRST_YEAR, LAST_YEAR, mask_of
from hourbell.core.schedule.errors import ErrorDetail, echo


@dataclass(frozen=True, slots=True)
class FieldKind:
    """The values that a field accepts. `last` is the end of `*`; `high` is the largest number accepted."""

    name: str
    low: int
    last: int
    high: int
    names: Mapping[str, int] = field(default_factory=dict)
    hashed_last: int | None = None  # set if it differs from `last`

    @property
    def allowed(self) -> str:
        numbers = f"{self.low}-{self.high}"
        return f"{numbers} or {next(iter(self.names))}-{list(self.names)[-1]}" if self.names else numbers

    def spell(self, value: int, like: str) -> str:
        """Format a value, as a name if `like` is one."""
        if like.isdigit():
            return str(value)
        return next(name for name, number in self.names.items() if number == value % (self.last + 1 or 1))


_SPECIAL_DAY = re.compile(r"L|LW|L-\d{1,2}|\d{1,2}W", re.ASCII)
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

SECOND = FieldKind("second", 0, 59, 59)
MINUTE = FieldKind("minute", 0, 59, 59)
HOUR = FieldKind("hour", 0, 23, 23)
DAY_OF_MONTH = FieldKind("day-of-month", 1, 31, 31, hashed_last=28)
MONTH = FieldKind("month", 1, 12, 12, {name: number for number, name in enumerate(_MONTHS, 1)})
DAY_OF_WEEK = FieldKind("day-of-week", 0, 6, 7, {name: number for number, name in enumerate(_WEEKDAYS)})
YEAR = FieldKind("year", FIRST_YEAR, LAST_YEAR, LAST_YEAR)


@dataclass(frozen=True, slots=True)
class Span:
    """The numbers from first to last, by step."""

    first: int
    last: int
    step: int = 1
    is_star: bool = False

    @property
    def mask(self) -> int:
        return mask_of(self.first, self.last, self.step)


@dataclass(frozen=True, slots=True)
class LastDay:
    """The term `L`, or `L-n` for n days before the last day of the month."""

    back: int = 0


@dataclass(frozen=True, slots=True)
class LastWorkday:
    """The term `LW`: the last Monday-to-Friday day of the month."""


@dataclass(frozen=True, slots=True)
class NearestWorkday:
    """The term `nW`: the Monday-to-Friday day nearest to day n, in the same month."""

    day: int


@dataclass(frozen=True, slots=True)
class NthWeekday:
    """The term `d#n` for the nth weekday, or `dL` and `d#L` for the last, whose `nth` is None."""

    weekday: int
    nth: int | None


Term = Span | LastDay | LastWorkday | NearestWorkday | NthWeekday


@dataclass(frozen=True, slots=True)
class Field:
    kind: FieldKind
    text: str
    column: int
    terms: tuple[Term, ...]
    resolved: str  # the text with `H` replaced by its resolved values
    mask: int = field(init=False)  # the values of the field, Sunday always as 0

    def __post_init__(self) -> None:
        mask = 0
        for term in self.terms:
            if isinstance(term, Span):
                mask |= term.mask
        if self.kind is DAY_OF_WEEK and mask >> 7:
            mask = mask & 0x7F | 1
        object.__setattr__(self, "mask", mask)

    @property
    def is_unrestricted(self) -> bool:
        return self.text in ("*", "?")

    @property
    def is_periodic(self) -> bool:
        """True if the field follows the local clock: it starts with `*`, or with `H` and a step."""
        first = self.text.partition(",")[0]
        return first.startswith("*") or (first.startswith("H") and "/" in first)


class FieldReader:
    """Parses the terms of one field; errors are passed to `note`."""

    def __init__(self, kind: FieldKind, job_name: str | None, note: Callable[[ErrorDetail], None]) -> None:
        self._kind = kind
        self._job_name = job_name
        self._note = note

    def read(self, text: str, column: int) -> Field:
        terms: list[Term] = []
        resolved: list[str] = []
        at = column
        for item in text.split(","):
            term = self._term(item, at, is_alone=item == text)
            if term is not None:
                terms.append(term)
                is_hashed = item.startswith("H") and isinstance(term, Span)
                resolved.append(_spell_span(term) if is_hashed and isinstance(term, Span) else item)
            at += len(item) + 1
        return Field(self._kind, text, column, tuple(terms), ",".join(resolved))

    def _detail(
        self, message: str, column: int, text: str, hint: str | None = None, allowed: str | None = None
    ) -> None:
        self._note(ErrorDetail(message, self._kind.name, column, echo(text), allowed or self._kind.allowed, hint))

    def _term(self, item: str, column: int, *, is_alone: bool) -> Term | None:
        if not item:
            self._detail("a value is missing", column, item, "remove the extra comma")
            return None
        if item == "?" and not is_alone:
            self._detail("'?' stands alone", column, item, "write * or the values")
            return None
        if item[0] == "H" or (item[0] == "h" and not item[1:2].isalpha()):
            return self._hashed(item, column)
        if self._kind is DAY_OF_MONTH and item[0] != "*" and ("L" in item.upper() or "W" in item.upper()):
            return self._special_day(item, column)
        if self._kind is DAY_OF_WEEK and ("#" in item or self._is_last_weekday(item)):
            return self._nth_weekday(item, column)
        return self._span(item, column)

    def _is_last_weekday(self, item: str) -> bool:
        """Check if the term is `dL`; JUL, for example, is not."""
        day = item[:-1].upper()
        return item[-1] in "Ll" and (not day or day.isdigit() or day in self._kind.names or "-" in day or day == "*")

    def _span(self, item: str, column: int) -> Span | None:
        base, slash, step_text = item.partition("/")
        step_column = column + len(base) + 1
        if base == "?":
            if self._kind not in (DAY_OF_MONTH, DAY_OF_WEEK):
                self._detail("'?' is for the two day fields", column, item, "write *")
                return None
            if slash:
                self._detail("'?' takes no step", column, item, f"write *{slash}{echo(step_text)}")
                return None
        if base in ("*", "?"):
            step = self._step(step_text, step_column) if slash else 1
            return None if step is None else Span(self._kind.low, self._kind.last, step, is_star=True)
        first_text, dash, last_text = base.partition("-")
        first = self._value(first_text, column, item)
        last = self._value(last_text, column + len(first_text) + 1, item, column) if dash else first
        step = self._step(step_text, step_column) if slash else 1
        if first is None or last is None or step is None:
            return None
        if slash and not dash:
            hint = f"write {first_text}-{self._kind.last}/{step}"
            self._detail("a step needs '*' or a range", column, item, hint)
            return None
        if self._kind is DAY_OF_WEEK and last_text.upper() == "SUN" and first > 0:
            last = 7
        if last < first:
            hint = self._forwards(first, last, step, first_text, last_text)
            self._detail(f"range {echo(base)} runs backwards", column, item, hint)
            return None
        return Span(first, last, step)

    def _forwards(self, first: int, last: int, step: int, first_text: str, last_text: str) -> str:
        """Return a hint that shows how to write a range that wraps around."""
        kind = self._kind
        if kind is YEAR:
            return f"write {last}-{first}"
        if step > 1:
            size = kind.last - kind.low + 1
            values = [kind.low + (value - kind.low) % size for value in range(first, last + size + 1, step)]
            return "write " + ",".join(map(str, values))
        if kind is DAY_OF_WEEK and first == 7:
            return f"write 0-{last}" if last else "write 0"
        end = 7 if kind is DAY_OF_WEEK else kind.last
        head = _range(kind.spell(first, first_text), kind.spell(end, first_text))
        start = kind.low if kind is not DAY_OF_WEEK else 1
        if last < start:
            return f"write {head}"
        return f"write {head},{_range(kind.spell(start, last_text), kind.spell(last, last_text))}"

    def _value(self, text: str, column: int, item: str, item_column: int | None = None) -> int | None:
        item_column = column if item_column is None else item_column
        kind = self._kind
        if text.isdigit():
            value = _number(text)
            if kind.low <= value <= kind.high:
                return value
            hint = "write 0 for midnight" if kind is HOUR and value == 24 else None
            self._detail(f"{echo(text)} is outside {kind.low}-{kind.high}", column, text, hint)
            return None
        value_by_name = kind.names.get(text.upper())
        if value_by_name is not None:
            return value_by_name
        if not text:
            self._detail(f"{echo(item)} is not complete", item_column, item, "a range is written 1-5")
            return None
        self._detail(f"{echo(text)} is not a value", column, text, self._guess(text))
        return None

    def _guess(self, text: str) -> str:
        kind = self._kind
        short = text.upper()[:3]
        if short in kind.names and text.isalpha():
            return f"write {short}"
        if text.upper().lstrip("0123456789") in ("L", "W", "LW"):
            if kind is DAY_OF_WEEK:
                return "for the last Friday write 5L"
            return "L and W belong in the day-of-month field"
        if "#" in text:
            return "'#' belongs in the day-of-week field"
        if text.startswith("+"):
            return "'+' belongs once, before the day-of-week field"
        return f"allowed are {kind.allowed}"

    def _step(self, text: str, column: int) -> int | None:
        if not text.isdigit():
            self._detail(f"{echo(text) or 'nothing'} is not a step", column, text, "write a number of 1 or more")
            return None
        step = _number(text)
        if step == 0:
            self._detail("a step of 0 never moves", column, text, "write a number of 1 or more")
            return None
        return step

    def _special_day(self, item: str, column: int) -> Term | None:
        upper = item.upper()
        if item != upper and _SPECIAL_DAY.fullmatch(upper):
            self._detail(f"{item} is lower case", column, item, f"write {upper}")
            return None
        if item == "L":
            return LastDay()
        if item == "LW":
            return LastWorkday()
        if item.startswith("L-") and item[2:].isdigit():
            back = _number(item[2:])
            if 1 <= back <= 30:
                return LastDay(back)
            hint = "write L" if back == 0 else None
            self._detail(f"{echo(item[2:])} is outside 1-30", column + 2, item[2:], hint, "1-30")
            return None
        if item.endswith("W") and item[:-1].isdigit():
            day = self._value(item[:-1], column, item)
            return None if day is None else NearestWorkday(day)
        if item.startswith("L-") and item.endswith("W"):
            message, hint = f"{echo(item)} is not supported", "write LW for the last weekday of the month"
        elif item.endswith("W"):
            message, hint = f"{echo(item)}: W takes a single day", "write 15W, or 1W,15W"
        elif upper.endswith("L"):
            message, hint = f"{echo(item)} is not a value", "for the last Friday write 5L in the day-of-week field"
        else:
            message, hint = f"{echo(item)} is not a value", "L stands alone, as L-3 or as LW"
        self._detail(message, column, item, hint)
        return None

    def _nth_weekday(self, item: str, column: int) -> Term | None:
        day_text, nth_text = (item[:-1], item[-1]) if "#" not in item else item.split("#", 1)
        if not day_text:
            hint = "for the last Friday write 5L" if "#" not in item else "for the second Friday write 5#2"
            self._detail(f"{echo(item)} needs a weekday", column, item, hint)
            return None
        if "-" in day_text or "/" in item or day_text in ("*", "?"):
            mark = "#" if "#" in item else "L"
            self._detail(f"'{mark}' takes a single weekday", column, item, "write a list, as MON#1,TUE#1")
            return None
        weekday = self._value(day_text, column, item)
        if weekday is None:
            return None
        if nth_text == "l":
            self._detail(f"{item} is lower case", column, item, f"write {item[:-1]}L")
            return None
        if nth_text not in ("1", "2", "3", "4", "5", "L"):
            message = f"{echo(nth_text)} is outside 1-5" if nth_text else "a number is missing after '#'"
            self._detail(message, column + len(item) - len(nth_text), nth_text, "or write L for the last", "1-5")
            return None
        return NthWeekday(weekday % 7, None if nth_text == "L" else int(nth_text))

    def _hashed(self, item: str, column: int) -> Span | None:
        """Parse `H`, `H/n`, `H(a-b)` or `H(a-b)/n`, resolved by a hash of the job's name."""
        kind = self._kind
        if item[0] == "h":
            self._detail(f"{echo(item)} is lower case", column, item, f"write {echo('H' + item[1:])}")
            return None
        if kind is YEAR:
            self._detail("H is not for the year field", column, item, "write the years")
            return None
        base, slash, step_text = item.partition("/")
        first, last = kind.low, kind.hashed_last or kind.last
        if base != "H":
            if not (base.startswith("H(") and base.endswith(")")):
                self._detail(f"{echo(item)} is not a value", column, item, "write H, H/15 or H(0-29)")
                return None
            errors: list[ErrorDetail] = []
            bounds = FieldReader(kind, None, errors.append)._span(base[2:-1], column + 2)
            if bounds is None or bounds.step != 1:
                hint = f"write H({kind.low}-{kind.last}), or a part of it"
                self._detail(f"{echo(base)} holds no range", column, item, hint)
                return None
            first, last = bounds.first, bounds.last
        step = self._step(step_text, column + len(base) + 1) if slash else None
        if slash and step is None:
            return None
        if not self._job_name:
            self._detail("H needs the job's name to spread by", column, item, "give a name")
            return None
        size = last - first + 1
        if step is None:
            value = first + _stable_hash(self._job_name, kind.name) % size
            return Span(value, value)
        start = first + _stable_hash(self._job_name, kind.name) % min(step, size)
        return Span(start, last, step)


def _number(digits: str) -> int:
    """Parse a number; return one that is out of range for every field if it has too many digits."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= 6 else 10**6


def _stable_hash(job_name: str, field_name: str) -> int:
    import hashlib  # rarely needed, and slow to load

    digest = hashlib.sha256(f"{job_name}\0{field_name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first}-{last}"


def _spell_span(span: Span) -> str:
    text = _range(str(span.first), str(span.last))
    return f"{text}/{span.step}" if span.step > 1 and span.first != span.last else text
