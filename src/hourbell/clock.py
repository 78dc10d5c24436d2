"""The only module that reads a clock."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


def now() -> datetime:
    """Return this machine's time."""
    return datetime.now(UTC)


# Monotonic seconds, including suspend time where the system can report it.
elapsed: Callable[[], float] = time.monotonic if _BOOTTIME is None else partial(time.clock_gettime, _BOOTTIME)
