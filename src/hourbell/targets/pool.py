"""Limited resources that attempts in several lanes share, such as the threads of a node."""

import logging
from collections import Counter
from collections.abc import Hashable

log = logging.getLogger("hourbell.targets")


class Pool:
    """A pool of `size` units. An attempt takes a unit before it starts and releases it when all of its work has ended.

    For all lanes of a pool together, the runner claims no more runs than there are free units, so `enter` finds one.
    It never waits: an attempt that finds no free unit is handed back. An attempt that still runs after its timeout is
    overdue and holds its unit. The pool is exhausted while overdue attempts hold every unit.
    """

    def __init__(self, name: str, size: int, *, stop_seconds: float = 0.0) -> None:
        """`stop_seconds` is how long its attempts may take to end after they were interrupted, if that is long."""
        self.name = name
        self.size = size
        self.stop_seconds = stop_seconds
        self.taken = 0
        self._overdue: dict[Hashable, str] = {}

    def enter(self) -> bool:
        """Take a unit. Return False if none is free."""
        if self.taken >= self.size:
            return False
        self.taken += 1
        return True

    def leave(self, user: Hashable) -> None:
        """Release the unit of a user, and log the recovery of an exhausted pool."""
        self.taken -= 1
        if self._overdue and user in self._overdue:
            was_exhausted = self.is_exhausted
            name = self._overdue.pop(user)
            if was_exhausted:
                facts = {"pool": self.name, "task": name, "overdue": len(self._overdue), "size": self.size}
                log.warning("pool_recovered", extra=facts)

    def mark_overdue(self, user: Hashable, name: str) -> None:
        """Record that a user of this name still holds its unit after its timeout."""
        self._overdue[user] = name
        if self.is_exhausted:
            tasks = ", ".join(f"{name} ({count})" for name, count in self.overdue.most_common())
            hint = "functions past their timeout hold every slot of the pool; restart the node"
            log.error("pool_exhausted", extra={"pool": self.name, "size": self.size, "tasks": tasks, "hint": hint})

    @property
    def overdue(self) -> Counter[str]:
        """The number of overdue users by name."""
        return Counter(self._overdue.values())

    @property
    def is_exhausted(self) -> bool:
        return len(self._overdue) >= self.size
