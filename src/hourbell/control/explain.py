"""Explanations of one scheduled time of a job, in one sentence for people and as data.

The run of the time takes precedence, then a skip that covers it. Without either, the reason follows from the
job's lifetime, schedule and cursor.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, assert_never

from hourbell.core.job.definition import Definition
from hourbell.core.run.outages import OutageOf
from hourbell.core.run.plan import first_instant
from hourbell.core.run.states import Kind, Reason, RunState, SkipReason
from hourbell.core.schedule import Schedule, ScheduleError, zone_names
from hourbell.core.schedule.preview import format_offset, rfc3339
from hourbell.core.schedule.zones import local_time_at
from hourbell.core.values.readers import describe_duration, show_duration
from hourbell.store.lists.query import InstantFacts, RunView, SkipView

Json = dict[str, Any]
_MICROSECOND = timedelta(microseconds=1)


class Verdict(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RUNNING = "running"
    WAITING = "waiting"
    SKIPPED = "skipped"
    NOT_AN_INSTANT = "not_an_instant"
    NOT_DUE_YET = "not_due_yet"
    NOT_PLANNED_YET = "not_planned_yet"
    BEFORE_THE_JOB = "before_the_job"
    DELETED = "deleted"
    PAUSED = "paused"
    IN_ERROR = "in_error"
    PRUNED = "pruned"  # if it had a run, the retention removed it
    NO_RECORD = "no_record"  # neither run nor skip, though the schedule names it


@dataclass(frozen=True, slots=True)
class Explanation:
    verdict: Verdict
    sentence: str
    data: Json


_FAILURES = {
    Reason.PERMANENT: "the target returned a permanent error",
    Reason.EXHAUSTED: "all attempts failed",
    Reason.EXPIRED: "it exceeded the job's max_age before it succeeded",
    Reason.POISON: "its nodes died while they ran it",
    Reason.LOST: "it may happen at most once, and it is unknown whether it did",
}
_SKIPS = {
    SkipReason.MISSED: "no node planned it in time, and catch_up is {catch_up}",
    SkipReason.OVERLAP: "an earlier run had not ended, and overlap is {overlap}",
    SkipReason.PAUSED: "the job was paused",
    SkipReason.EDITED: "the job was changed before it was planned",
    SkipReason.WINDOW: "it was missed for longer than catch_up_window, which is {window}",
    SkipReason.TZDATA: "new time-zone data moved it, and its local time had been served",
}


_OUTAGES = {
    OutageOf.NODES: "no node was running",
    OutageOf.DATABASE: "the database was unreachable",
}
_NEVER_DUE = (Verdict.NOT_AN_INSTANT, Verdict.NOT_DUE_YET)  # no outage matters to them


def explain(facts: InstantFacts, at: datetime, now: datetime) -> Explanation:
    """Explain what happened, or will happen, at the time."""
    return _Case(facts, at, now).explanation()


class _Case:
    """One time to explain, with the facts about it."""

    def __init__(self, facts: InstantFacts, at: datetime, now: datetime) -> None:
        self.facts = facts
        self.view = facts.job
        self.job = facts.job.job
        self.at = at.astimezone(UTC)
        self.now = now
        self.definition = self.job.definition if facts.version is None else facts.version.definition
        self.schedule, self.error = _parsed(self.definition)
        self.data = self._facts()

    def explanation(self) -> Explanation:
        """Explain by the first fact that applies: the run, the skip, the job's lifetime, its schedule, its cursor."""
        if self.facts.run is not None:
            return self._of_run(self.facts.run)
        is_instant = _names(self.definition, self.at)
        skip = self._skip()
        if skip is not None and (is_instant or self.at in (skip.first_at, skip.last_at)):
            return self._of_skip(skip)
        is_before = (
            self.at < self.view.created_at and self.facts.version is None
        )  # SQL may insert any `created_at`: a stored version proves it wrong
        if is_before and (is_instant or self.schedule is None):
            return self._before_the_job(f"the job was created at {self._when(self.view.created_at)}")
        if self.view.deleted_at is not None and self._is_beyond_the_cursor:
            return self._say(Verdict.DELETED, f"never runs: the job was deleted at {self._when(self.view.deleted_at)}")
        if self._is_beyond_the_cursor and self.job.error is not None and _parsed(self.job.definition)[0] is None:
            return self._in_error(self.job.error)
        if self.schedule is None:
            return self._was_in_error() if self._was_changed_since else self._in_error(self.job.error or self.error)
        if not is_instant:
            return self._not_an_instant(self.schedule)
        return self._without_record()

    def _without_record(self) -> Explanation:
        """Explain a time of the schedule that has neither a run nor a skip."""
        if self._is_beyond_the_cursor:
            return self._still_to_plan()
        if self.facts.version is None:
            return self._before_the_job("the job was adopted only later")
        if not self.definition.enabled:
            return self._say(Verdict.PAUSED, f"got no run: the job was paused then{self._backfill()}")
        pruned_until = self.view.pruned_until
        if pruned_until is not None and self.at <= pruned_until:
            kept = f"runs up to {self._when(pruned_until)} were pruned, possibly including this one"
            return self._say(Verdict.PRUNED, f"has no run on record: {kept}")
        return self._say(Verdict.NO_RECORD, f"has neither a run nor a skip on record{self._backfill()}")

    @property
    def _is_beyond_the_cursor(self) -> bool:
        return self.job.cursor_at is None or self.at > self.job.cursor_at

    @property
    def _was_changed_since(self) -> bool:
        """True if the definition at that time is older than the current one."""
        return self.facts.version is not None and self.facts.version.version < self.job.version

    def _still_to_plan(self) -> Explanation:
        if self.job.has_changes and self._was_changed_since:
            if not self.definition.enabled:
                return self._say(Verdict.PAUSED, "gets no run: the job was paused then")
            return self._not_planned_yet()
        if self.job.error is not None:
            return self._in_error(self.job.error)
        until = self.job.paused_until
        if not self.job.definition.enabled and (until is None or self.at <= until):
            return self._paused(until)
        if self.at > self.now:
            wait = show_duration(timedelta(seconds=-(-(self.at - self.now) // timedelta(seconds=1))))
            return self._say(Verdict.NOT_DUE_YET, f"is not due yet: it runs in {wait}")
        if self.job.cursor_at is None:
            return self._before_the_job("no node has adopted the job yet, and it fires only from then on")
        return self._not_planned_yet()

    def _not_planned_yet(self) -> Explanation:
        return self._say(
            Verdict.NOT_PLANNED_YET,
            "is due and not planned yet: the planner is behind, or no node runs; look at the nodes",
        )

    def _of_run(self, run: RunView) -> Explanation:
        ran = "was backfilled and " if run.kind is Kind.BACKFILL else "ran and " if run.attempt else ""
        match run.state:
            case RunState.SUCCEEDED:
                return self._say(Verdict.SUCCEEDED, f"{ran}succeeded{_timing(run)}{self._replayed()}")
            case RunState.FAILED:
                why = _FAILURES[Reason(run.reason)] if run.reason else "nobody noted why"
                totals = self.view.totals
                error = run.error or (totals.last_error if totals.last_run_id == run.id else None)
                text = f" ({_short(error)})" if error else ""
                return self._say(Verdict.FAILED, f"{ran}failed{_attempts(run)}: {why}{text}{self._what_now(run)}")
            case RunState.CANCELLED:
                advice = self._replayed() or self._unless_deleted("replay it to run it after all")
                return self._say(Verdict.CANCELLED, f"was cancelled{_attempts(run)}{advice}")
            case RunState.RUNNING:
                since = "" if run.started_at is None else f" since {self._when(run.started_at)}"
                asked = ", and is asked to stop" if run.is_cancel_requested else ""
                return self._say(Verdict.RUNNING, f"is running{since}, in attempt {run.attempt}{asked}")
            case RunState.PENDING:
                return self._say(Verdict.WAITING, f"waits {self._for_what(run)}")
            case RunState.RETRYING:
                return self._say(Verdict.WAITING, f"waits to be tried again{_attempts(run)}: {self._for_what(run)}")
            case _:
                assert_never(run.state)

    def _for_what(self, run: RunView) -> str:
        if run.ready_at > self.now:
            return f"for its time, {self._when(run.ready_at)}"
        return f"for a free node that serves {run.lane}, until {self._when(run.expires_at)}"

    def _what_now(self, run: RunView) -> str:
        late = self._late_success()
        if self.facts.replays:
            return late + self._replayed()
        if late:
            return late + self._unless_deleted("replay it only if it may happen twice")
        if run.cleared_at is not None:
            return "; it was discarded"
        return self._unless_deleted("replay it once the cause is fixed")

    def _late_success(self) -> str:
        number = self.facts.late_success
        return "" if number is None else f"; but attempt {number} succeeded: its answer came after its lease was lost"

    def _replayed(self) -> str:
        number = len(self.facts.replays)
        return "" if not number else f"; it was replayed {'once' if number == 1 else f'{number} times'}"

    def _unless_deleted(self, advice: str) -> str:
        """Return the advice, or nothing for a deleted job, which cannot run again."""
        return "" if self.view.deleted_at is not None else f"; {advice}"

    def _backfill(self) -> str:
        """Return the advice to backfill. Only times of the current schedule up to the cursor can be backfilled."""
        if self._is_beyond_the_cursor or not _names(self.job.definition, self.at):
            return ""
        return self._unless_deleted("backfill it to run it now")

    def _skip(self) -> SkipView | None:
        """Return the most specific skip: the one with the fewest times."""
        return min(self.facts.skips, key=lambda skip: skip.count, default=None)

    def _of_skip(self, skip: SkipView) -> Explanation:
        definition = self.definition
        window = definition.catch_up_window
        why = _SKIPS[skip.reason].format(
            catch_up=definition.catch_up.value,
            overlap=definition.overlap.value,
            window="none" if window is None else show_duration(window),
        )
        others = "" if skip.count == 1 else f", together with {skip.count - 1} more"
        advice = "" if skip.reason is SkipReason.TZDATA else self._backfill()
        self.data["skip"] = {
            "reason": skip.reason.value,
            "first_at": rfc3339(skip.first_at),
            "last_at": rfc3339(skip.last_at),
            "count": skip.count,
        }
        return self._say(Verdict.SKIPPED, f"was skipped{others}: {why}{advice}{self._replayed()}")

    def _before_the_job(self, why: str) -> Explanation:
        return self._say(Verdict.BEFORE_THE_JOB, f"got no run: {why}{self._backfill()}")

    def _was_in_error(self) -> Explanation:
        return self._say(Verdict.IN_ERROR, f"got no run: the job could not be planned then ({_short(self.error)})")

    def _in_error(self, error: str) -> Explanation:
        advice = self._unless_deleted("fix the job")
        return self._say(Verdict.IN_ERROR, f"does not run: the job cannot be planned ({_short(error)}){advice}")

    def _paused(self, until: datetime | None) -> Explanation:
        by = f" by {self.view.paused_by}" if self.view.paused_by else ""
        note = f" ({_short(self.view.paused_note)})" if self.view.paused_note else ""
        end = "" if until is None else f" until {self._when(until)}"
        advice = "resume the job with catch_up" if self.at <= self.now else "resume the job"
        return self._say(Verdict.PAUSED, f"does not run: the job is paused{by}{end}{note}; {advice} to have it planned")

    def _not_an_instant(self, schedule: Schedule) -> Explanation:
        before, after = _nearest(self.definition, schedule, self.at)
        self.data["previous_at"] = None if before is None else rfc3339(before)
        self.data["next_at"] = None if after is None else rfc3339(after)
        near = [
            f"the {side} one is {self._when(time)}"
            for side, time in (("previous", before), ("next", after))
            if time is not None
        ]
        text = " and ".join(near) or "there is none before or after it"
        return self._say(
            Verdict.NOT_AN_INSTANT, f"is not a scheduled time of the job ({_short(self.definition.schedule)!r}): {text}"
        )

    def _say(self, verdict: Verdict, text: str) -> Explanation:
        during = "" if verdict in _NEVER_DUE else self._during_outages()
        sentence = f"{self.job.definition.name} at {self._when(self.at)} {text}{during}."
        return Explanation(verdict, sentence, {"verdict": verdict.value, **self.data})

    def _during_outages(self) -> str:
        """Name the outages that the time fell into, each with its span."""
        return "".join(
            f"; {_OUTAGES[each.of]} from {self._when(each.start)} to {self._when(each.until)}"
            for each in self.facts.outages
        )

    def _when(self, instant: datetime) -> str:
        """Format an instant in UTC and, if the job's time zone is another one, in local time."""
        instant = instant.astimezone(UTC)
        text = f"{instant.replace(tzinfo=None).isoformat(' ', 'seconds')} UTC"
        zone = self.definition.timezone
        if zone == "UTC" or zone not in zone_names():
            return text
        wall, _, abbreviation = local_time_at(zone, instant)
        shown = wall.isoformat(" ", "seconds") if wall.date() != instant.date() else wall.time().isoformat("seconds")
        return f"{text} ({shown} {abbreviation} in {zone})"

    def _facts(self) -> Json:
        facts, run, zone = self.facts, self.facts.run, self.definition.timezone
        local = None
        if zone in zone_names():
            wall, offset, _ = local_time_at(zone, self.at)
            local = wall.isoformat() + format_offset(offset)
        return {
            "job_id": str(self.job.id),
            "job_name": self.job.definition.name,
            "at": rfc3339(self.at),
            "local": local,
            "timezone": zone,
            "schedule": self.definition.schedule,
            "job_version": None if facts.version is None else facts.version.version,
            "run": None if run is None else _run_to_json(run) | {"late_success": facts.late_success},
            "replays": [str(replay) for replay in facts.replays],
            "skip": None,
            "previous_at": None,
            "next_at": None,
            "outages": [
                {"of": each.of.value, "from": rfc3339(each.start), "until": rfc3339(each.until)}
                for each in facts.outages
            ],
        }


def _parsed(definition: Definition) -> tuple[Schedule | None, str]:
    try:
        return definition.parsed(), ""
    except ScheduleError as error:
        return None, str(error)


def _names(definition: Definition, at: datetime) -> bool:
    schedule, _ = _parsed(definition)
    return schedule is not None and first_instant(definition, schedule, at - _MICROSECOND) == at


def _nearest(definition: Definition, schedule: Schedule, at: datetime) -> tuple[datetime | None, datetime | None]:
    """Return the job's instants before and after, within its starts_at and ends_at."""
    ends_at = definition.ends_at
    before = schedule.previous(at if ends_at is None else min(at, ends_at + _MICROSECOND))
    if before is not None and definition.starts_at is not None and before < definition.starts_at:
        before = None
    return before, first_instant(definition, schedule, at)


def _timing(run: RunView) -> str:
    if run.started_at is None or run.finished_at is None:
        return ""
    late = describe_duration(run.started_at - run.scheduled_at)
    took = describe_duration(run.finished_at - run.started_at)
    if run.kind is not Kind.SCHEDULED:
        return f": it took {took}"
    return f": it began {late} after its scheduled time and took {took}"


def _attempts(run: RunView) -> str:
    if not run.attempt:
        return " without an attempt"
    return f" after {run.attempt} attempt{'s' if run.attempt > 1 else ''}"


def _run_to_json(run: RunView) -> Json:
    moments = {"ready_at": run.ready_at, "started_at": run.started_at, "finished_at": run.finished_at}
    return {
        "id": str(run.id),
        "kind": run.kind.value,
        "state": run.state.value,
        "reason": run.reason,
        "attempt": run.attempt,
        **{name: None if moment is None else rfc3339(moment) for name, moment in moments.items()},
    }


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "…"
