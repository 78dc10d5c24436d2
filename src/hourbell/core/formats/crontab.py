"""A line-by-line crontab parser: each line is an entry, a variable, a comment, blank, or a problem with a hint.

Entries mean the same as in Vixie cron and its descendants: if both day fields are restricted, either may match, unless
one of them begins with `*`; then both must match, which our schedules write with a `+`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hourbell.core.formats.crontab_lines import has_both_days, read_command, read_variable, split_fields, system_form
from hourbell.core.schedule import Schedule, ScheduleError
from hourbell.core.schedule.errors import echo
from hourbell.core.values.strict_json import text_problem

MAX_LINE_CHARACTERS, MAX_COMMENT_CHARACTERS = 4_000, 2_000
MAX_LINES = 10_000
MAX_VARIABLE_NAMES = 200  # different names in a file; each entry has all that are set above it
_NICKNAMES = {"@every_minute": "* * * * *"}
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?(?::[A-Za-z0-9_.-]+)?", re.ASCII)
_DAY = "(?:SUN|MON|TUE|WED|THU|FRI|SAT)"  # upper case only: sat and mon may be programs
_LIKE_A_FIELD = re.compile(rf"\*|\*/[0-9]+|[0-9][0-9,/-]*|\?|{_DAY}(?:[,-]{_DAY})*", re.ASCII)
_NAMES = "(?i:sun|mon|tue|wed|thu|fri|sat|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_LIKE_A_PROGRAM = re.compile(rf"~?[./]|(?!{_NAMES})[A-Za-z_](?:[A-Za-z_]{{3}}|[A-Za-z_]*-[a-z])", re.ASCII)
_FIELDS = ("minute", "hour", "day", "month", "weekday")
_ENTRY_HINT = f"write {' '.join(_FIELDS)} command, a variable NAME=value, or # before a comment"
_REBOOT_HINT = "make it a systemd service with WantedBy=multi-user.target, or let such a service trigger a job"


@dataclass(frozen=True, slots=True)
class Entry:
    """A command and its schedule. `stdin` is None if there is no input, `timezone` is None if CRON_TZ is not set."""

    line: int
    schedule: str
    command: str
    stdin: str | None = None
    user: str | None = None
    timezone: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    is_quiet: bool = False
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    line: int
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment line. `is_loose` if it is not directly above an entry."""

    line: int
    text: str
    is_loose: bool = True


