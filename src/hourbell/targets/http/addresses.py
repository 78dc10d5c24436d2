"""The egress policy (address rules): which addresses a webhook may connect to. It protects against SSRF.

The rules check the address itself and never a host name, so no DNS answer can bypass it. By default it allows only
addresses of the public internet; only the operator's settings allow more.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from typing import NamedTuple, TypeVar

from hourbell.core.values.networks import Network

Address = IPv4Address | IPv6Address
T = TypeVar("T")

_PORTS = frozenset({80, 443})
_MINUTE = 60.0
_NETWORKS = "HOURBELL_ALLOW_NETWORKS"
_HINT = f"{_NETWORKS} may name its network"
_DENIED = "an address that this installation keeps closed"  # must not reveal which server that is
_LAN = tuple(ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"))
_GLOBAL_IPV6 = IPv6Network("2000::/3")  # all of IPv6 that is allocated for the public internet
# Networks that `is_global` accepts in some Python release, although no receiver can be there.
_CLOSED: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), reason)
    for network, reason in (
        ("::/96", "an IPv4-compatible address"),
        ("64:ff9b::/96", "a NAT64 address"),
        ("64:ff9b:1::/48", "a NAT64 address"),
        ("2002::/16", "a 6to4 address"),
        ("2001::/32", "a Teredo address"),
        ("fec0::/10", "a site-local address"),
        ("5f00::/16", "a segment routing address"),
        ("3fff::/20", "a documentation address"),
        ("192.0.0.0/24", "an address kept for protocols"),
        ("192.88.99.0/24", "a 6to4 relay address"),
        ("168.63.129.16/32", "a cloud provider's internal address"),
    )
)
_LEAF = re.compile(r"\|-- ([0-9.]+)", re.ASCII)


class Server(NamedTuple):
    """The address and port of a server that Hourbell itself uses: its database or its broker."""

    address: Address
    port: int


class Prohibition(NamedTuple):
    """The reason why webhooks may not connect to an address. `reason` names the address; `kind` names only its kind."""

    reason: str
    kind: str | None = None  # None if the port is closed and not the address
    setting: str | None = None  # the setting that would allow it


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressRules:
    """The address rules of one process. Fields that are functions are called for each check, because they change."""

    allow_networks: tuple[Network, ...] = ()
    allow_loopback: Callable[[], bool] = lambda: False
    allow_ports: frozenset[int] = frozenset()
    deny_networks: tuple[Network, ...] = ()
    own_servers: Callable[[], Iterable[Server]] = frozenset
    own_addresses: Callable[[], frozenset[Address]] = frozenset

    def forbids(self, address: Address, port: int) -> str | None:
        """Return the reason why webhooks may not connect to an address, as text; None if they may."""
        found = self.prohibits(address, port)
        return None if found is None else found.reason

    def prohibits(self, address: Address, port: int) -> Prohibition | None:
        """Return the rule that forbids webhooks to connect to an address; None if they may.

        1. Hourbell's own servers are forbidden, whatever the settings allow.
        2. The operator's allowed networks are open on any port, and so is loopback while it is allowed.
        3. The operator's denied networks, this machine's own addresses and all but the public internet are forbidden.
        4. Only ports 80, 443 and the operator's allowed ports are open.
        """
        address = plain(address)
        if any(self._leads_to(server, address, port) for server in self.own_servers()):
            reason = f"{address} port {port} leads to a server of Hourbell's own, which no webhook may reach"
            return Prohibition(reason, _DENIED)
        if _is_in(address, self.allow_networks) or (address.is_loopback and self.allow_loopback()):
            return None
        if _is_in(address, self.deny_networks):
            return Prohibition(f"{address} is in a network that the operator has closed to webhooks", _DENIED)
        if address in self.own_addresses():
            kind = "an address of the machine that Hourbell runs on"
            return Prohibition(f"{address} is {kind}; {_HINT}", kind, _NETWORKS)
        if (kind_if_closed := _kind_if_closed(address)) is not None:
            if address.is_link_local:  # no hint, so that nobody opens a cloud's metadata service by accident
                return Prohibition(f"{address} is {kind_if_closed}", kind_if_closed)
            return Prohibition(f"{address} is {kind_if_closed}; {_HINT}", kind_if_closed, _NETWORKS)
        if port not in _PORTS | self.allow_ports:
            reason = f"port {port} is closed to webhooks; HOURBELL_ALLOW_PORTS may name it"
            return Prohibition(reason, setting="HOURBELL_ALLOW_PORTS")
        return None

    def _leads_to(self, server: Server, address: Address, port: int) -> bool:
        closed = plain(server.address)
        if self._is_here(address) and self._is_here(closed):
            # A server that listens on all interfaces answers at each of them. Other ports of this machine are not that
            # server; on a developer's machine they are the receivers.
            return port == server.port
        return closed in _readings(address)

    def _is_here(self, address: Address) -> bool:
        return address.is_loopback or address.is_unspecified or address in self.own_addresses()


def plain(address: Address) -> Address:
    """Return the address that packets are sent to: IPv4 for an IPv4-mapped address, and without a zone."""
    if isinstance(address, IPv4Address):
        return address
    return address.ipv4_mapped or IPv6Address(int(address))


def _readings(address: Address) -> tuple[Address, ...]:
    """Return the address and its IPv4 translations in an allowed network: its last 32 bits, and those of 6to4."""
    if isinstance(address, IPv4Address):
        return (address,)
    last = IPv4Address(int(address) & 0xFFFF_FFFF)
    return (address, last, address.sixtofour or last)


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def _kind_if_closed(address: Address) -> str | None:
    if address.is_unspecified:
        return "the unspecified address"
    if address.is_loopback:
        return "a loopback address"
    if address.is_link_local:
        return "a link-local address"
    if address.is_multicast:
        return "a multicast address"
    if _is_in(address, _LAN):
        return "a private address"
    for network, reason in _CLOSED:
        if address in network:
            return reason
    if address.is_global and (isinstance(address, IPv4Address) or address in _GLOBAL_IPV6):
        return None
    return "not an address of the public internet"


def own_addresses(folder: Path = Path("/proc/net")) -> frozenset[Address]:
    """Return the addresses of this machine's interfaces from Linux's /proc; none on other systems.

    It does not use netlink, which is often forbidden to a service, nor the host name, which often resolves to loopback
    only.
    """
    return frozenset([*_read(folder / "fib_trie", _ipv4_here), *_read(folder / "if_inet6", _ipv6_here)])


def _read(path: Path, parse: Callable[[str], list[Address]]) -> list[Address]:
    try:
        return parse(path.read_text())
    except (OSError, ValueError):
        return []


def _ipv4_here(table: str) -> list[Address]:
    found: list[Address] = []
    leaf = ""
    for line in table.splitlines():
        if match := _LEAF.search(line):
            leaf = match[1]
        elif line.strip() == "/32 host LOCAL":
            found.append(IPv4Address(leaf))
    return found


def _ipv6_here(table: str) -> list[Address]:
    return [IPv6Address(bytes.fromhex(line[:32])) for line in table.splitlines()]


def cached_for_a_minute(read: Callable[[], T], elapsed: Callable[[], float]) -> Callable[[], T]:
    """Wrap `read` in a cache, so that its value is at most a minute old."""
    cached: list[tuple[float, T]] = []

    def answer() -> T:
        if not cached or elapsed() - cached[0][0] >= _MINUTE:
            cached[:] = [(elapsed(), read())]
        return cached[0][1]

    return answer
