"""Connection limits of the HTTP server, in total and per address, by arithmetic alone."""

import logging

import pytest

from hourbell.api.connections import ConnectionLimits, ConnectionShare, share_of_descriptors
from hourbell.core.values.networks import parse_networks
from tests.api.house import Time


def limits(total: int = 100, per_address: int = 3, trusted: str = "", time: Time | None = None) -> ConnectionLimits:
    networks = parse_networks(trusted) if trusted else ()
    return ConnectionLimits(total, per_address, networks, (time or Time()).elapsed)


@pytest.mark.parametrize(
    ("descriptors", "slots", "share"),
    [
        (1_024, 1_000, ConnectionShare(256, 128)),
        (1_024, 100, ConnectionShare(446, 222)),
        (4_096, 1_000, ConnectionShare(1_000, 946)),
        (1_048_576, 1_000, ConnectionShare(1_000, 1_024)),
        (64, 1_000, ConnectionShare(16, 8)),
    ],
)
def test_deliveries_keep_descriptors_of_their_own(descriptors: int, slots: int, share: ConnectionShare) -> None:
    assert share_of_descriptors(1_000, descriptors, slots) == share
    left = descriptors - share.connections - share.backlog
    assert left >= min(slots, descriptors * 5 // 8)


def test_connections_are_limited_per_address() -> None:
    counted = limits()

    assert [counted.admit("192.0.2.1") for _ in range(4)] == [True, True, True, False]
    assert counted.admit("192.0.2.2")
    counted.release("192.0.2.1")
    assert counted.admit("192.0.2.1")


def test_connections_are_limited_in_total() -> None:
    counted = limits(total=5)

    assert [counted.admit(f"192.0.2.{number}") for number in range(6)] == [True] * 5 + [False]


def test_the_hosts_of_one_ipv6_network_are_one_address() -> None:
    counted = limits()

    assert [counted.admit(f"2001:db8::{number}") for number in range(4)] == [True, True, True, False]


@pytest.mark.parametrize("ip", ["10.1.2.3", "::ffff:10.1.2.3"])
def test_a_trusted_proxy_is_limited_by_the_total_alone(ip: str) -> None:
    counted = limits(total=50, trusted="10.0.0.0/8")

    assert sum(counted.admit(ip) for _ in range(60)) == 50


def test_zero_disables_the_limit_per_address() -> None:
    counted = limits(per_address=0)

    assert sum(counted.admit("192.0.2.1") for _ in range(200)) == 100


def test_a_released_connection_is_no_longer_counted() -> None:
    counted = limits(per_address=0, total=10_000)
    for number in range(1_000):
        counted.admit(f"192.0.2.{number}")
        counted.release(f"192.0.2.{number}")

    assert (len(counted._open), counted._count) == (0, 0)


def test_refusals_are_logged_once_a_minute_with_their_number(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    counted = limits(time=time)
    with caplog.at_level(logging.WARNING, "hourbell.api"):
        for _ in range(100):
            counted.admit("192.0.2.1")
        time.seconds += 60
        counted.admit("192.0.2.1")

    lines = [vars(record) for record in caplog.records]
    assert [(line["message"], line["refused"]) for line in lines] == [
        ("connections_refused", 1),
        ("connections_refused", 97),
    ]
    assert lines[0]["setting"] == "HOURBELL_HTTP_CONNECTIONS_PER_ADDRESS"
