"""How many connections the HTTP server holds: in total, and for each address.

Deliveries, databases and files need descriptors of the same process. So the server never takes more than its share of
them, and nobody can take all of the server's.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from hourbell.api.limits import place_of
from hourbell.core.values.networks import Network

log = logging.getLogger("hourbell.api")

_RESERVED = 256  # descriptors for databases, files, threads and name look-ups
_BACKLOG = 1_024
_LOGGED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ConnectionShare:
    """How many connections may be open, and how many more may wait to be accepted."""

    connections: int
    backlog: int


def share_of_descriptors(asked: int, descriptors: int, slots: int) -> ConnectionShare:
    """The connections that were asked for, as far as the descriptor limit leaves one to each slot for deliveries.

    With few descriptors the server takes three eighths of them at most, those that wait to be accepted included.
    """
    left = max(descriptors * 3 // 8, descriptors - _RESERVED - slots)
    backlog = max(1, min(_BACKLOG, left // 3))
    return ConnectionShare(max(1, min(asked, left - backlog)), backlog)


@dataclass(slots=True)
class ConnectionLimits:
    """Counts connections. `per_address` 0 means no limit for an address; trusted proxies have none either."""

    total: int
    per_address: int
    trusted_proxies: Sequence[Network]
    elapsed: Callable[[], float]
    _open: Counter[str] = field(default_factory=Counter)
    _count: int = 0
    _refused: int = 0
    _logged_at: float = float("-inf")

    def admit(self, ip: str) -> bool:
        """Count a connection from there, unless there are too many. Every admitted one is released once."""
        place = place_of(ip)
        if self._count >= self.total:
            self._log_refused(ip, "HOURBELL_HTTP_CONNECTIONS", self.total)
            return False
        if self.per_address and self._open[place] >= self.per_address and not self._is_trusted(ip):
            self._log_refused(ip, "HOURBELL_HTTP_CONNECTIONS_PER_ADDRESS", self.per_address)
            return False
        self._open[place] += 1
        self._count += 1
        return True

    def release(self, ip: str) -> None:
        place = place_of(ip)
        self._count -= 1
        self._open[place] -= 1
        if not self._open[place]:
            del self._open[place]

    def _is_trusted(self, ip: str) -> bool:
        if not self.trusted_proxies:
            return False
        try:
            address = ip_address(ip)
        except ValueError:
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self.trusted_proxies)

    def _log_refused(self, ip: str, setting: str, limit: int) -> None:
        """Log refusals once a minute: an attacker must not fill the log either."""
        self._refused += 1
        if self.elapsed() - self._logged_at < _LOGGED_SECONDS:
            return
        facts = {"ip": ip, "limit": limit, "setting": setting, "refused": self._refused}
        log.warning("connections_refused", extra=facts)
        self._logged_at, self._refused = self.elapsed(), 0
