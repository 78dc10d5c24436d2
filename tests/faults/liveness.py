"""Liveness: every due run begins in time. It is checked on the tables after a scenario.

A process is healthy from a while after it began to serve, or after a fault that hit it, until the next fault or its
stop. A run that is due must begin before healthy processes have been there for `BEGIN_SECONDS` in all; if its first
process died with it, that includes the lease, the reaper's warm-up and its interval.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.faults.fleet import LEASE, REAP, Cut, Life

SETTLED_SECONDS = LEASE + REAP  # after a start or a fault
BEGIN_SECONDS = 2.0 * (LEASE + REAP) + 4.0
Stretch = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Beginning:
    """Return when a run was due and first began, in elapsed seconds; the end of the scenario if it never did."""

    run: Mapping[str, Any]
    due_at: float
    begun_at: float


def healthy_stretches(lives: Iterable[Life], cuts: Sequence[Cut]) -> list[Stretch]:
    """The times at which at least one process was healthy, in order and without overlap."""
    stretches = sorted(stretch for life in lives for stretch in _healthy(life, cuts))
    merged: list[Stretch] = []
    for began_at, ended_at in stretches:
        if merged and began_at <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], ended_at))
        else:
            merged.append((began_at, ended_at))
    return merged


def late_beginnings(beginnings: Iterable[Beginning], healthy: Sequence[Stretch]) -> list[str]:
    """Runs that waited too long although some process was healthy."""
    found = []
    for each in beginnings:
        waited = sum(max(0.0, min(end, each.begun_at) - max(start, each.due_at)) for start, end in healthy)
        if waited > BEGIN_SECONDS:
            found.append(f"{each.run['id']} waited {waited:.1f} s beside a healthy process")
    return found


def _healthy(life: Life, cuts: Sequence[Cut]) -> Iterator[Stretch]:
    start = life.serving_at + SETTLED_SECONDS
    for cut in sorted(cuts, key=lambda cut: cut.began_at):
        if cut.member not in (None, life.member):
            continue
        if cut.began_at > start:
            yield start, min(cut.began_at, life.ended_at)
        start = max(start, cut.ended_at + SETTLED_SECONDS)
    if start < life.ended_at:
        yield start, life.ended_at
