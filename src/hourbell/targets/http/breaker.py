"""Keeps a node from hammering a receiver that is down or hangs: it delays attempts, and never discards one.

After a few failures in a row that say the receiver itself is not well, a lane rests for a moment that grows with each
failure. Then one attempt at a time goes out, until one is answered. A lane that has been silent for much longer than
its receiver takes to answer gets a few slots, also before an attempt fails, and all of them with the next answer.
"""

from collections.abc import Callable
from dataclasses import dataclass

TRIP_AFTER = 5
SILENT_SLOTS = 4
SILENT_SECONDS = 5.0  # or twice as long as the slowest of the latest answers took
_FORGET = 0.9  # of the slowest answer, with each answer that was faster
_FIRST_REST = 1.0  # seconds
_LONGEST_REST = 30.0
_MOST_LANES = 10_000


@dataclass(slots=True)
class _Trouble:
    failures: int = 0
    rests_until: float = float("-inf")


@dataclass(slots=True)
class _CallsOut:
    """The calls of a lane that have no answer yet."""

    heard_at: float  # when an answer came, or the first of them was made
    count: int = 0
    slowest: float = 0.0  # seconds until an answer, lately


class Breaker:
    """One for all lanes of a node. Lanes that are well and idle take no room."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._troubled: dict[str, _Trouble] = {}
        self._out: dict[str, _CallsOut] = {}

    def slots(self, lane: str, most: int) -> int:
        """How many attempts may be under way in a lane: all, a few while it is silent, none while it rests, one to see
        if it is well again."""
        trouble = self._troubled.get(lane)
        if trouble is None or trouble.failures < TRIP_AFTER:
            return min(most, SILENT_SLOTS) if self._is_silent(lane) else most
        return 0 if self._elapsed() < trouble.rests_until else 1

    def begin(self, lane: str) -> float:
        """A call is made; the moment of it, for `well`. Its end must follow."""
        now = self._elapsed()
        out = self._out.get(lane)
        if out is None:
            out = self._out[lane] = _CallsOut(now)
        out.count += 1
        return now

    def end(self, lane: str) -> None:
        """A call is over, whatever came of it."""
        out = self._out[lane]
        out.count -= 1
        if out.count == 0:
            del self._out[lane]

    def well(self, lane: str, since: float | None = None) -> None:
        """The receiver answered a call that was made at that moment."""
        self._troubled.pop(lane, None)
        out = self._out.get(lane)
        if out is not None:
            out.heard_at = now = self._elapsed()
            out.slowest = max(now - since if since is not None else 0.0, _FORGET * out.slowest)

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

    def _is_silent(self, lane: str) -> bool:
        out = self._out.get(lane)
        return out is not None and self._elapsed() - out.heard_at > max(SILENT_SECONDS, 2 * out.slowest)
