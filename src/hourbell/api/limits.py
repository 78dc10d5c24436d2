"""Rate limits: a token bucket of requests per caller, and exponential backoff for failed logins.

Pure arithmetic on the clock that is passed in. Memory is bounded: the callers that were seen longest ago are evicted.
"""

import asyncio
import math
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from hourbell.api.problems import Problem

BURST = 5  # size of a full bucket, in seconds' worth of requests
_MAX_CALLERS = 10_000
_TRIES, _PER_SECONDS = 10, 60.0
_MAX_WAIT_SECONDS = 3_600.0
_FORGIVEN_SECONDS = 7_200.0
_REPEATED_SECONDS = 60.0
_LATER = {"Retry-After": "30"}
_SOON = {"Retry-After": "1", "Connection": "close"}  # the rest of the body is not read
UNKNOWN_TOKENS_PER_SECOND = 5  # lookups of unknown tokens per address
MAX_STREAMS = 500  # per process
MAX_IMPORTS_PER_CALLER, MAX_IMPORTS = 2, 8
MAX_REQUESTS_PER_CALLER, MAX_WAITING_REQUESTS = 4, 100  # that are handled at once, and wait for it
MAX_HELD_BYTES_PER_CALLER, MAX_HELD_BYTES = 32 * 1024 * 1024, 256 * 1024 * 1024


class Limits:
    """A limit of `rate` requests a second per caller (token bucket); 0 means no limit."""

    def __init__(self, rate: float, *, elapsed: Callable[[], float], max_callers: int = _MAX_CALLERS) -> None:
        self._rate = rate
        self._elapsed = elapsed
        self._max_callers = max_callers
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and at what time

    def take(self, caller: str) -> float:
        """Count a request and return 0, or return the seconds to wait if the caller is over its limit."""
        if not self._rate:
            return 0.0
        now, full = self._elapsed(), max(1.0, self._rate * BURST)
        left, since = self._buckets.get(caller, (full, now))
        left = min(full, left + (now - since) * self._rate)
        wait = 0.0 if left >= 1 else (1 - left) / self._rate
        self._buckets[caller] = (left if wait else left - 1, now)
        _keep_newest(self._buckets, caller, self._max_callers)
        return wait

    def charge(self, caller: str, count: int) -> None:
        """Count further requests at once, which delay the caller's next ones. Call it after `take`."""
        if found := self._buckets.get(caller):
            left, since = found
            self._buckets[caller] = (left - count, since)


@dataclass(slots=True)
class _Tries:
    since: float
    count: int = 0
    waits: int = 0
    locked_until: float = -math.inf


class LoginLimits:
    """A limit of ten failed logins a minute per address, then a lockout of a minute that doubles up to an hour."""

    def __init__(self, *, elapsed: Callable[[], float], max_callers: int = _MAX_CALLERS) -> None:
        self._elapsed = elapsed
        self._max_callers = max_callers
        self._tries: OrderedDict[str, _Tries] = OrderedDict()

    def begin(self, group: str) -> float:
        """Count a login attempt and return 0, or return the seconds to wait if the address is locked out.

        An attempt counts as failed until `succeeded` is called, so that concurrent attempts cannot exceed the limit.
        """
        now = self._elapsed()
        tries = self._tries.get(group)
        if tries is None or now - max(tries.since, tries.locked_until) > _FORGIVEN_SECONDS:
            tries = self._tries[group] = _Tries(now)
        _keep_newest(self._tries, group, self._max_callers)
        if now < tries.locked_until:
            return tries.locked_until - now
        if now - tries.since >= _PER_SECONDS:
            tries.since, tries.count = now, 0
        tries.count += 1
        if tries.count > _TRIES:
            wait = min(_MAX_WAIT_SECONDS, _PER_SECONDS * 2.0**tries.waits)
            tries.since, tries.count = now + wait, 0
            tries.waits, tries.locked_until = min(tries.waits + 1, 10), now + wait
            return wait
        return 0.0

    def succeeded(self, group: str) -> None:
        """Uncount a login that succeeded. Failed logins before it still count."""
        tries = self._tries.get(group)
        if tries is not None and tries.count:
            tries.count -= 1


class ConcurrencyLimits:
    """A limit on open requests of one kind, such as event streams: per caller and for the whole process."""

    def __init__(self, kind: str, per_caller: int, total: int, *, codes: tuple[str, str]) -> None:
        self.kind = kind
        self.per_caller = per_caller
        self.total = total
        self._caller_code, self._total_code = codes
        self._open: Counter[str] = Counter()

    def begin(self, caller: str) -> Problem | None:
        """Count a request, or return a Problem if too many are open. Call `end` once per counted request."""
        if self._open[caller] >= self.per_caller:
            detail = f"This caller has {self.per_caller} {self.kind} already open; close one or wait until one ends."
            return Problem(429, self._caller_code, detail, headers=_LATER)
        if self._open.total() >= self.total:
            detail = f"{self.total} {self.kind} are already open; try again later."
            return Problem(503, self._total_code, detail, headers=_LATER)
        self._open[caller] += 1
        return None

    def end(self, caller: str) -> None:
        self._open[caller] -= 1
        if not self._open[caller]:
            del self._open[caller]


