"""Keeps a node from hammering a receiver that is down: it delays attempts, and never discards one.

After a few failures in a row that say the receiver itself is not well, a lane rests for a moment that grows with each
failure. Then one attempt at a time goes out, until one is answered.
"""

from collections.abc import Callable
from dataclasses import dataclass

TRIP_AFTER = 5
_FIRST_REST = 1.0  # seconds
_LONGEST_REST = 30.0
_MOST_LANES = 10_000


@dataclass(slots=True)
class _Trouble:
    failures: int = 0
    rests_until: float = float("-inf")


class Breaker:
    """One for all lanes of a node. Lanes that are well take no room."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._troubled: dict[str, _Trouble] = {}

    def slots(self, lane: str, most: int) -> int:
        """How many attempts may be under way in a lane: all, none while it rests, one to see if it is well again."""
        trouble = self._troubled.get(lane)
        if trouble is None or trouble.failures < TRIP_AFTER:
            return most
        return 0 if self._elapsed() < trouble.rests_until else 1

    def well(self, lane: str) -> None:
        """The receiver answered."""
        self._troubled.pop(lane, None)

    def unwell(self, lane: str) -> bool:
        """The receiver could not be reached, or did not answer. True when this made the lane rest for the first time.

        Attempts that were under way when it tripped do not make the rest longer.
        """
        if len(self._troubled) >= _MOST_LANES:
            self._troubled.clear()
        trouble = self._troubled.setdefault(lane, _Trouble())
        now = self._elapsed()
        if trouble.failures >= TRIP_AFTER and now < trouble.rests_until:
            return False
        trouble.failures += 1
        if trouble.failures < TRIP_AFTER:
            return False
        rest = min(_FIRST_REST * 2 ** (trouble.failures - TRIP_AFTER), _LONGEST_REST)
        trouble.rests_until = now + rest
        return trouble.failures == TRIP_AFTER
