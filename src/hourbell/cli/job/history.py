"""Commands on a job's past and future runs, skips and versions."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.job.pauses import describe_pause
from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.lists import number_option, show_list
from hourbell.cli.shared.output import Output, View, json_line, note, output_options, pairs, plain_lines, table
from hourbell.cli.shared.parameters import JOB, instant, zone_option
from hourbell.cli.shared.progress import Progress
from hourbell.cli.shared.remote import server_options
from hourbell.cli.shared.times import describe_time, shown
from hourbell.cli.shared.views import milliseconds, stats_lines
from hourbell.core.run.fates import Fate

if TYPE_CHECKING:
    from datetime import datetime

    from hourbell.client import Client, Job, LedgerItem, Upcoming, Version


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell job backfill nightly-report --from 2026-11-01 --to 2026-11-07 --dry-run
    hourbell job backfill nightly-report --from -7d --to now --per-minute 10
    """,
)
@click.argument("job", type=JOB)
@click.option(
    "--from", "start", required=True, metavar="TIME", help="The first scheduled time: 2026-11-01, -7d, RFC 3339."
)
@click.option("--to", "end", required=True, metavar="TIME", help="The last scheduled time; a date means its start.")
@click.option(
    "--per-minute", type=click.IntRange(1), help="The number of runs that become ready per minute.  [default: 60]"
)
@click.option("--include-pruned", is_flag=True, help="Also run times whose runs may have been pruned.")
@click.option("--dry-run", is_flag=True, help="Show the times without adding runs.")
@zone_option
@output_options
@server_options
def backfill(
    client: "Client",
    job: str,
    start: str,
    end: str,
    per_minute: int | None,
    include_pruned: bool,
    dry_run: bool,
    zone: str,
    output: Output,
) -> None:
    """Add runs for past scheduled times that have none; future times are left to the schedule."""
    first, last = instant(start, zone, "--from", "ago"), instant(end, zone, "--to", "ago")
    assert first is not None
    assert last is not None
    click.echo(f"from {describe_time(first, zone)} to {describe_time(last, zone)}", err=True)
    with Progress("looking for scheduled times" if dry_run else "making runs"):
        if dry_run:
            made = client.jobs.preview_backfill(job, first, last, include_pruned=include_pruned)
        else:
            made = client.jobs.backfill(job, first, last, per_minute=per_minute, include_pruned=include_pruned)
    if output.is_quiet or output.format == "name":
        for run in made.runs:
            click.echo(run)
        return
    heads = (f"SCHEDULED ({zone})", "RUN")
    rows = [
        (shown(at, zone), run) for at, run in zip(made.instants, made.runs or [""] * len(made.instants), strict=True)
    ]
    output.one(
        made,
        View((), tuple, str, str),
        table(heads[: 1 if dry_run else 2], [r[: 1 if dry_run else 2] for r in rows], None),
    )
    if not made.instants:
        note("every scheduled time in that range already has a run")


