"""How long this node may trust the leases it holds.

A lease is trusted until the moment its last renewal was asked for, plus its length, less a margin. Past that, another
node may have the run, and nothing may start. Elapsed seconds count while the machine sleeps.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta

from hourbell.store.base import LIVE_FOR, Held

MARGIN = 5 / 60  # of the lease


class Leases:
    def __init__(self, duration: timedelta, elapsed: Callable[[], float]) -> None:
        self.duration = duration
        self._elapsed = elapsed
        self._until: dict[Held, float] = {}
        self._renewed_until = float("-inf")

    @property
    def live_for(self) -> timedelta:
        """How long after its last heartbeat a node counts as alive; every node is taken to have the same lease."""
        return max(LIVE_FOR, self.duration)

    @property
    def is_renewing(self) -> bool:
        """Whether the heartbeat is well: without it nothing new may be claimed."""
        return self._elapsed() < self._renewed_until

    def trust_from_now(self) -> float:
        """Until when a lease asked for at this moment can be trusted."""
        return self._elapsed() + self.duration.total_seconds() * (1 - MARGIN)

    def note(self, held: Held, trusted_until: float) -> None:
        self._until[held] = trusted_until

    def renewed(self, renewed: Iterable[Held], trusted_until: float) -> None:
        """The heartbeat renewed these."""
        self._renewed_until = trusted_until
        for held in renewed:
            if held in self._until:
                self._until[held] = max(self._until[held], trusted_until)

    def is_trusted(self, held: Held) -> bool:
        return self._elapsed() < self._until.get(held, float("-inf"))

    def forget(self, held: Held) -> None:
        self._until.pop(held, None)
