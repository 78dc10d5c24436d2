"""Detection of a schedule's form, and dispatch to the parser of that form."""

from hourbell.core.schedule.cron import Cron, parse_cron
from hourbell.core.schedule.errors import ErrorDetail, ScheduleError, echo
from hourbell.core.schedule.forms import (
    Instant,
    Interval,
    Yearly,
    parse_instant,
    parse_interval,
    parse_yearly,
)
from hourbell.core.schedule.recurrence import RecurrencePattern
from hourbell.core.schedule.rrule import parse_recurrence
from hourbell.core.schedule.zones import Zone

Form = Cron | Interval | Instant | Yearly | RecurrencePattern

MAX_EXPRESSION_CHARACTERS = 512
MAX_RECURRENCE_CHARACTERS = 4096
NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_RECURRENCE_LINES = ("RRULE", "DTSTART", "EXDATE", "RDATE")


def parse_form(text: str, zone: Zone, job_name: str | None) -> Form:
    """Parse a schedule of any form."""
    is_recurrence = text.lstrip()[:8].upper().startswith(_RECURRENCE_LINES)
    _check_characters(text, is_recurrence)
    words = text.split()
    if not words:
        raise ScheduleError(ErrorDetail("the schedule is empty", hint="write a cron expression such as 0 9 * * 1-5"))
    first = words[0]
    start = text.index(first) + len(first)
    after = start + len(text[start:]) - len(text[start:].lstrip())
    if is_recurrence and first.startswith(_RECURRENCE_LINES):
        return parse_recurrence(text, zone)
    if first in ("every", "@every"):
        return parse_interval(text, after)
    if first == "at":
        return parse_instant(text, after)
    if first == "yearly":
        return parse_yearly(text, after)
    if first in NICKNAMES and len(words) == 1:
        return parse_cron(NICKNAMES[first], None)
    detail = _misplaced_word(first, words, text.index(first) + 1)
    if detail is not None:
        raise ScheduleError(detail)
    return parse_cron(text, job_name)


def _check_characters(text: str, is_recurrence: bool) -> None:
    longest = MAX_RECURRENCE_CHARACTERS if is_recurrence else MAX_EXPRESSION_CHARACTERS
    if len(text) > longest:
        message = f"the schedule is {len(text)} characters long; at most {longest} are read"
        raise ScheduleError(ErrorDetail(message, text=echo(text)))
    for index, character in enumerate(text):
        if " " <= character <= "~" or character == "\t" or (is_recurrence and character in "\r\n"):
            continue
        what = "a line break" if character in "\r\n" else echo(character)
        hint = "separate fields with spaces or tabs" if character.isspace() else "write plain ASCII"
        raise ScheduleError(ErrorDetail(f"{what} is not allowed", None, index + 1, echo(character), "ASCII", hint))


def _misplaced_word(first: str, words: list[str], column: int) -> ErrorDetail | None:
    """Return a specific error for a first word that belongs to no form, or None if the cron parser should report it."""
    folded = first.lower()
    if folded == "@reboot":
        hint = "to run something at start-up, trigger the job from there"
        return ErrorDetail("@reboot is not a time", None, column, echo(first), hint=hint)
    if first in NICKNAMES:
        return ErrorDetail(
            f"nothing may follow {first}", None, column, echo(" ".join(words)), hint=f"write {first} alone"
        )
    if folded in NICKNAMES or folded in ("every", "@every", "at", "yearly"):
        return ErrorDetail(f"{echo(first)} is written in lower case", None, column, echo(first), hint=f"write {folded}")
    if folded.startswith(_RECURRENCE_LINES_LOWER):
        return ErrorDetail(
            f"{echo(first)} is written in upper case", None, column, echo(first), hint="write RRULE:FREQ=…"
        )
    if first.startswith("@"):
        hint = "nicknames are " + " ".join(NICKNAMES)
        return ErrorDetail(f"{echo(first)} is not a nickname", None, column, echo(first), hint=hint)
    if first.upper().startswith(("CRON_TZ=", "TZ=")):
        hint = "leave it out and set the timezone of the schedule"
        return ErrorDetail(f"{echo(first)} does not belong in the schedule", None, column, echo(first), hint=hint)
    return None


_RECURRENCE_LINES_LOWER = tuple(line.lower() for line in _RECURRENCE_LINES)
