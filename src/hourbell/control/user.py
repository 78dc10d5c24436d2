"""The user of an operation: the name for the audit, the role, the request, and the owner of the jobs that it makes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from hourbell.core.access.roles import Role
from hourbell.core.job.definition import Definition
from hourbell.core.job.secret_headers import OriginChange
from hourbell.core.job.target import HttpCall, TargetCall, TargetError, parse_target
from hourbell.store.control.actor import Actor, Request
from hourbell.store.control.bundles import Rights
from hourbell.store.errors import AlreadyAsked

API = "api"


class NotAllowed(Exception):
    """An operation that the role of the user does not allow; `needed` is the required role."""

    def __init__(self, needed: Role, what: str) -> None:
        super().__init__(f"{what} needs the role {needed}")
        self.needed = needed


def admit_all(count: int) -> None:
    """Admit a bulk action on any number of jobs or runs: the default of `admit`, which may raise."""


@dataclass(frozen=True, slots=True)
class JobOwner:
    """The owner that jobs get if a user creates them."""

    managed_by: str = API
    source: str = ""

    def owns(self, definition: Definition) -> bool:
        """Return True if the user may change a job without taking it over. The API's jobs have one owner."""
        if definition.managed_by != self.managed_by:
            return False
        return self.managed_by == API or definition.source == self.source


_OF_API = JobOwner()


@dataclass(frozen=True, slots=True)
class User:
    name: str
    role: Role
    request: Request = field(default_factory=Request)
    owner: JobOwner = _OF_API

    def actor(self, now: datetime) -> Actor:
        """Return the user as the actor of a change at that time."""
        return Actor(self.name, now, self.request)

    def rights(self, *, drop_secrets: bool) -> Rights:
        """Return the user's rights over existing jobs."""
        return Rights(self.may_change, OriginChange(self.role.may(Role.ADMIN), drop_secrets))

    @contextmanager
    def acting_once(self) -> Iterator[None]:
        """Suppress AlreadyAsked if this call repeats a known one, so that its result is returned again."""
        try:
            yield
        except AlreadyAsked:
            if not self.request.is_known:
                raise

    def must_be(self, needed: Role, what: str) -> None:
        """Raise NotAllowed if the role is not enough."""
        if not self.role.may(needed):
            raise NotAllowed(needed, what)

    def may_define(self, call: TargetCall) -> None:
        """Raise NotAllowed unless the user may create, change or delete jobs with this target."""
        if isinstance(call, HttpCall):
            self.must_be(Role.EDITOR, "to define a job")
        else:
            self.must_be(Role.ADMIN, "to define a job whose target is not http")

    def may_change(self, definition: Definition) -> bool:
        """Return True if the user may change or delete a job. Any editor may repair a job with an invalid target."""
        try:
            self.may_define(parse_target(definition.target))
        except TargetError:
            return self.role.may(Role.EDITOR)
        except NotAllowed:
            return False
        return True
