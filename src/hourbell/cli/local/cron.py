"""`hourbell cron`: explain a schedule and compute its times, without a server."""

import json
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from hourbell import clock
from hourbell.cli.shared.command import ExampleCommand, ExampleGroup
from hourbell.cli.shared.times import parse_time
from hourbell.core.schedule import ErrorDetail, Schedule, ScheduleError, zone_names
from hourbell.core.schedule.preview import Upcoming, format_offset, preview, rfc3339, upcoming

FAILED, USAGE = 1, 2
_WIDEST = 100


def _complete_zone(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    folded = incomplete.lower()
    return [CompletionItem(name) for name in sorted(zone_names()) if name.lower().startswith(folded)]


def schedule_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options shared by the three commands."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option(
            "--after", default="now", metavar="TIME", help="Start from: RFC 3339, now, -2h, 'tomorrow 09:00'."
        ),
        click.option("--name", metavar="JOB", help="The job's name, which decides the values of H fields."),
        click.option("--dst", default="once", metavar="once|wall|skip", help="What to do when clocks change."),
        click.option(
            "--timezone", "-z", default="UTC", metavar="ZONE", shell_complete=_complete_zone, help="An IANA time zone."
        ),
        click.argument("expression", metavar="EXPR"),
    ):
        function = option(function)
    return function


@click.group(
    cls=ExampleGroup,
    examples="""
    hourbell cron next '0 2 31 * *' -n 3 --timezone Europe/London
    hourbell cron explain '30 2 * * *' --timezone America/New_York
    hourbell cron check '*/15 9-17 * * 1-5'
    """,
)
def command() -> None:
    """Explain a schedule and list its times. Needs no server.

    EXPR is a cron expression of 5, 6 or 7 fields, a nickname such as @daily, 'every 15m', 'at 2026-12-24T18:00:00',
    'yearly 02-29 09:00' or 'RRULE:FREQ=MONTHLY;BYDAY=-1FR'.
    """


@command.command(
    "next",
    cls=ExampleCommand,
    examples="""
    hourbell cron next '0 2 31 * *' -n 3 --timezone Europe/London
    hourbell cron next 'every 15m' --after 'tomorrow 09:00' --json
    """,
)
@schedule_options
@click.option("-n", "--number", default=5, type=click.IntRange(1, 10_000), help="The number of times.  [default: 5]")
def next_(expression: str, number: int, as_json: bool, after: str, **how: Any) -> None:
    """Print the next times, in the zone and in UTC."""
    schedule = _parse(expression, **how)
    start = _start(after, schedule)
    if as_json:
        _print_json(preview(schedule, start, number))
        return
    _print_upcoming(upcoming(schedule, start, number), schedule.timezone)


@command.command(
    cls=ExampleCommand,
    examples="""
    hourbell cron explain '30 2 * * *' --timezone America/New_York
    hourbell cron explain 'H H * * *' --name nightly-report
    """,
)
@schedule_options
@click.option("-n", "--number", default=3, type=click.IntRange(1, 10_000), help="The number of times.  [default: 3]")
def explain(expression: str, number: int, as_json: bool, after: str, **how: Any) -> None:
    """Describe a schedule in plain English, with its next times and warnings."""
    schedule = _parse(expression, **how)
    start = _start(after, schedule)
    if as_json:
        _print_json(preview(schedule, start, number))
        return
    click.echo(f"{schedule.describe()} ({schedule.timezone})")
    if schedule.resolved != schedule.expression:
        click.echo(f"{schedule.expression} resolves to {schedule.resolved}")
    click.echo()
    _print_upcoming(upcoming(schedule, start, number), schedule.timezone)
    warnings = schedule.warnings(start)
    if warnings:
        click.echo()
    for warning in warnings:
        click.echo(f"{click.style('note', fg='yellow')}: {warning.message}")