@click.command(cls=ExampleCommand, examples="hourbell job stats nightly-report --since 30d")
@click.argument("job", type=JOB)
@click.option("--since", metavar="TIME", help="Count runs since this time: 30d, 2026-11-01, RFC 3339.  [default: 7d]")
@zone_option
@output_options
@server_options
def stats(client: "Client", job: str, since: str | None, zone: str, output: Output) -> None:
    """Show how many runs of a job succeeded and failed, how long they took and how late they were."""
    found = client.jobs.stats(job, since=instant(since, zone, "--since", "ago"))
    output.one(found, View((), tuple, lambda each: each.job, lambda each: each.job), stats_lines(found, zone))


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell job upcoming nightly-report
    hourbell job upcoming nightly-report -n 3 --after 'tomorrow 09:00' --timezone Europe/Paris
    """,
)
@click.argument("job", type=JOB)
@click.option("-n", "--number", type=click.IntRange(1), default=10, help="The number of times.  [default: 10]")
@click.option("--after", metavar="TIME", help="Start from: +1d, 'tomorrow 09:00', RFC 3339.  [default: now]")
@zone_option
@output_options
@server_options
def upcoming(client: "Client", job: str, number: int, after: str | None, zone: str, output: Output) -> None:
    """List the next times of a job, in its own zone and in another."""
    start = instant(after, zone, "--after", "ahead")
    found = client.jobs.get(job)
    instants = client.jobs.upcoming(found.id, count=number, after=start)
    view = View(
        (f"LOCAL ({found.timezone})", f"SCHEDULED ({zone})", "NOTE"),
        lambda each: (each.local.replace("T", " "), shown(each.at, zone), _surprise(each)),
        lambda each: each.raw["at"],
        lambda each: each.raw["at"],
    )
    output.items(instants, view, instants.raw)
    if not instants and output.is_for_people:
        note(_why_never(found, zone))


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell job times nightly-report
    hourbell job times nightly-report --since 7d --fate failed --fate skipped
    hourbell job times nightly-report --json | jq '.items[] | {at, fate}'
    """,
)
@click.argument("job", type=JOB)
@click.option("--since", metavar="TIME", help="Scheduled since: 7d, 2026-11-01, RFC 3339.")
@click.option("--until", metavar="TIME", help="Before: -1h, now, RFC 3339.")
@click.option(
    "--fate",
    "fates",
    type=click.Choice([fate.value for fate in Fate]),
    multiple=True,
    help="Only these fates; may be repeated.",
)
@number_option
@zone_option
@output_options
@server_options
def times(
    client: "Client",
    job: str,
    since: str | None,
    until: str | None,
    fates: tuple[str, ...],
    number: int,
    zone: str,
    output: Output,
) -> None:
    """List the scheduled times of a job with what became of each, newest first."""
    pages = client.jobs.times(
        job,
        start=instant(since, zone, "--since", "ago"),
        until=instant(until, zone, "--until", "ago"),
        fate=fates,
    )
    view = View(
        ("LOCAL", f"SCHEDULED ({zone})", "FATE", "LATE BY", "TOOK", "TIMES", "WHY"),
        lambda item: (
            item.local.replace("T", " "),
            shown(item.at, zone),
            item.fate,
            milliseconds(item.run.lateness_ms) if item.run else "",
            milliseconds(item.run.duration_ms) if item.run else "",
            item.count,
            _why(item),
        ),
        lambda item: item.raw["at"],
        lambda item: item.run.id if item.run else item.raw["at"],
    )
    show_list(pages, number, output, view, "there is no such scheduled time")


@click.command(
    cls=ExampleCommand,
    examples="hourbell job days nightly-report\nhourbell job days nightly-report --from 2026-11-01 --until 2026-11-07",
)
@click.argument("job", type=JOB)
@click.option("--from", "start", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="The first date.")
@click.option("--until", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="The last date, included.")
@output_options
@server_options
def days(client: "Client", job: str, start: "datetime | None", until: "datetime | None", output: Output) -> None:
    """Count what became of the scheduled times of a job on each date in its time zone."""
    found = client.jobs.days(job, start=start and start.date(), until=until and until.date())
    names = ("succeeded", "late", "failed", "cancelled", "skipped", "unfinished")
    view = View(
        (f"DATE ({found.timezone})", *(name.upper() for name in names)),
        lambda day: (day.date, *(getattr(day, name) for name in names)),
        lambda day: day.date,
        lambda day: day.date,
    )
    output.items(found.items, view, found.raw)
    if found.is_sampled and output.is_for_people:
        note(f"dates before {found.counted_from} are not counted: there are too many runs")


@click.command(
    cls=ExampleCommand,
    examples="hourbell job series nightly-report\nhourbell job series nightly-report -n 500 --json",
)
@click.argument("job", type=JOB)
@click.option("-n", "--number", type=click.IntRange(1, 500), default=100, help="How many runs.  [default: 100]")
@zone_option
@output_options
@server_options
def series(client: "Client", job: str, number: int, zone: str, output: Output) -> None:
    """List how long the last runs of a job took and how late they began, oldest first."""
    found = client.jobs.series(job, limit=number)
    view = View(
        (f"SCHEDULED ({zone})", "STATE", "TOOK", "LATE BY", "ATTEMPT"),
        lambda point: (
            shown(point.at, zone),
            point.state,
            milliseconds(point.duration_ms),
            milliseconds(point.lateness_ms),
            point.attempt,
        ),
        lambda point: point.run_id,
        lambda point: point.run_id,
    )
    output.items(found.items, view, found.raw)
    if output.is_for_people and found.median_duration_ms is not None:
        note(f"half took {milliseconds(found.median_duration_ms)} or less, 95 % {milliseconds(found.p95_duration_ms)}")


