"""Tables and details of jobs, runs and other API answers for people. Every time is shown with its zone."""

from datetime import timedelta
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from hourbell.cli.shared.output import View, json_line, pairs, plain, plain_lines, table
from hourbell.cli.shared.times import shown
from hourbell.core.job.fields import BODY_FIELDS
from hourbell.core.values.readers import describe_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hourbell.client import Attempt, Intention, Job, LogLine, Run, Stats, Upcoming

_MAX_EXCERPT_CHARACTERS = 2_000
_SHOWN_LOG = 20  # number of lines
_LINES = frozenset(  # fields with a line of their own; other fields are shown only if they differ from the default
    {
        "name", "description", "schedule", "timezone", "target", "payload", "tags", "retry", "catch_up", "starts_at",
        "ends_at", "enabled",
    }
)  # fmt: skip
_OTHERS = {field.name: field.shown_default for field in BODY_FIELDS if field.name not in _LINES}


def job_view(zone: str) -> View:
    return View(
        ("NAME", "STATE", "SCHEDULE", "TIMEZONE", f"NEXT ({zone})", "LAST", "TAGS"),
        lambda job: (
            job.name,
            job.state,
            job.schedule,
            job.timezone,
            shown(job.next_at, zone),
            job.totals.last_state if job.totals else "",
            ",".join(job.tags),
        ),
        lambda job: job.id,
        lambda job: job.name,
    )


def run_view(zone: str) -> View:
    return View(
        (
            "RUN",
            "JOB",
            "STATE",
            "KIND",
            f"SCHEDULED ({zone})",
            f"ENDED ({zone})",
            "ATTEMPT",
            "TOOK",
            "REASON",
            "WAITS FOR",
        ),
        lambda run: (
            run.id,
            run.job_name or "(deleted)",
            run.state,
            run.kind,
            shown(run.scheduled_at, zone),
            shown(run.finished_at, zone),
            run.attempt,
            milliseconds(run.duration_ms),
            run.reason,
            run.waits_for,
        ),
        lambda run: run.id,
        lambda run: run.id,
    )


def job_lines(job: "Job", zone: str) -> list[str]:
    """Format the details of a job, with the fields that differ from their defaults."""
    paused, totals = job.paused, job.totals
    return pairs(
        ("name", job.name),
        ("id", job.id),
        ("version", job.version),
        ("state", job.state),
        ("error", job.error),
        ("paused by", paused.by if paused else None),
        ("paused until", _at(paused.until, zone) if paused else None),
        ("pause note", paused.note if paused else None),
        ("description", job.description.splitlines()),
        ("schedule", f"{job.schedule}  ({job.words})" if job.words else job.schedule),
        ("timezone", job.timezone),
        ("next", _both(job.next_at, job.timezone, zone)),
        ("target", json_line(job.target)),
        ("payload", None if job.payload is None else json_line(job.payload)),
        ("tags", ", ".join(job.tags)),
        *((name.replace("_", " "), value) for name, usual in _OTHERS.items() if (value := getattr(job, name)) != usual),
        ("retry", job.retry if isinstance(job.retry, str) else json_line(job.retry)),
        ("catch up", job.catch_up),
        ("starts", _at(job.starts_at, zone)),
        ("ends", _at(job.ends_at, zone)),
        ("owner", ":".join(filter(None, (job.managed_by, job.source)))),
        ("secrets", ", ".join(secret.field for secret in job.secrets)),
        ("secret", f"{job.generated_secret}  (it is not shown again)" if job.generated_secret else None),
        ("last run", _last(job, zone)),
        ("last error", plain_lines(totals.last_error) if totals else None),
    )


def run_lines(run: "Run", zone: str) -> list[str]:
    """Format a run with its attempts, their logs and the answers of the receiver."""
    lines = pairs(
        ("run", run.id),
        ("job", run.job_name or f"(deleted) {run.job_id}"),
        ("state", run.state),
        ("reason", run.reason),
        ("late success", _late_success(run)),
        ("kind", run.kind),
        ("scheduled", _at(run.scheduled_at, zone)),
        ("ready", _at(run.ready_at, zone) if not run.has_ended else None),
        ("waits for", run.waits_for),
        ("started", _at(run.started_at, zone)),
        ("ended", _at(run.finished_at, zone)),
        ("late by", milliseconds(run.lateness_ms)),
        ("took", milliseconds(run.duration_ms)),
        ("replay of", run.replay_of),
        ("cancel", "asked for" if run.cancel_requested and not run.has_ended else None),
        ("progress", _progress(run)),
        ("payload", None if run.payload is None else json_line(run.payload)),
        ("result", None if run.result is None else json_line(run.result)),
    )
    lines += _log_lines(run.log, zone)
    for attempt in run.attempts:
        lines += ["", *_attempt_lines(attempt, zone)]
    return lines


