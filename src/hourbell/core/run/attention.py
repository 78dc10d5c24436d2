"""Attention: which jobs a person should look at first.

A job may need attention for several reasons at once. A filter asks for one of them; a list by attention puts each job
under the first that applies, in the order of `GROUPS`.
"""

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum

from hourbell.core.run.states import SkipReason


class Attention(StrEnum):
    FAILING = "failing"  # the last run to end failed
    RETRYING = "retrying"  # an attempt of a run failed, and another one follows
    LOSING = "losing"  # scheduled times were skipped within LOSING_WITHIN, and nobody asked for that
    LATE = "late"  # a run waits past the job's late_after
    PAUSED = "paused"
    DUE = "due"  # it fires within DUE_WITHIN


LOSING_WITHIN = timedelta(hours=24)
DUE_WITHIN = timedelta(hours=1)
LOST = (SkipReason.OVERLAP, SkipReason.MISSED, SkipReason.WINDOW, SkipReason.TZDATA)  # skips that nobody asked for
GROUPS: Sequence[Attention | None] = (
    Attention.FAILING,
    Attention.RETRYING,
    Attention.LOSING,
    Attention.LATE,
    Attention.PAUSED,
    None,
)


def first_reason(
    *, is_failing: bool, is_retrying: bool, is_losing: bool, is_late: bool, is_paused: bool
) -> Attention | None:
    """Return the first reason that applies."""
    applies = {
        Attention.FAILING: is_failing,
        Attention.RETRYING: is_retrying,
        Attention.LOSING: is_losing,
        Attention.LATE: is_late,
        Attention.PAUSED: is_paused,
    }
    return next((reason for reason in GROUPS if reason is not None and applies[reason]), None)