@dataclass(frozen=True, slots=True)
class Blank:
    line: int


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that could not be parsed, with the reason."""

    line: int
    text: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        message = self.message if self.hint is None else f"{self.message}; {self.hint}"
        return f"line {self.line}: {message}"


Line = Entry | Variable | Comment | Blank | Problem


@dataclass(frozen=True, slots=True)
class Crontab:
    """All lines in order. `is_system` if entries name a user; `guess` says why that was assumed."""

    lines: tuple[Line, ...]
    is_system: bool
    guess: str | None = None

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(line for line in self.lines if isinstance(line, Entry))

    @property
    def env(self) -> tuple[Variable, ...]:
        return tuple(line for line in self.lines if isinstance(line, Variable))

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(line for line in self.lines if isinstance(line, Problem))

    @property
    def comments(self) -> tuple[Comment, ...]:
        return tuple(line for line in self.lines if isinstance(line, Comment))


def parse_crontab(text: str, *, system: bool | None = None) -> Crontab:
    """Parse every line, at most MAX_LINES. `system` says whether entries name a user; None guesses it from the file.

    The guess is yes if a comment of the file lists the fields with `user command`, or if a command would begin with the
    name of a standard system account such as root; otherwise no.
    """
    whole = text.removeprefix("\ufeff").removesuffix("\n")
    lines = [line.removesuffix("\r") for line in whole.split("\n")] if whole or "\n" in text else []
    more = lines[MAX_LINES:]
    del lines[MAX_LINES:]
    guess = system_form(lines) if system is None else None
    reader = _Reader(is_system=guess is not None if system is None else system)
    read = [reader.line(number, line) for number, line in enumerate(lines, 1)]
    if more:
        message = f"a crontab has at most {MAX_LINES:,} lines; {len(more):,} were not read"
        read.append(Problem(MAX_LINES + 1, more[0][:MAX_LINE_CHARACTERS], message, "split the file"))
    return Crontab(tuple(_tie_comments(read)), reader.is_system, guess)


def _tie_comments(lines: Iterable[Line]) -> list[Line]:
    """Attach to each entry the comments directly above it, unless they are too long for a description."""
    made: list[Line] = []
    for line in lines:
        if isinstance(line, Entry):
            first = len(made)
            while first and isinstance(made[first - 1], Comment):
                first -= 1
            above = [each for each in made[first:] if isinstance(each, Comment)]
            if sum(len(each.text) + 1 for each in above) > MAX_COMMENT_CHARACTERS:
                above, first = [], len(made)
            made[first:] = [Comment(each.line, each.text, is_loose=False) for each in above]
            line = replace(line, comments=tuple(each.text for each in above))
        made.append(line)
    return made


class _Unclear(ValueError):
    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class _Reader:
    """Reads lines in order, and stores the variables that apply to the following lines."""

    def __init__(self, *, is_system: bool) -> None:
        self.is_system = is_system
        self._environment: Mapping[str, str] = {}  # replaced, never changed: entries share it
        self._timezone: str | None = None
        self._bad_zone_line: int | None = None  # line of the last CRON_TZ with an invalid zone

    def line(self, number: int, text: str) -> Line:
        try:
            return self._line(number, text)
        except _Unclear as error:
            return Problem(number, text, str(error), error.hint)

    def _line(self, number: int, text: str) -> Line:
        stripped = text.strip(" \t")
        if not stripped:
            return Blank(number)
        if (problem := text_problem(text)) is not None:
            raise _Unclear(problem)
        if len(text) > MAX_LINE_CHARACTERS:
            raise _Unclear(f"the line is longer than {MAX_LINE_CHARACTERS} characters", "put the command in a script")
        if stripped.startswith("#"):
            return Comment(number, stripped[1:].strip())
        try:
            variable = read_variable(text)
        except ValueError as error:
            raise _Unclear(str(error)) from None
        return self._entry(number, text) if variable is None else self._variable(number, *variable)

    def _variable(self, number: int, name: str, value: str) -> Variable:
        if name == "CRON_TZ":
            self._bad_zone_line = number
            if value:
                _check_zone(value.removeprefix(":"))
            self._timezone, self._bad_zone_line = value.removeprefix(":") or None, None
        elif name not in self._environment and len(self._environment) >= MAX_VARIABLE_NAMES:
            raise _Unclear(f"it is one of more than {MAX_VARIABLE_NAMES} variables", "split the file")
        else:
            self._environment = {**self._environment, name: value}
        return Variable(number, name, value)

    def _entry(self, number: int, text: str) -> Entry:
        rest = text.lstrip(" \t")
        is_quiet = rest.startswith("-")
        rest = rest.removeprefix("-").lstrip(" \t")
        count = 1 if rest.startswith("@") else 5
        fields, rest = split_fields(rest, count)
        known = next((index for index, each in enumerate(fields) if _LIKE_A_PROGRAM.match(each)), len(fields))
        if known < count:
            raise _Unclear(_lacking(fields, known), _ENTRY_HINT)
        if self._bad_zone_line is not None:
            because = f"because CRON_TZ on line {self._bad_zone_line} could not be read"
            raise _Unclear(f"its time zone is not known, {because}", "fix that line")
        schedule, note = _schedule(fields, self._timezone or "UTC")
        user = None
        if self.is_system:
            if not rest:
                raise _Unclear("there is no user and no command", "write both after the schedule")
            [user], rest = split_fields(rest, 1)
            _check_user(user)
        if not rest.strip(" \t"):
            raise _Unclear("there is no command", "write one after the " + ("user" if user else "schedule"))
        _check_command(rest, count)
        command, stdin = read_command(rest)
        if not command.strip():
            raise _Unclear("there is no command before the %", r"write \% for a percent sign")
        return Entry(number, schedule, command, stdin, user, self._timezone, self._environment, (), is_quiet, note)


def _lacking(fields: list[str], known: int) -> str:
    """Return the message for an entry in which only the first `known` words can be fields."""
    if known < len(fields):
        return f"{echo(fields[known])} is where the {_FIELDS[known]} should be"
    return f"expected 5 fields and a command, got {known} word{'' if known == 1 else 's'}"


def _schedule(fields: list[str], zone: str) -> tuple[str, str | None]:
    """Convert cron fields to our schedule, and return it with an optional note."""
    text = " ".join(fields)
    if text.startswith("@"):
        text = _NICKNAMES.get(text, text)
        if text.lower() == "@reboot":
            raise _Unclear("@reboot is not a time", _REBOOT_HINT)
        if text == "@every":
            raise _Unclear("@every is not a nickname of cron", "write */15 * * * * for every fifteen minutes")
    for each in fields[: 0 if text.startswith("@") else 5]:
        _check_field(each)
    note = None
    if len(fields) == 5 and has_both_days(fields[2], fields[4]):
        text = " ".join([*fields[:4], "+" + fields[4]])
        note = f"cron wants both day fields to match in {' '.join(fields)}; written as {text}"
    elif len(fields) == 5 and not {fields[2], fields[4]} & {"*", "?"}:
        note = f"in {text} either day field may match, as in cron"
    try:
        schedule = Schedule.parse(text, zone)
    except ScheduleError as error:
        raise _Unclear("; ".join(map(str, error.errors[:5]))) from None
    if schedule.never_fires:
        raise _Unclear(f"{text} never fires", "there is no such day")
    return text, note


def _check_zone(zone: str) -> None:
    try:
        Schedule.parse("@daily", zone)
    except ScheduleError as error:
        hint = error.hint or "write an IANA name such as Europe/Paris"
        hint = "write CRON_TZ on a line of its own, above the entry" if " " in zone else hint
        raise _Unclear(f"CRON_TZ: {error.errors[0].message}", hint) from None


def _check_field(text: str) -> None:
    if "~" in text:
        raise _Unclear(f"{echo(text)} is a random value", "write a value, and in the jobs file H(0-59) spreads jobs")
    if text.startswith(("H", "h(", "h/", "+")) or text == "h":
        raise _Unclear(f"{echo(text)} is not cron syntax", "write a value, and put the other form into the jobs file")


def _check_user(user: str) -> None:
    if _LIKE_A_FIELD.fullmatch(user):
        raise _Unclear(f"{echo(user)} is where the user should be", "cron has five fields, without seconds or years")
    if _USER.fullmatch(user) is None:
        raise _Unclear(
            f"{echo(user)!r} is not a user", "write one before the command, or read the file as a user's crontab"
        )


def _check_command(command: str, count: int) -> None:
    word = command.split(maxsplit=1)[0]
    if count == 5 and _LIKE_A_FIELD.fullmatch(word):
        raise _Unclear(f"the command would begin with {echo(word)}", "cron has five fields, without seconds or years")
