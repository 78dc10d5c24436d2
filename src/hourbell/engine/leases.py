"""Local expiry of the leases that this node holds.

A lease is trusted until the time of its last renewal request, plus its duration, less a margin. After that, another
node may have claimed the run, and nothing may start. Elapsed seconds also count while the machine sleeps.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from hourbell.store.base import LIVE_FOR

MARGIN = 5 / 60  # of the lease duration


class Leases:
    def __init__(self, duration: timedelta, elapsed: Callable[[], float]) -> None:
        self.duration = duration
        self._elapsed = elapsed
        self._renewed_until = float("-inf")
        self._is_claiming = False
        self._claims = 0  # number of the current claim, or of the last one

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
    def claiming(self) -> Iterator[None]:
        """Mark a claim as in progress, from its request until its runs are held. There is one claim at a time."""
        self._is_claiming = True  # first: the heartbeat, perhaps in another thread, must not take a new number as ended
        self._claims += 1
        try:
            yield
        finally:
            self._is_claiming = False

    @property
    def last_claim(self) -> int:
        """The number of the current claim, or of the last one."""
        return self._claims

    def has_ended(self, claim: int) -> bool:
        """True if the claim of this number, and every earlier one, has ended."""
        return not self._is_claiming or self._claims > claim

    def renewed(self, trusted_until: float) -> None:
        """Record that the heartbeat renewed the held leases."""
        self._renewed_until = trusted_until
