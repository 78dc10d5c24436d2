"""A limited resource that attempts in several lanes share, such as the threads of a node."""

import logging
from collections import Counter
from collections.abc import Hashable

log = logging.getLogger("hourbell.targets")


class Pool:
    """`size` places. An attempt takes one before it begins, and gives it back when nothing of it runs any more.

    For all lanes of a pool together, the runner claims no more runs than there are free places, so `enter` finds one.
    It never waits: an attempt that finds none is handed back. An attempt that is past its time limit and still runs is
    overdue, and keeps its place. While every place is kept by an overdue attempt the pool is exhausted.
    """

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.taken = 0
        self._overdue: dict[Hashable, str] = {}

    def enter(self) -> bool:
        """Take a place. False if none is free."""
        if self.taken >= self.size:
            return False
        self.taken += 1
        return True

    def leave(self, user: Hashable) -> None:
        """Give back the place of a user."""
        self.taken -= 1
        if self._overdue and user in self._overdue:
            was_exhausted = self.is_exhausted
            name = self._overdue.pop(user)
            if was_exhausted:
                facts = {"pool": self.name, "task": name, "overdue": len(self._overdue), "size": self.size}
                log.warning("pool_recovered", extra=facts)

    def mark_overdue(self, user: Hashable, name: str) -> None:
        """Note that a user of this name keeps its place although its time is over."""
        self._overdue[user] = name
        if self.is_exhausted:
            tasks = ", ".join(f"{name} ({count})" for name, count in self.overdue.most_common())
            hint = "functions past their timeout hold every place; restart the node"
            log.error("pool_exhausted", extra={"pool": self.name, "size": self.size, "tasks": tasks, "hint": hint})

    @property
    def overdue(self) -> Counter[str]:
        """How many overdue users there are of each name."""
        return Counter(self._overdue.values())

    @property
    def is_exhausted(self) -> bool:
        return len(self._overdue) >= self.size