def intention_lines(intention: "Intention", zone: str) -> list[str]:
    """Format the effect of a change: the next scheduled times before and after it."""
    name = plain(intention.job.get("name"))
    zone_of_job = str(intention.job.get("timezone") or zone)
    first = {"create": f"would create {name}", "change": f"would change {name}"}
    lines = [first.get(intention.action, f"would change nothing of {name}")]
    rows = [(_local(before), _local(after)) for before, after in zip_longest(intention.before, intention.after)]
    if intention.before:
        return [*lines, *table((f"BEFORE ({zone_of_job})", f"AFTER ({zone_of_job})"), rows, None)]
    return [*lines, *table((f"NEXT ({zone_of_job})",), [row[1:] for row in rows], None)]


def stats_lines(stats: "Stats", zone: str) -> list[str]:
    rate = stats.success_rate_percent
    return pairs(
        ("job", stats.job),
        ("since", _at(stats.since, zone)),
        ("runs", f"{stats.total}{' (of the last ones only)' if stats.is_sampled else ''}"),
        ("succeeded", stats.succeeded),
        ("failed", stats.failed),
        ("cancelled", stats.cancelled),
        ("success rate", None if rate is None else f"{rate:g} %"),
        ("took", _spread(stats.average_duration_ms, stats.p95_duration_ms, stats.longest_duration_ms)),
        ("late by", _spread(stats.average_lateness_ms, stats.p95_lateness_ms, stats.longest_lateness_ms)),
    )


def milliseconds(value: float | None) -> str:
    if value is None:
        return ""
    return describe_duration(timedelta(milliseconds=value))


def _attempt_lines(attempt: "Attempt", zone: str) -> list[str]:
    lines = pairs(
        (f"attempt {attempt.number}", attempt.outcome),
        ("late outcome", attempt.late_outcome),
        ("status", attempt.status_code),
        ("error", plain_lines(attempt.error)),
        ("started", _at(attempt.started_at, zone) or "unknown"),
        ("took", milliseconds(attempt.duration_ms)),
    )
    excerpt = [] if attempt.log else (attempt.excerpt or "")[:_MAX_EXCERPT_CHARACTERS].splitlines()
    return [*lines, *(f"  | {plain(line)}" for line in excerpt), *_log_lines(attempt.log, zone)]


def _late_success(run: "Run") -> str | None:
    if run.late_success is None:
        return None
    return f"attempt {run.late_success} succeeded; its answer came after its lease was lost"


def _progress(run: "Run") -> str | None:
    if run.progress is None:
        return None
    part = "" if run.progress.fraction is None else f"{run.progress.fraction:.0%}".replace("%", " %")
    return ", ".join(filter(None, (part, run.progress.message)))


def _log_lines(log: "Sequence[LogLine]", zone: str) -> list[str]:
    """Format the newest lines of a task's log, and count the lines before them."""
    before = len(log) - _SHOWN_LOG
    lines = [f"  ({before} lines before; --json shows them)"] if before > 0 else []
    return lines + [f"  {shown(line.at, zone)}  {plain(line.text)}" for line in log[-_SHOWN_LOG:]]


def _at(instant: Any, zone: str) -> str | None:
    return None if instant is None else f"{shown(instant, zone)} ({zone})"


def _both(instant: Any, zone_of_job: str, zone: str) -> str | None:
    """Format a time in the job's zone and, if it differs, also in the requested zone."""
    if instant is None or zone_of_job == zone:
        return _at(instant, zone)
    return f"{_at(instant, zone_of_job)}, {_at(instant, zone)}"


def _last(job: "Job", zone: str) -> str | None:
    totals = job.totals
    if totals is None or totals.last_run_at is None:
        return None
    return f"{totals.last_state}, {_at(totals.last_run_at, zone)}"


def _local(upcoming: "Upcoming | None") -> str:
    if upcoming is None:
        return ""
    shifted = "  (this hour is left out there)" if upcoming.shifted else ""
    return f"{upcoming.local.replace('T', ' ')} {upcoming.zone_abbreviation}{shifted}"


def _spread(average: float | None, p95: float | None, longest: float | None) -> str | None:
    if average is None:
        return None
    return f"{milliseconds(average)} on average, 95 % within {milliseconds(p95)}, {milliseconds(longest)} at most"
