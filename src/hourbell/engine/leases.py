"""How long this node may trust the leases it holds.

A lease is trusted until the moment its last renewal was asked for, plus its length, less a margin. Past that, another
node may have the run, and nothing may start. Elapsed seconds count while the machine sleeps.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from hourbell.store.base import LIVE_FOR

MARGIN = 5 / 60  # of the lease


class Leases:
    def __init__(self, duration: timedelta, elapsed: Callable[[], float]) -> None:
        self.duration = duration
        self._elapsed = elapsed
        self._renewed_until = float("-inf")
        self._is_claiming = False
        self._claim_asked_at: datetime | None = None  # None until the claim under way has taken the time

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

    @contextmanager
    def claiming(self, now: Callable[[], datetime]) -> Iterator[datetime]:
        """A claim, from the moment it is asked for until what it claimed is held; gives that moment.

        One at a time. The heartbeat, perhaps in another thread, must see the claim before its moment is taken.
        """
        self._is_claiming = True
        try:
            self._claim_asked_at = now()
            yield self._claim_asked_at
        finally:
            self._is_claiming, self._claim_asked_at = False, None

    def orphaned_until(self, now: datetime) -> datetime | None:
        """The end before which a lease that this node does not hold is an orphan; None if that cannot be told.

        Ask before asking what is held: a lease that a claim under way, or any later one, is given ends no sooner.
        """
        asked_at = self._claim_asked_at if self._is_claiming else now
        return None if asked_at is None else asked_at + self.duration

    def renewed(self, trusted_until: float) -> None:
        """The heartbeat renewed what is held."""
        self._renewed_until = trusted_until
