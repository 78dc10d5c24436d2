"""Changes of many jobs at once: the requests to a store, and its answers.

An import handles each job by itself; a bundle has all jobs of one owner and is applied as a whole or not at all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.secret_headers import OriginChange
from hourbell.core.values.field_errors import FieldError
from hourbell.sealing import Sealed
from hourbell.store.alerts.bundle import AlertBundle, AppliedAlerts

APP = "app"  # managed_by of jobs that a program creates at run time
STAY = OriginChange()  # a job with secret headers keeps its origin


def any_job(definition: Definition) -> bool:
    """Allow changes to every job."""
    del definition
    return True


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of a user over existing jobs: which to change, and whether to give up secret headers."""

    may_change: Callable[[Definition], bool] = any_job
    moving: OriginChange = STAY


MAY_CHANGE_ALL = Rights()
NO_ALERTS = AppliedAlerts()


@dataclass(frozen=True, slots=True)
class JobEntry:
    """A job to import, with the id it gets if it is new, and the fields of the secrets that come with it.

    With `run_on_create`, a bundle also adds a run that is ready now if the job is new.
    """

    definition: Definition
    job_id: UUID
    secret_fields: frozenset[str] = frozenset()
    run_on_create: bool = False


class Imported(StrEnum):
    """The result of importing one job."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ImportResult:
    name: str
    result: Imported
    job_id: UUID | None = None  # None if the job was refused
    version: int | None = None
    code: str | None = None  # machine-readable reason for the refusal
    message: str | None = None
    owner: str | None = None  # the current owner, if that is why the job was refused
    errors: tuple[FieldError, ...] = ()  # the validation errors, if those are why; pointers begin at the job


@dataclass(frozen=True, slots=True)
class Bundle:
    """The jobs of one owner, applied together. The definitions already name the owner.

    With `prune`, jobs of the owner that are not in the bundle are deleted. With `keep`, existing jobs of the owner stay
    as they are. With `take_over`, jobs with these names that others own become the owner's. With `heard_since`, so do
    jobs of other programs that are defined by no node with a heartbeat since then. `alerts` has the channels and alert
    policies of the owner, for which the same holds; None leaves all of them alone. With
    `any_policy`, jobs may name alert policies that do not exist, which the answer lists.
    """

    entries: Sequence[JobEntry]
    managed_by: str
    source: str
    prune: bool = False
    take_over: bool = False
    heard_since: datetime | None = None
    keep: bool = False
    alerts: AlertBundle | None = None
    any_policy: bool = False

    @property
    def owner(self) -> str:
        return owner_text(self.managed_by, self.source)

    @property
    def names(self) -> list[str]:
        return [entry.definition.name for entry in self.entries]


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A secret that replaces the earlier ones of the same job and field.

    Those stay valid until `old_until` at the latest, or until `waiting_until` if they are bound to another origin,
    because runs that still go there need them.
    """

    sealed: Sealed
    old_until: datetime
    waiting_until: datetime


@dataclass(frozen=True, slots=True)
class AppliedJob:
    """The result for one job, real or in a dry run. `before` is None for a new job, `after` for one that is refused."""

    result: ImportResult
    before: Job | None = None
    after: Job | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of applying a bundle. `state` identifies all rows that were read: it changes if any of them does."""

    jobs: tuple[AppliedJob, ...]  # in the order of the bundle
    undefined: tuple[Job, ...]
    state: str
    alerts: AppliedAlerts = NO_ALERTS
    unknown_policies: frozenset[str] = frozenset()

    @property
    def refused(self) -> dict[int, ImportResult]:
        """The refused jobs, by their index in the bundle. If there are any, nothing was changed."""
        return {position: job.result for position, job in enumerate(self.jobs) if job.result.result is Imported.REFUSED}


def owner_text(managed_by: str, source: str) -> str:
    """Format the owner of a job for display, such as `file:billing`."""
    return f"{managed_by}:{source}".removesuffix(":")
