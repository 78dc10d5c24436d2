"""Errors of a store: the database is out of reach, or a change was refused. Losing a race is no error."""


class StoreUnavailable(Exception):
    """The database cannot be reached, or closed the connection."""


class StoreReadOnly(StoreUnavailable):
    """The database answers and refuses to write: why, and what to do."""

    def __init__(self, why: str, advice: str) -> None:
        super().__init__(f"the database is read-only: {why}; {advice}")
        self.why = why
        self.advice = advice


class StoreUnwritable(StoreUnavailable):
    """The database takes no writes; `reason` says why, for people: its disk is full, or this user may not write it."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.reason = reason


class StoreLost(StoreUnwritable):
    """The database was deleted or replaced under this process, which cannot use it any more and has to be restarted."""


class FunctionsOutOfReach(StoreUnavailable):
    """The database cannot be reached by the login that functions have for themselves."""


class FunctionLoginRefused(Exception):
    """The login that functions have for themselves is of no use; the message says why and what to do."""


class Conflict(Exception):
    """The change was refused; `code` says why, for programs."""

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


class ChainExtended(Exception):
    """Another node has extended the audit chain since it was read."""


class AlreadyAsked(Exception):
    """A change was asked for under a key that a committed change has: it acted, and does not act again."""
