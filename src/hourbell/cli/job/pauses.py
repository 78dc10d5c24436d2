"""Origin of a pause: made by a person, who can resume the job, or by the definition, which disabled it."""

from typing import TYPE_CHECKING

from hourbell.cli.shared.output import plain
from hourbell.cli.shared.times import shown

if TYPE_CHECKING:
    from hourbell.client import Job, Paused


def owner_of(job: "Job") -> str:
    """Return the owner of the job, as in `file:billing`."""
    return f"{job.managed_by}:{job.source}".removesuffix(":")


def is_by_definition(job: "Job") -> bool:
    """Return whether the job is disabled by its own definition: its file, its program or its creator."""
    if job.paused is None:
        return False
    return job.paused.by is None or (job.managed_by != "api" and job.paused.by == owner_of(job))


def describe_pause(paused: "Paused", zone: str = "UTC") -> str:
    """Format a pause as one line: by whom, until when, and why."""
    by = f" by {paused.by}" if paused.by else ""
    until = f" until {shown(paused.until, zone)} {zone}" if paused.until else ""
    return plain(f"paused{by}{until}{f': {paused.note}' if paused.note else ''}")
