"""When a call is made again, and after how long: never sooner than the server asked for, and not for ever."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hourbell import clock
from hourbell.core.values.ids import timed_id

_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0
_MOST_RANDOM = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Retries:
    """At most so many `tries` of a call, and no new one after `patience` seconds. `tries=1` means never again."""

    tries: int = 6
    patience: float = 60.0
    random_bytes: Callable[[int], bytes] = os.urandom
    elapsed: Callable[[], float] = clock.elapsed
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep

    def wait_after(self, tries: int, spent: float, asked: float | None) -> float | None:
        """Seconds until the next try, after so many and so long; None to give up. `asked` is Retry-After."""
        if tries >= self.tries:
            return None
        wait = _LONGEST_WAIT if tries > 10 else min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** (tries - 1))
        wait = self.spread(wait) if asked is None else asked + self.spread(_FIRST_WAIT)
        return wait if spent + wait <= self.patience else None

    def spread(self, seconds: float) -> float:
        """From half of it to all of it, so that those who were refused together do not come back together."""
        return seconds * (0.5 + 0.5 * int.from_bytes(self.random_bytes(4), "big") / _MOST_RANDOM)

    def new_key(self) -> str:
        """An Idempotency-Key that nobody has used."""
        milliseconds = int(clock.now().timestamp() * 1_000)  # of what is made under this key, the id begins so
        return str(timed_id(milliseconds, self.random_bytes(10), version=7))
