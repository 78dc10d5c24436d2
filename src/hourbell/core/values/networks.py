"""Networks and ports as users write them in settings."""

import re
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

LOOPBACK: tuple[Network, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
_NETWORKS = "write networks as in 10.0.0.0/8, fd00::/8, 192.168.1.7"


def parse_networks(text: str) -> tuple[Network, ...]:
    """Parse comma-separated networks and addresses; raise a ValueError that says how to write them."""
    return tuple(_network(item) for item in _items(text))


def _network(item: str) -> Network:
    try:
        address, network = ip_address(item.partition("/")[0]), ip_network(item, strict=False)
    except ValueError:
        raise ValueError(f"{_shown(item)} is not a network; {_NETWORKS}") from None
    if isinstance(address, IPv6Address) and (address.scope_id is not None or address.ipv4_mapped is not None):
        raise ValueError(f"{_shown(item)} is not a network without a zone or IPv4 within it; {_NETWORKS}")
    if address != network.network_address:
        raise ValueError(f"{_shown(item)} means {network} or {address} alone; write which")
    return network


def parse_ports(text: str) -> frozenset[int]:
    """Parse comma-separated ports and port ranges; raise a ValueError that says how to write them."""
    return frozenset(port for item in _items(text) for port in _range(item))


def _range(item: str) -> range:
    found = re.fullmatch(r"(\d{1,5})(?:\s*-\s*(\d{1,5}))?", item, re.ASCII)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= first <= last <= 65_535:
        raise ValueError(f"{_shown(item)} is not a port; write numbers from 1 to 65535, as in 8080, 9000-9010")
    return range(first, last + 1)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")] if text.strip() else []


def _shown(item: str) -> str:
    text = ascii(item)
    return text if len(text) <= 60 else f"{text[:56]}…{text[-1]}"
