"""Limits on open connections of the HTTP server: in total, and per client address.

Deliveries, databases and files need file descriptors of the same process. So the server never uses more than its share
of them, and no client can use up the whole share of the server.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from hourbell.api.limits import address_group
from hourbell.core.values.networks import Network

log = logging.getLogger("hourbell.api")

_RESERVED = 256  # descriptors for databases, files, threads and DNS lookups
_BACKLOG = 1_024
_LOGGED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ConnectionShare:
    """The maximum number of open connections, and of further ones that wait to be accepted (listen backlog)."""

    connections: int
    backlog: int


def share_of_descriptors(asked: int, descriptors: int, slots: int) -> ConnectionShare:
    """Limit the requested connections so that the descriptor limit leaves one descriptor for each delivery slot.

    With few descriptors the server takes at most three eighths of them, including the listen backlog.
    """
    left = max(descriptors * 3 // 8, descriptors - _RESERVED - slots)
    backlog = max(1, min(_BACKLOG, left // 3))
    return ConnectionShare(max(1, min(asked, left - backlog)), backlog)


@dataclass(slots=True)
class ConnectionLimits:
    """A counter of open connections. `per_address` 0 means no limit per address; trusted proxies are exempt from it."""

    total: int
    per_address: int
    trusted_proxies: Sequence[Network]
    elapsed: Callable[[], float]
    _open: Counter[str] = field(default_factory=Counter)
    _count: int = 0
    _refused: int = 0
    _logged_at: float = float("-inf")

    def admit(self, ip: str) -> bool:
        """Count a new connection; return False if there are too many. Call `release` once per admitted connection."""
        group = address_group(ip)
        if self._count >= self.total:
            self._log_refused(ip, "HOURBELL_HTTP_CONNECTIONS", self.total)
            return False
        if self.per_address and self._open[group] >= self.per_address and not self._is_trusted(ip):
            self._log_refused(ip, "HOURBELL_HTTP_CONNECTIONS_PER_ADDRESS", self.per_address)
            return False
        self._open[group] += 1
        self._count += 1
        return True

    def release(self, ip: str) -> None:
        group = address_group(ip)
        self._count -= 1
        self._open[group] -= 1
        if not self._open[group]:
            del self._open[group]

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
        """Log refusals at most once a minute, so that an attacker cannot fill the log."""
        self._refused += 1
        if self.elapsed() - self._logged_at < _LOGGED_SECONDS:
            return
        facts = {"ip": ip, "limit": limit, "setting": setting, "refused": self._refused}
        log.warning("connections_refused", extra=facts)
        self._logged_at, self._refused = self.elapsed(), 0
