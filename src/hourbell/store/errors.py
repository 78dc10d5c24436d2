"""Errors of a store: the database is unreachable, or a change was refused. Losing a race is not an error."""


class StoreUnavailable(Exception):
    """The database cannot be reached, or closed the connection."""


class StoreReadOnly(StoreUnavailable):
    """The database answers but refuses writes; the message says why and what to do."""

    def __init__(self, why: str, advice: str) -> None:
        super().__init__(f"the database is read-only: {why}; {advice}")
        self.why = why
        self.advice = advice


class StoreUnwritable(StoreUnavailable):
    """The database accepts no writes; `reason` explains why: the disk is full, or this user has no permission."""

    def __init__(self, location: str, reason: str) -> None:
        super().__init__(f"{location}: {reason}")
        self.reason = reason


class StoreLost(StoreUnwritable):
    """The database was deleted or replaced under this process, which must be restarted."""


class FunctionsOutOfReach(StoreUnavailable):
    """The database cannot be reached with the separate login for functions."""


class FunctionLoginRefused(Exception):
    """The separate login for functions is unusable; the message says why and what to do."""


class Conflict(Exception):
    """The change was refused; `code` is the machine-readable reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class NoSuchJob(Conflict):
    def __init__(self) -> None:
        super().__init__("no_such_job", "there is no such job")


class NameTaken(Conflict):
    """Another job has the name."""

    def __init__(self) -> None:
        super().__init__("name_taken", "another job has this name")


class SystemJob(Conflict):
    """Hourbell made the job for itself, for a channel's messages."""

    def __init__(self) -> None:
        super().__init__("system_job", "Hourbell made this job for itself; change its channel instead")


class ChainExtended(Exception):
    """Another node has extended the audit chain since it was read."""


class AlreadyAsked(Exception):
    """A committed change already has this idempotency key; nothing is changed again."""
