"""The only place that reads a clock."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


def now() -> datetime:
    """This machine's time."""
    return datetime.now(UTC)


# Seconds that only grow, also while the machine sleeps where the system can tell.
elapsed: Callable[[], float] = time.monotonic if _BOOTTIME is None else partial(time.clock_gettime, _BOOTTIME)
