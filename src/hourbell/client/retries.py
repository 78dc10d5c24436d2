"""The retry policy of the client: backoff with jitter, never sooner than Retry-After, and bounded."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hourbell import clock
from hourbell.core.values.ids import timed_id

_FIRST_WAIT_SECONDS, _MAX_WAIT_SECONDS = 0.2, 5.0
_RANDOM_LIMIT = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Retries:
    """Limits of retries: at most `tries` in total, and none after `patience` seconds. `tries=1` disables retries."""

    tries: int = 6
    patience: float = 60.0
    random_bytes: Callable[[int], bytes] = os.urandom
    elapsed: Callable[[], float] = clock.elapsed
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep

    def wait_after(self, tries: int, spent: float, asked: float | None) -> float | None:
        """Return the seconds until the next try, after `tries` tries and `spent` seconds; None to give up.

        `asked` is Retry-After in seconds.
        """
        if tries >= self.tries:
            return None
        wait = _MAX_WAIT_SECONDS if tries > 10 else min(_MAX_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2.0 ** (tries - 1))
        wait = self.spread(wait) if asked is None else asked + self.spread(_FIRST_WAIT_SECONDS)
        return wait if spent + wait <= self.patience else None

    def spread(self, seconds: float) -> float:
        """Return a random duration between half and all of it, so that clients do not retry at the same moment."""
        return seconds * (0.5 + 0.5 * int.from_bytes(self.random_bytes(4), "big") / _RANDOM_LIMIT)

    def new_key(self) -> str:
        """Return a new, unique Idempotency-Key."""
        milliseconds = int(clock.now().timestamp() * 1_000)  # ids of what is created under this key begin with it
        return str(timed_id(milliseconds, self.random_bytes(10), version=7))
