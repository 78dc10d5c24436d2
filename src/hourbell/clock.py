"""The only place that reads a clock."""

import time
from datetime import UTC, datetime

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


def now() -> datetime:
    """This machine's time."""
    return datetime.now(UTC)


def elapsed() -> float:
    """Seconds that only grow, also while the machine sleeps where the system can tell."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)
