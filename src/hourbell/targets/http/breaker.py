"""A circuit breaker per lane: it delays attempts to a receiver that is down or hangs, and never discards one.

After a few consecutive failures to get a response, the circuit of a lane opens for a time that grows with each failure.
Then it is half-open: one attempt at a time is made, until one gets a response. A lane without a response for much
longer than its receiver usually takes gets only a few slots, even before an attempt fails, and all slots with the next
response.
"""

from collections.abc import Callable
from dataclasses import dataclass

TRIP_AFTER = 5
SILENT_SLOTS = 4
SILENT_SECONDS = 5.0  # or twice the time of the slowest recent response, if that is longer
_FORGET = 0.9  # decay of the slowest response time with each faster response
_FIRST_REST = 1.0  # seconds
_MAX_REST_SECONDS = 30.0
_MAX_LANES = 10_000


@dataclass(slots=True)
class _Trouble:
    failures: int = 0
    rests_until: float = float("-inf")


@dataclass(slots=True)
class _CallsOut:
    """The calls of a lane that wait for a response."""

    heard_at: float  # when the last response came, or the first of the calls was made
    count: int = 0
    slowest: float = 0.0  # seconds that the slowest recent response took


class Breaker:
    """The circuit breakers of all lanes of a node. Healthy and idle lanes take no memory."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._troubled: dict[str, _Trouble] = {}
        self._out: dict[str, _CallsOut] = {}

    def slots(self, lane: str, limit: int) -> int:
        """Return how many attempts a lane may have in flight.

        That is `limit` for a closed circuit, a few while the lane is silent, none while the circuit is open, and one
        while it is half-open.
        """
        trouble = self._troubled.get(lane)
        if trouble is None or trouble.failures < TRIP_AFTER:
            return min(limit, SILENT_SLOTS) if self._is_silent(lane) else limit
        return 0 if self._elapsed() < trouble.rests_until else 1

    def begin(self, lane: str) -> float:
        """Record that a call starts, and return its time for `well`. The caller must call `end` afterwards."""
        now = self._elapsed()
        out = self._out.get(lane)
        if out is None:
            out = self._out[lane] = _CallsOut(now)
        out.count += 1
        return now

    def end(self, lane: str) -> None:
        """Record that a call has ended, with any result."""
        out = self._out[lane]
        out.count -= 1
        if out.count == 0:
            del self._out[lane]

    def well(self, lane: str, since: float | None = None) -> None:
        """Record a response to a call that started at `since`, and close the lane's circuit."""
        self._troubled.pop(lane, None)
        out = self._out.get(lane)
        if out is not None:
            out.heard_at = now = self._elapsed()
            out.slowest = max(now - since if since is not None else 0.0, _FORGET * out.slowest)

    def unwell(self, lane: str) -> bool:
        """Record that the receiver was unreachable or did not respond. Return True if this opened the circuit.

        Attempts that were in flight when the circuit opened do not extend the time it stays open.
        """
        if len(self._troubled) >= _MAX_LANES:
            self._troubled.clear()
        trouble = self._troubled.setdefault(lane, _Trouble())
        now = self._elapsed()
        if trouble.failures >= TRIP_AFTER and now < trouble.rests_until:
            return False
        trouble.failures += 1
        if trouble.failures < TRIP_AFTER:
            return False
        rest = min(_FIRST_REST * 2 ** (trouble.failures - TRIP_AFTER), _MAX_REST_SECONDS)
        trouble.rests_until = now + rest
        return trouble.failures == TRIP_AFTER

    def _is_silent(self, lane: str) -> bool:
        out = self._out.get(lane)
        return out is not None and self._elapsed() - out.heard_at > max(SILENT_SECONDS, 2 * out.slowest)
