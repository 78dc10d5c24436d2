"""The reasons that a job needs attention, each in one line."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from hourbell.core.run.attention import LOSING_WITHIN
from hourbell.core.run.error_line import error_line
from hourbell.core.run.states import SkipReason
from hourbell.core.schedule.preview import rfc3339
from hourbell.core.values.readers import describe_duration


def failing_note(streak: int, error: str | None) -> str:
    """Describe the failures of a job, such as `failed 9 times in a row: HTTP 503`."""
    what = "failed" if streak <= 1 else f"failed {streak:,} times in a row"
    return what if not error else f"{what}: {error_line(error)}"


def retrying_note(failed: int, next_at: datetime | None, error: str | None) -> str:
    """Describe a run whose last attempt failed, as `attempt 1 failed, attempt 2 at 2026-11-19T08:00:00Z: HTTP 503`.

    Without a time the next attempt is running.
    """
    coming = "is running" if next_at is None else f"at {rfc3339(next_at)}"
    what = f"attempt {failed:,} failed, attempt {failed + 1:,} {coming}"
    return what if not error else f"{what}: {error_line(error)}"


def losing_note(lost: Mapping[SkipReason, int]) -> str:
    """Describe the scheduled times that a job lost, such as `skipped 3 times in 24 h: overlap 2, missed 1`."""
    total = sum(lost.values())
    reasons = sorted(lost.items(), key=lambda item: (-item[1], item[0]))
    parts = ", ".join(reason.value if len(lost) == 1 else f"{reason.value} {count:,}" for reason, count in reasons)
    return f"skipped {_times(total)} in {LOSING_WITHIN // timedelta(hours=1)} h: {parts}"


def late_note(due_at: datetime, now: datetime) -> str:
    """Describe the run that waits the longest, such as `a run has waited 12m 5s, since 2026-11-19T08:00:00Z`."""
    return f"a run has waited {describe_duration(now - due_at)}, since {rfc3339(due_at)}"


def paused_note(by: str | None, until: datetime | None, note: str | None) -> str:
    """Describe a pause, such as `paused by ops until 2026-11-19T08:00:00Z: migration`."""
    who = f" by {by}" if by else ""
    end = f" until {rfc3339(until)}" if until is not None else ""
    return f"paused{who}{end}" + (f": {note}" if note else "")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