@command.command(
    cls=ExampleCommand,
    examples="""
    hourbell cron check '*/15 9-17 * * 1-5'
    hourbell cron check '0 9 * * FRI-MON' || echo 'fix it first'
    """,
)
@schedule_options
def check(expression: str, as_json: bool, after: str, **how: Any) -> None:
    """Validate a schedule: exit code 0 if it is valid, 1 if it never fires, 2 if it cannot be parsed."""
    try:
        schedule = Schedule.parse(expression, **how)
    except ScheduleError as error:
        if as_json:
            _print_json({"valid": False, "errors": [_detail_json(detail) for detail in error.errors]})
            sys.exit(USAGE)
        _refuse(expression, error)
    start = _start(after, schedule)
    will_fire = schedule.next(start) is not None
    if as_json:
        _print_json({"valid": will_fire, **preview(schedule, start, 1)})
    elif will_fire:
        click.echo(f"ok: {schedule.describe()} ({schedule.timezone})")
        for warning in schedule.warnings(start):
            click.echo(f"{click.style('warning', fg='yellow')}: {warning.message}", err=True)
    else:
        click.echo(
            f"{click.style('error', fg='red')}: it never fires after {rfc3339(start.replace(microsecond=0))}", err=True
        )
    sys.exit(0 if will_fire else FAILED)


def _parse(expression: str, **how: Any) -> Schedule:
    try:
        return Schedule.parse(expression, **how)
    except ScheduleError as error:
        _refuse(expression, error)


def _start(after: str, schedule: Schedule) -> datetime:
    try:
        return parse_time(after, clock.now(), schedule.timezone)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--after") from None


def _refuse(expression: str, error: ScheduleError) -> NoReturn:
    """Print every schedule error with a caret under its column, and exit."""
    for detail in error.errors:
        click.echo(f"{click.style('error', fg='red')}: {detail}", err=True)
        if detail.column is not None and detail.field not in ("timezone", "dst"):
            for line in _caret(expression, detail):
                click.echo(f"  {line}", err=True)
    sys.exit(USAGE)


def _caret(expression: str, detail: ErrorDetail) -> tuple[str, str]:
    """Return the expression, or the part of it around the error, and a line of carets under the error."""
    at = (detail.column or 1) - 1
    first = max(0, min(at - _WIDEST // 2, len(expression) - _WIDEST))
    part = "".join(character if character.isprintable() else " " for character in expression[first : first + _WIDEST])
    width = max(1, min(len(detail.text), len(part) - (at - first)))
    return part, " " * (at - first) + "^" * width


def _detail_json(detail: ErrorDetail) -> dict[str, object]:
    return {
        "field": detail.field,
        "column": detail.column,
        "text": detail.text,
        "message": detail.message,
        "allowed": detail.allowed,
        "hint": detail.hint,
    }


def _print_json(body: object) -> None:
    click.echo(json.dumps(body, indent=2, ensure_ascii=False))


def _print_upcoming(items: list[Upcoming], timezone: str) -> None:
    if not items:
        click.echo("it never fires again", err=True)
        return
    rows = [(timezone, "", "UTC", "")]
    offset = None
    for item in items:
        local = f"{item.wall:%a %Y-%m-%d %H:%M:%S} {format_offset(item.offset)}"
        rows.append((local, item.abbreviation, rfc3339(item.occurrence.at), _note(item, offset)))
        offset = item.offset
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for local, abbreviation, instant, note in rows:
        line = f"{local:{widths[0]}} {abbreviation:{widths[1]}}  {instant:{widths[2]}}  {note}"
        click.echo(line.rstrip())


def _note(item: Upcoming, offset_before: timedelta | None) -> str:
    if item.occurrence.shifted:
        return f"{item.occurrence.local:%H:%M} does not exist that day"
    if item.occurrence.fold:
        return "second pass of a repeated hour"
    if offset_before is not None and item.offset != offset_before:
        return "after a clock change"
    return ""