class Turns:
    """A limit on the requests of a caller that are handled at once; some others wait, in their order.

    Requests share the event loop with the engine. Twenty slow ones of one caller, taken in turn, would otherwise go
    before every step of a run. Requests wait even if their client has gone, so their number has a limit, too.
    """

    def __init__(self, at_once: int, waiting: int = MAX_WAITING_REQUESTS) -> None:
        self._at_once = at_once
        self._waiting = waiting
        self._callers: dict[str, tuple[asyncio.Semaphore, int]] = {}  # and how many requests wait or are handled

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """Wait for a turn, and hold it. Raise a Problem if too many of the caller's requests wait already."""
        turns, count = self._callers.get(caller) or (asyncio.Semaphore(self._at_once), 0)
        if count >= self._at_once + self._waiting:
            raise too_many(1)
        self._callers[caller] = turns, count + 1
        try:
            async with turns:
                yield
        finally:
            turns, count = self._callers.pop(caller)
            if count > 1:
                self._callers[caller] = turns, count - 1


def stream_limits(per_caller: int = MAX_STREAMS, total: int = MAX_STREAMS) -> ConcurrencyLimits:
    """Build the limit of open event streams."""
    return ConcurrencyLimits("event streams", per_caller, total, codes=("too_many_streams", "too_many_listeners"))


def import_limits(per_caller: int = MAX_IMPORTS_PER_CALLER, total: int = MAX_IMPORTS) -> ConcurrencyLimits:
    """Build the limit of concurrent imports. An import whose client disconnects still handles what has arrived."""
    return ConcurrencyLimits("imports", per_caller, total, codes=("too_many_imports", "too_many_imports"))


class HeldBytes:
    """A limit on the bytes of large request bodies held in memory: per caller and for the whole process."""

    def __init__(self, per_caller: int, total: int) -> None:
        self.per_caller = per_caller
        self.total = total
        self._held: Counter[str] = Counter()

    def take(self, caller: str, size: int) -> Problem | None:
        """Count bytes of a body, or return a Problem if too many are held. Release counted bytes once."""
        if self._held[caller] + size > self.per_caller:
            detail = f"The requests of this caller already use {self.per_caller:,} bytes; send fewer at once."
            return Problem(429, "too_many_bytes", detail, headers=_SOON)
        if self._held.total() + size > self.total:
            detail = f"Requests already use {self.total:,} bytes; try again later."
            return Problem(503, "too_many_bytes", detail, headers=_SOON)
        self._held[caller] += size
        return None

    def release(self, caller: str, size: int) -> None:
        self._held[caller] -= size
        if not self._held[caller]:
            del self._held[caller]


class Repeats:
    """A filter for repeated log lines: one a minute per key, with the number suppressed since the last one."""

    def __init__(self, *, elapsed: Callable[[], float], max_keys: int = _MAX_CALLERS) -> None:
        self._elapsed = elapsed
        self._max_keys = max_keys
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def admit(self, key: str) -> int | None:
        """Return the number of lines suppressed before this one, or None to suppress this one too."""
        now = self._elapsed()
        since, left_out = self._seen.get(key, (-math.inf, 0))
        is_due = now - since >= _REPEATED_SECONDS
        self._seen[key] = (now, 0) if is_due else (since, left_out + 1)
        self._seen.move_to_end(key)
        if len(self._seen) > self._max_keys:
            self._seen.popitem(last=False)
        return left_out if is_due else None


def address_group(ip: str) -> str:
    """Return the key of an address for limits: an IPv4 address, or the /64 network of an IPv6 address.

    A single client can use any number of IPv6 addresses of its network.
    """
    try:
        address = ip_address(ip)
    except ValueError:
        return ip
    if not isinstance(address, IPv6Address):
        return ip
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{IPv6Address(int(address) >> 64 << 64)}/64"


def too_many(wait: float) -> Problem:
    seconds = max(1, math.ceil(wait))
    return Problem(
        429, "too_many_requests", f"Too many requests; wait {seconds} s.", headers={"Retry-After": str(seconds)}
    )


def _keep_newest(
    callers: "OrderedDict[str, _Tries] | OrderedDict[str, tuple[float, float]]", key: str, limit: int
) -> None:
    callers.move_to_end(key)
    if len(callers) > limit:
        callers.popitem(last=False)
