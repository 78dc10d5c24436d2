"""Outages: spans in which no node ran, or in which the database was unreachable of a node."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

MIN_DATABASE_OUTAGE = timedelta(seconds=10)


class OutageOf(StrEnum):
    NODES = "nodes"  # no node sent a heartbeat
    DATABASE = "database"  # a node could not reach the database


@dataclass(frozen=True, slots=True)
class Outage:
    of: OutageOf
    start: datetime
    until: datetime
    found_by: UUID  # the node that recorded it first


def outage_of_nodes(last_beat: datetime | None, now: datetime, live_for: timedelta, node: UUID) -> Outage | None:
    """Return the outage that ends with the start of a node; None if another node counts as live, or none ever ran."""
    if last_beat is None or now - last_beat <= live_for:
        return None
    return Outage(OutageOf.NODES, last_beat, now, node)


def merge_outages(new: Outage, known: Iterable[Outage]) -> Outage:
    """Return one outage that covers the new one and the known ones, which overlap it."""
    every = sorted([*known, new], key=lambda each: each.start)
    return replace(every[0], until=max(each.until for each in every))
