"""How long this node may trust the leases it holds.

A lease is trusted until the moment its last renewal was asked for, plus its length, less a margin. Past that, another
node may have the run, and nothing may start. Elapsed seconds count while the machine sleeps.
"""

from collections.abc import Callable
from datetime import timedelta

from hourbell.store.base import LIVE_FOR

MARGIN = 5 / 60  # of the lease


class Leases:
    def __init__(self, duration: timedelta, elapsed: Callable[[], float]) -> None:
        self.duration = duration
        self._elapsed = elapsed
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

    def is_trusted(self, until: float) -> bool:
        return self._elapsed() < until

    def renewed(self, trusted_until: float) -> None:
        """The heartbeat renewed what is held."""
        self._renewed_until = trusted_until
