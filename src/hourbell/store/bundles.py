"""Many jobs at once: what is asked of a store, and what it answers.

An import takes each job by itself; a bundle has all jobs of one owner, and is brought in as a whole or not at all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.secret_headers import OriginChange
from hourbell.sealing import Sealed

STAY = OriginChange()  # a job with secret headers keeps its origin


def any_job(definition: Definition) -> bool:
    """Allow to change every job."""
    del definition
    return True


@dataclass(frozen=True, slots=True)
class Rights:
    """Rights of a user over existing jobs: which to change, and whether secret headers may be left behind."""

    may_change: Callable[[Definition], bool] = any_job
    moving: OriginChange = STAY


MAY_CHANGE_ALL = Rights()


@dataclass(frozen=True, slots=True)
class JobEntry:
    """A job to import, with the id it gets if it is new, and the fields of the secrets that come with it."""

    definition: Definition
    job_id: UUID
    secret_fields: frozenset[str] = frozenset()


class Imported(StrEnum):
    """What an import did with a job."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ImportResult:
    name: str
    result: Imported
    job_id: UUID | None = None  # None if it was refused
    version: int | None = None
    code: str | None = None  # why it was refused, for programs
    message: str | None = None
    owner: str | None = None  # who has it, if it was refused for that


@dataclass(frozen=True, slots=True)
class Bundle:
    """The definitions have the owner already.

    With `prune`, jobs of the owner that are not in it are deleted. With `take_over`, jobs of these names that others
    own become its own. With `heard_since`, so do those of other programs that no node defines which was heard of
    since then.
    """

    entries: Sequence[JobEntry]
    managed_by: str
    source: str
    prune: bool = False
    take_over: bool = False
    heard_since: datetime | None = None

    @property
    def owner(self) -> str:
        return owner_text(self.managed_by, self.source)

    @property
    def names(self) -> list[str]:
        return [entry.definition.name for entry in self.entries]


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A secret that takes the place of others of its job and field.

    Those are valid until `old_until` at the longest, or until `waiting_until` if they are bound to another origin: runs
    that still go there wait for them.
    """

    sealed: Sealed
    old_until: datetime
    waiting_until: datetime


@dataclass(frozen=True, slots=True)
class AppliedJob:
    """What became of a job, or would. `before` is None for one that is new, `after` for one that is refused."""

    result: ImportResult
    before: Job | None = None
    after: Job | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """`state` stands for everything that was looked at: it is the same as long as nobody changes any of it."""

    jobs: tuple[AppliedJob, ...]  # in the order of the bundle
    gone: tuple[Job, ...]
    state: str

    @property
    def refused(self) -> dict[int, ImportResult]:
        """What was refused, by its place in the bundle. If there is anything, nothing was changed."""
        return {place: job.result for place, job in enumerate(self.jobs) if job.result.result is Imported.REFUSED}


def owner_text(managed_by: str, source: str) -> str:
    """Whose a job is, for people: `file:billing`."""
    return f"{managed_by}:{source}".removesuffix(":")
