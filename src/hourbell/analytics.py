"""Counts of ended runs by job and day in Redis: best effort. Nothing waits for Redis, and nothing depends on it.

The engine counts in memory (`count`), and a thread of its own writes the sums once a second. While Redis cannot be
reached, sums are kept up to a bound. A write whose answer is missing is not repeated, because it may have been carried
out: counts can be too low, never too high.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

from hourbell.metrics import Metrics

if TYPE_CHECKING:
    from redis import Redis

log = logging.getLogger("hourbell.analytics")

STATES = ("succeeded", "failed", "cancelled")  # the fields of each hash
MAX_WAITING_VALUES = 10_000  # sums of one job and day that wait to be written
MAX_DAYS = 366  # in one answer
_PREFIX = "hourbell:runs"
_BATCH = 500  # sums in one pipeline
_WRITE_SECONDS = 1.0  # between two writes
_MAX_PAUSE_SECONDS = 10.0  # between two attempts while Redis is unreachable
_LOG_SECONDS = 60.0
_TIMEOUT_SECONDS = 2.0  # to connect, and for each answer
_MAX_ERROR_CHARACTERS = 200
INSTALL = "pip install 'hourbell[redis]'"

Counts = tuple[int, int, int]  # of the states, in their order
_Sums = dict[tuple[UUID, int], list[int]]  # by job and day (as the ordinal of its date, in UTC)


class AnalyticsUnavailable(Exception):
    """Redis cannot be asked; the message says why, without any password."""


@dataclass(frozen=True, slots=True)
class DayCounts:
    """The number of runs that ended on one day (UTC)."""

    day: date
    succeeded: int
    failed: int
    cancelled: int


class Analytics:
    """Counts for one node. `count` is called by the engine's thread, `days` by any thread."""

    def __init__(
        self,
        url: str,
        metrics: Metrics,
        *,
        keep: timedelta,
        elapsed: Callable[[], float],
        ca_file: str | None = None,
    ) -> None:
        self._url = url
        self._metrics = metrics
        self._keep_seconds = int(keep.total_seconds())
        self._elapsed = elapsed
        self._ca_file = ca_file
        self._client: Redis | None = None
        self._missing = False  # the package
        self._lock = threading.Lock()
        self._sums: _Sums = {}
        self._wake = threading.Event()
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self._failed_at: float | None = None  # when the last failure was logged, while Redis is unreachable

    def start(self) -> None:
        """Begin to write. Without the package `redis` nothing is counted, which is logged once."""
        try:
            self._connect()
        except AnalyticsUnavailable as error:
            self._missing = True
            log.warning("analytics_off", extra={"error": str(error)})
            return
        self._thread = threading.Thread(target=self._work, name="hourbell-analytics", daemon=True)
        self._thread.start()

    def close(self, limit_seconds: float) -> None:
        """Write what waits, for at most this time; what is left then is lost."""
        if self._thread is None:
            return
        self._is_closing = True
        self._wake.set()
        self._thread.join(limit_seconds)
        left = self._take(MAX_WAITING_VALUES)
        if left:
            self._lose(left)
            log.warning("analytics_lost", extra={"runs": _total(left), "hint": "Redis did not take them in time"})

    def count(self, job_id: UUID, state: str, at: datetime) -> None:
        """Count a run that ended. Never blocks: what finds no room is lost."""
        if self._missing:
            return
        key = (job_id, at.toordinal())
        with self._lock:
            sums = self._sums.get(key)
            if sums is None:
                if len(self._sums) >= MAX_WAITING_VALUES:
                    self._metrics.analytics_lost.inc()
                    return
                sums = self._sums[key] = [0, 0, 0]
            sums[STATES.index(state)] += 1

    def days(self, job_id: UUID | None, first: date, last: date) -> list[DayCounts]:
        """Read the counts of a job, or of all jobs, for each day. Raises AnalyticsUnavailable."""
        wanted = [date.fromordinal(day) for day in range(first.toordinal(), last.toordinal() + 1)]
        try:
            pipeline = self._connect().pipeline(transaction=False)
            for day in wanted:
                pipeline.hmget(_key(job_id, day), STATES)
            found: list[list[Any]] = pipeline.execute()
        except AnalyticsUnavailable:
            raise
        except Exception as error:  # of the connection, of TLS, or of Redis
            raise AnalyticsUnavailable(self._describe(error)) from None
        return [DayCounts(day, *(int(each or 0) for each in row)) for day, row in zip(wanted, found, strict=True)]

    def _connect(self) -> "Redis":
        """Return the client, which connects when it is used. It never repeats a command by itself."""
        if self._client is None:
            try:
                from redis import Redis
                from redis.backoff import NoBackoff
                from redis.retry import Retry
            except ImportError:
                raise AnalyticsUnavailable(f"the package redis is not installed; run: {INSTALL}") from None
            tls: Mapping[str, Any] = {}
            if self._url.startswith("rediss://"):
                tls = {"ssl_cert_reqs": "required", "ssl_check_hostname": True, "ssl_ca_certs": self._ca_file}
            self._client = Redis.from_url(
                self._url,
                socket_connect_timeout=_TIMEOUT_SECONDS,
                socket_timeout=_TIMEOUT_SECONDS,
                retry=Retry(NoBackoff(), 0),
                **tls,
            )
        return self._client

    def _work(self) -> None:
        """Write the sums once a second; less often while Redis is unreachable."""
        pause = 0.0  # at first, so that an unreachable Redis is logged at the start
        is_first = True
        while not self._is_closing:
            self._wake.wait(pause)
            is_up = self._write(asks=is_first or self._failed_at is not None)
            pause = _WRITE_SECONDS if is_up else min(_MAX_PAUSE_SECONDS, max(pause, _WRITE_SECONDS) * 2)
            is_first = False
        self._write(asks=False)

    def _write(self, *, asks: bool) -> bool:
        """Write all sums; return False if Redis failed. `asks`: also if there are none, to see whether it is up."""
        while True:
            with self._lock:
                is_empty = not self._sums
            if is_empty and not asks:
                return True
            asks = False
            try:
                self._connect().ping()  # nothing has been sent yet: the sums can wait
            except Exception as error:
                self._report(error)
                return False
            batch = self._take(_BATCH)
            try:
                self._send(batch)
            except Exception as error:  # it may have been carried out
                self._lose(batch)
                self._report(error)
                return False
            self._metrics.analytics_counted.inc(_total(batch))
            self._report_recovery()

    def _send(self, batch: _Sums) -> None:
        """Write a batch in one transaction, so that all of it is counted or nothing."""
        if not batch:
            return
        of_all: dict[int, list[int]] = {}
        for (_, day), sums in batch.items():
            total = of_all.setdefault(day, [0, 0, 0])
            for index, number in enumerate(sums):
                total[index] += number
        pipeline = self._connect().pipeline(transaction=True)
        rows: Iterable[tuple[UUID | None, int, list[int]]] = (
            *((job_id, day, sums) for (job_id, day), sums in batch.items()),
            *((None, day, sums) for day, sums in of_all.items()),
        )
        for job_id, day, sums in rows:
            key = _key(job_id, date.fromordinal(day))
            for state, number in zip(STATES, sums, strict=True):
                if number:
                    pipeline.hincrby(key, state, number)
            pipeline.expire(key, self._keep_seconds)
        pipeline.execute()

    def _take(self, limit: int) -> _Sums:
        with self._lock:
            keys = list(self._sums)[:limit]
            return {key: self._sums.pop(key) for key in keys}

    def _lose(self, batch: _Sums) -> None:
        self._metrics.analytics_lost.inc(_total(batch))

    def _report(self, error: Exception) -> None:
        """Log a failure, at most once a minute."""
        now = self._elapsed()
        if self._failed_at is None or now - self._failed_at >= _LOG_SECONDS:
            self._failed_at = now
            facts = {"error": self._describe(error), "hint": "runs are not affected; their counts wait or are lost"}
            log.warning("analytics_unavailable", extra=facts)

    def _report_recovery(self) -> None:
        if self._failed_at is not None:
            self._failed_at = None
            log.info("analytics_available")

    def _describe(self, error: Exception) -> str:
        """Describe an error in one line, without the password."""
        text = " ".join(str(error).split()) or type(error).__name__
        for password in _passwords(self._url):
            text = text.replace(password, "***")
        return text[:_MAX_ERROR_CHARACTERS]


def _key(job_id: UUID | None, day: date) -> str:
    return f"{_PREFIX}:{'all' if job_id is None else job_id}:{day.isoformat()}"


def _total(batch: _Sums) -> int:
    return sum(map(sum, batch.values()))


def _passwords(url: str) -> list[str]:
    """Return the passwords in a URL, as written and as sent."""
    parts = urlsplit(url)
    written = parts.netloc.rpartition("@")[0].partition(":")[2]
    return [each for each in (written, unquote(written), *parse_qs(parts.query).get("password", [])) if each]
