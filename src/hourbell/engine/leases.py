"""Local expiry of the leases that this node holds.

A lease is trusted until the time of its last renewal request, plus its duration, less a margin. After that, another
node may have claimed the run, and nothing may start. Elapsed seconds also count while the machine sleeps.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from hourbell.store.base import LIVE_FOR

MARGIN = 5 / 60  # of the lease duration


class Leases:
    def __init__(self, duration: timedelta, elapsed: Callable[[], float]) -> None:
        self.duration = duration
        self._elapsed = elapsed
        self._renewed_until = float("-inf")
        self._is_claiming = False
        self._claim_asked_at: datetime | None = None  # None until the current claim has read the time

    @property
    def live_for(self) -> timedelta:
        """The time after its last heartbeat for which a node counts as alive, if all nodes have the same lease."""
        return max(LIVE_FOR, self.duration)

    @property
    def is_renewing(self) -> bool:
        """True while the heartbeat renews leases in time; without it, nothing new may be claimed."""
        return self._elapsed() < self._renewed_until

    def trust_from_now(self) -> float:
        """Return the elapsed second until which a lease requested now can be trusted."""
        return self._elapsed() + self.duration.total_seconds() * (1 - MARGIN)

    def is_trusted(self, until: float) -> bool:
        return self._elapsed() < until

    @contextmanager
    def claiming(self, now: Callable[[], datetime]) -> Iterator[datetime]:
        """Mark a claim as in progress, from its request until its runs are held; yield the time of the request.

        There is one claim at a time. The heartbeat, perhaps in another thread, must see the claim before the time is
        read.
        """
        self._is_claiming = True
        try:
            self._claim_asked_at = now()
            yield self._claim_asked_at
        finally:
            self._is_claiming, self._claim_asked_at = False, None

    def orphaned_until(self, now: datetime) -> datetime | None:
        """Return the expiry time before which a lease that this node does not hold is an orphan; None if unknown.

        Call it before reading the held leases: the leases of the current claim, or of any later one, expire no sooner.
        """
        asked_at = self._claim_asked_at if self._is_claiming else now
        return None if asked_at is None else asked_at + self.duration

    def renewed(self, trusted_until: float) -> None:
        """Record that the heartbeat renewed the held leases."""
        self._renewed_until = trusted_until
