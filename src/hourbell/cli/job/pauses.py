"""Whose a pause is: somebody's, who may take it back, or that of the job's own definition, which switched it off."""

from typing import TYPE_CHECKING

from hourbell.cli.shared.output import plain
from hourbell.cli.shared.times import shown

if TYPE_CHECKING:
    from hourbell.client import Job, Paused


def owner_of(job: "Job") -> str:
    """Who defines the job, as in `file:billing`."""
    return f"{job.managed_by}:{job.source}".removesuffix(":")


def is_by_definition(job: "Job") -> bool:
    """Whether the job is switched off where it is defined: by its file, its program, or whoever made it so."""
    if job.paused is None:
        return False
    return job.paused.by is None or (job.managed_by != "api" and job.paused.by == owner_of(job))


def pause_words(paused: "Paused", zone: str = "UTC") -> str:
    """A pause in one line: by whom, until when, and why."""
    by = f" by {paused.by}" if paused.by else ""
    until = f" until {shown(paused.until, zone)} {zone}" if paused.until else ""
    return plain(f"paused{by}{until}{f': {paused.note}' if paused.note else ''}")