@click.command(
    cls=ExampleCommand,
    examples="hourbell job skips nightly-report\nhourbell job skips nightly-report --timezone Europe/Paris",
)
@click.argument("job", type=JOB)
@number_option
@zone_option
@output_options
@server_options
def skips(client: "Client", job: str, number: int, zone: str, output: Output) -> None:
    """List scheduled times that got no run, with the reason, newest first."""
    view = View(
        (f"FIRST ({zone})", f"LAST ({zone})", "TIMES", "REASON"),
        lambda skip: (shown(skip.first_at, zone), shown(skip.last_at, zone), skip.count, skip.reason),
        lambda skip: skip.raw["first_at"],
        lambda skip: skip.reason,
    )
    show_list(client.jobs.skips(job), number, output, view, "no scheduled time was skipped")


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell job versions nightly-report
    hourbell job versions nightly-report --json | jq '.items[0].definition'
    hourbell job versions nightly-report --version 1
    """,
)
@click.argument("job", type=JOB)
@click.option(
    "--version", type=click.IntRange(1), metavar="NUMBER", help="Show only this version, with values of any length."
)
@number_option
@zone_option
@output_options
@server_options
def versions(client: "Client", job: str, version: int | None, number: int, zone: str, output: Output) -> None:
    """List all versions of a job's definition, with who changed what, newest first."""
    if version is not None:
        found = client.jobs.version(job, version)
        output.one(found, View((), tuple, lambda each: each.version, lambda each: each.version), _lines(found, zone))
        return
    # One more than is shown, because each version is compared with the one before it.
    known = list(client.jobs.versions(job, limit=number + 1))
    before = {later.version: earlier for later, earlier in pairwise(known)}
    view = View(
        ("VERSION", f"CHANGED ({zone})", "BY", "SCHEDULE", "CHANGES"),
        lambda each: (
            each.version,
            shown(each.changed_at, zone),
            each.changed_by,
            each.definition.get("schedule"),
            _changes(each, before.get(each.version)),
        ),
        lambda each: each.version,
        lambda each: each.version,
    )
    show_list(client.jobs.versions(job), number, output, view, "there is no version")


COMMANDS = (backfill, stats, days, series, times, upcoming, skips, versions)


def _why_never(job: "Job", zone: str) -> str:
    if job.state == "error":
        return f"it is in error: {job.error}"
    if job.paused is not None:
        return f"it is {describe_pause(job.paused, zone)}; `hourbell job resume {job.name}` ends that"
    return "it never fires again"


def _why(item: "LedgerItem") -> str:
    """Return why a time was skipped or its run failed."""
    if item.skip is not None:
        return item.skip.reason
    if item.run is None or item.run.state == "succeeded":
        return ""
    return plain_lines(item.run.error)[0] if item.run.error else item.run.reason or ""


def _surprise(upcoming: "Upcoming") -> str:
    if upcoming.shifted:
        return f"{upcoming.nominal_local[11:16]} does not exist that day"
    return "second pass of a repeated hour" if upcoming.fold else ""


def _lines(version: "Version", zone: str) -> list[str]:
    return pairs(
        ("version", version.version),
        ("changed", f"{shown(version.changed_at, zone)} ({zone})"),
        ("by", version.changed_by),
        ("definition", json_line(version.definition)),
    )


def _changes(version: "Version", before: "Version | None") -> str:
    """List the fields that differ from the previous version. A field omitted from both lists may have changed."""
    if before is None:
        return ""
    new: Any = version.definition
    old: Any = before.definition
    changed = {name for name in {*new, *old} if new.get(name) != old.get(name)} | (
        _too_long(version) ^ _too_long(before)
    )
    unknown = {f"{name} (too long to compare)" for name in (_too_long(version) & _too_long(before)) - changed}
    return ", ".join(sorted(changed | unknown))


def _too_long(version: "Version") -> set[str]:
    return {each.field.removeprefix("definition.") for each in version.omitted}
