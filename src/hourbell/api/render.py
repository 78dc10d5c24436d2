"""Serialization of answers: only this module turns views into JSON values.

`answer` reads each field of an answer from the attribute of the same name, so this module lists only fields that have
another name or are computed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from types import NoneType
from typing import Any, get_args, get_origin
from uuid import UUID

from hourbell.answers import jobs, runs, server, times
from hourbell.answers import timeline as timelines
from hourbell.answers.base import Answer, answer_fields
from hourbell.control.history import late_success
from hourbell.control.jobs import Intended
from hourbell.control.ledger import Days, LedgerItem, Recent, Series
from hourbell.control.stats import Summary
from hourbell.control.timeline import Pulse, Timeline, TimelineItem
from hourbell.control.values import (
    AttemptView,
    AuditRow,
    JobTotals,
    JobView,
    NodeView,
    Overview,
    RunTime,
    RunView,
    SecretRow,
    TimelineRun,
    VersionView,
)
from hourbell.core.job.body import job_to_body
from hourbell.core.job.definition import Definition
from hourbell.core.job.same import same_definition
from hourbell.core.run.fates import lateness
from hourbell.core.run.outages import Outage
from hourbell.core.run.run import trigger_of
from hourbell.core.schedule import ScheduleError, ScheduleWarning
from hourbell.core.schedule.preview import Upcoming, rfc3339

Json = dict[str, Any]
API = "/api/v1"
_MILLISECOND = timedelta(milliseconds=1)


def answer(kind: Any, source: object = None, /, **given: Any) -> Json:
    """Serialize an answer: fields in `given` are used as they are, all others are read from the source's attributes.

    Extra fields, which only some answers of this kind have, are included only if given.
    """
    return _renderer(kind, tuple(given))(source, given)


@cache
def _renderer(kind: Any, given: tuple[str, ...]) -> Callable[[object, Json], Json]:
    """Compile the function that renders this kind of answer: a loop over its fields would be slower."""
    found = [each for each in answer_fields(kind) if not each.doc.is_extra or each.name in given]
    fields, keys = {each.name: each.type for each in found}, {each.name: each.key for each in found}
    if unknown := set(given) - set(fields):
        raise TypeError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    writers = {f"write_{name}": write for name, hint in fields.items() if (write := _writer(hint)) is not None}
    items = []
    for name in fields:
        if name in given:
            value = f"given[{name!r}]"
        elif f"write_{name}" in writers:
            value = f"None if (value := source.{name}) is None else write_{name}(value)"
        else:
            value = f"source.{name}"
        items.append(f"{keys[name]!r}: {value}")
    made: Callable[[object, Json], Json] = eval(f"lambda source, given: {{{', '.join(items)}}}", writers)
    return made


def _writer(hint: Any) -> Callable[[Any], Any] | None:
    """Return the function that serializes a value of this type, or None if the value is JSON already."""
    origin, parts = get_origin(hint), [part for part in get_args(hint) if part is not NoneType]
    if hint is datetime:
        return rfc3339
    if hint is UUID:
        return str
    if isinstance(hint, type) and issubclass(hint, Answer):
        return partial(answer, hint)
    if origin is Mapping:
        return dict
    if origin is tuple:
        write = _writer(parts[0])
        return list if write is None else lambda values: [write(value) for value in values]
    return _writer(parts[0]) if len(parts) == 1 else None


def time(instant: datetime | None) -> str | None:
    return None if instant is None else rfc3339(instant)


def job(view: JobView, **extra: Any) -> Json:
    """Serialize a job. Written out for speed, as lists have many jobs: `answer` would take a fifth longer."""
    stored, definition = view.job, view.job.definition
    return {
        "id": str(stored.id),
        **job_to_body(definition),
        "version": stored.version,
        "state": view.state.value,
        "error": stored.error,
        "paused": _paused(view),
        "managed_by": definition.managed_by,
        "source": definition.source,
        "next_at": time(stored.next_at),
        "words": _schedule_text(definition),
        "totals": totals(view.totals),
        "created_at": time(view.created_at),
        "updated_at": time(view.updated_at),
        **extra,
    }


def listed_job(view: JobView, rows: Iterable[SecretRow] | None = None, recent: Recent | None = None) -> Json:
    """Serialize a job of a list, with its secrets if `rows` are given, and its newest times if `recent` is."""
    item = job(view) if rows is None else job_with_secrets(view, rows)
    if recent is not None:
        item |= recent_times(recent)
    return mark_omitted(item, view.omitted, f"{API}/jobs/{view.job.id}") if view.omitted else item


def mark_omitted(item: Json, omitted: Sequence[str], url: str) -> Json:
    """Add the names of the long values that a list item omits, and the URL that shows them."""
    return {**item, "omitted": [{"field": field, "url": url} for field in omitted]}


def recent_times(recent: Recent) -> Json:
    """Serialize what a job gets if its newest times are asked for."""
    items = [
        answer(
            times.RecentTime,
            each,
            lateness_ms=_in_milliseconds(each.lateness),
            duration_ms=_in_milliseconds(each.duration),
        )
        for each in recent.times
    ]
    return {
        "recent": items,
        "median_duration_ms": recent.median_duration_ms,
        "p95_duration_ms": recent.p95_duration_ms,
        "streak": recent.streak,
    }


def days(found: Days) -> Json:
    items = [answer(times.Day, day, date=day.date.isoformat()) for day in found.items]
    return answer(times.Days, found, items=items, counted_from=found.counted_from.isoformat())


def series(found: Series) -> Json:
    items = [
        answer(
            times.SeriesPoint,
            run,
            run_id=str(run.id),
            at=time(run.scheduled_at),
            lateness_ms=_in_milliseconds(run.lateness),
            duration_ms=_in_milliseconds(run.duration),
        )
        for run in found.runs
    ]
    return answer(times.Series, found, items=items)


def _paused(view: JobView) -> Json | None:
    if view.job.definition.enabled:
        return None
    return {"note": view.paused_note, "by": view.paused_by, "until": time(view.job.paused_until)}


def _schedule_text(definition: Definition) -> str | None:
    try:
        return definition.parsed().describe()
    except ScheduleError:
        return None


_render_totals = _renderer(jobs.Totals, ("success_rate_percent",))  # looked up once, because every job has totals


def totals(found: JobTotals) -> Json:
    ended = found.succeeded + found.failed
    rate = round(100 * found.succeeded / ended, 1) if ended else None
    return _render_totals(found, {"success_rate_percent": rate})


def job_with_secrets(view: JobView, rows: Iterable[SecretRow]) -> Json:
    return job(view, secrets=[answer(jobs.StoredSecret, row) for row in rows])


def intention(intended: Intended, before: Sequence[Upcoming], after: Sequence[Upcoming], warned: list[Json]) -> Json:
    if intended.before is None:
        action = "create"
    else:
        action = "none" if same_definition(intended.before, intended.after) else "change"
    return answer(
        jobs.Intention,
        dry_run=True,
        action=action,
        job=job_to_body(intended.after),
        before=[each.as_json() for each in before],
        after=[each.as_json() for each in after],
        fires_now=False,
        warnings=warned,
    )


def warnings(found: Iterable[ScheduleWarning]) -> list[Json]:
    return [answer(jobs.Warned, each, at=[rfc3339(at) for at in each.instants]) for each in found]


def run(view: RunView, waits_for: str | None = None, **extra: Any) -> Json:
    definition = view.definition
    return answer(
        runs.Run,
        view,
        trigger=view.kind.value if definition is None else trigger_of(view, definition),
        waits_for=waits_for,
        local_at=view.local_at.isoformat(),
        node=None if view.lease_owner is None else str(view.lease_owner),
        lateness_ms=_in_milliseconds(lateness(view.kind, view.scheduled_at, view.ready_at, view.started_at)),
        duration_ms=_milliseconds(view.started_at, view.finished_at),
        cancel_requested=view.is_cancel_requested,
        payload=view.payload if view.has_payload or definition is None else definition.payload,
        **extra,
    )


def run_with_attempts(view: RunView, attempts: Iterable[AttemptView], waits_for: str | None) -> Json:
    made = list(attempts)
    return run(
        view,
        waits_for,
        late_success=late_success(view, made),
        log=[answer(runs.LogLine, line) for line in view.log],
        attempts=[
            answer(runs.Attempt, each, duration_ms=_milliseconds(each.started_at, each.finished_at)) for each in made
        ],
    )


def listed_run(view: RunView, waits_for: str | None = None) -> Json:
    item = run(view, waits_for)
    return mark_omitted(item, view.omitted, f"{API}/runs/{view.id}") if view.omitted else item


def _milliseconds(start: datetime | None, end: datetime | None) -> float | None:
    if start is None or end is None:
        return None
    return (end - start) / _MILLISECOND


def _in_milliseconds(span: timedelta | None) -> float | None:
    return None if span is None else span / _MILLISECOND


def ledger_item(item: LedgerItem) -> Json:
    return answer(
        times.LedgerItem,
        item,
        local=item.local.isoformat(timespec="seconds"),
        run=None if item.run is None else _run_of_time(item.run),
        skip=None if item.skip is None else answer(times.SkipOfTime, item.skip),
    )


def _run_of_time(run: RunTime) -> Json:
    return answer(
        times.RunOfTime, run, lateness_ms=_in_milliseconds(run.lateness), duration_ms=_in_milliseconds(run.duration)
    )


def version(view: VersionView) -> Json:
    return answer(jobs.Version, view, definition=job_to_body(view.definition))


def listed_version(view: VersionView, job_ref: str) -> Json:
    item = version(view)
    return mark_omitted(item, view.omitted, f"{API}/jobs/{job_ref}/versions/{view.version}") if view.omitted else item


def stats(view: JobView, summary: Summary, since: datetime, *, is_sampled: bool) -> Json:
    return answer(
        jobs.Stats,
        summary,
        job=view.job.definition.name,
        since=time(since),
        is_sampled=is_sampled,
        totals=totals(view.totals),
    )


def overview(found: Overview, pulse: Pulse, **extra: Any) -> Json:
    counts = pulse.counts
    return answer(
        server.Overview,
        found,
        now=time(pulse.now),
        failing=counts.failing,
        retrying=counts.retrying,
        losing=counts.losing,
        late=counts.late,
        due_within_hour=counts.due_within_hour,
        at_least=list(counts.at_least),
        lag_ms=pulse.lag / _MILLISECOND,
        nodes=pulse.nodes,
        **extra,
    )


def node(view: NodeView, *, is_stale: bool) -> Json:
    return answer(server.Node, view, stale=is_stale)


def audit(row: AuditRow) -> Json:
    return answer(server.AuditEntry, row)


def listed_audit(row: AuditRow) -> Json:
    item = audit(row)
    return mark_omitted(item, row.omitted, f"{API}/audit/{row.id}") if row.omitted else item


def outage(found: Outage) -> Json:
    return answer(timelines.Outage, found, found_by=str(found.found_by))


def timeline(found: Timeline) -> Json:
    window = found.window
    return answer(
        timelines.Timeline,
        now=time(found.now),
        start=time(window.start),
        until=time(window.end),
        bucket_seconds=window.bucket.total_seconds(),
        items=[_timeline_item(each) for each in found.page.items],
        outages=[answer(timelines.Outage, each) for each in found.outages],
        next_cursor=found.page.next_cursor,
    )


def _timeline_item(item: TimelineItem) -> Json:
    return {
        "job": _timeline_job(item),
        "runs": [_timeline_run(run, is_late=item.is_late(run)) for run in item.runs],
        "skips": [_render_timeline_skip(skip, {}) for skip in item.skips],
        "planned": [rfc3339(at) for at in item.planned],
        "buckets": None if item.buckets is None else [_render_timeline_bucket(each, {}) for each in item.buckets],
        "is_sampled": item.is_sampled,
    }


_render_timeline_skip = _renderer(timelines.TimelineSkip, ())
_render_timeline_bucket = _renderer(timelines.TimelineBucket, ())


def _timeline_job(item: TimelineItem) -> Json:
    view, definition, median = item.view, item.view.job.definition, item.median_duration
    paused = _paused(view)
    return answer(
        timelines.TimelineJob,
        definition,
        id=str(view.job.id),
        words=_schedule_text(definition),
        state=view.state.value,
        next_at=time(view.job.next_at),
        paused=None if paused is None else {**paused, "since": time(item.facts.paused_at)},
        last_state=item.facts.last_state,
        attention=None if item.attention is None else item.attention.value,
        attention_note=item.attention_note,
        streak=item.streak,
        retry=None if item.retry is None else answer(timelines.TimelineRetry, item.retry),
        median_duration_ms=None if median is None else median / _MILLISECOND,
    )


def _timeline_run(run: TimelineRun, *, is_late: bool) -> Json:
    """Serialize a run of the time line. Written out for speed, as a page has thousands."""
    return {
        "id": str(run.id),
        "kind": run.kind.value,
        "state": run.state.value,
        "reason": run.reason,
        "scheduled_at": rfc3339(run.scheduled_at),
        "started_at": time(run.started_at),
        "finished_at": time(run.finished_at),
        "attempt": run.attempt,
        "lateness_ms": _in_milliseconds(lateness(run.kind, run.scheduled_at, run.ready_at, run.started_at)),
        "duration_ms": _milliseconds(run.started_at, run.finished_at),
        "is_late": is_late,
        "error": run.error,
    }
