"""The address rules: open and closed addresses, their order, and the operator's settings."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.values.networks import parse_networks, parse_ports
from hourbell.targets.http.addresses import Address, AddressRules, Server, cached_for_a_minute, own_addresses
from tests.core.schedule.strategies import examples

CLOSED = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"),
    *("192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("192.88.99.0/24", "168.63.129.16/32", "224.0.0.0/4", "240.0.0.0/4"),
    *("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16"),
    *("100::/64", "2001:db8::/32", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
)
DATABASE = Server(ip_address("10.0.0.5"), 5432)
LOOPBACK = parse_networks("127.0.0.0/8, ::1")
OPEN = parse_networks("0.0.0.0/0, ::/0")
ipv4 = st.ip_addresses(v=4)
ipv6 = st.ip_addresses(v=6)


def forbids(text: str, port: int = 443, rules: AddressRules | None = None) -> str | None:
    return (rules or AddressRules()).forbids(ip_address(text), port)


def within(prefix: str, address: Address, *, shift: int = 0) -> IPv6Address:
    """An address that carries an IPv4 address."""
    return IPv6Address(int(IPv6Address(prefix)) | int(address) << shift)


@pytest.mark.parametrize("text", CLOSED)
def test_a_closed_network_is_closed_from_its_first_address_to_its_last(text: str) -> None:
    network = ip_network(text)

    for address in (network[0], network[network.num_addresses // 2], network[-1]):
        assert AddressRules().forbids(address, 443) is not None


@examples(300)
@given(st.one_of(ipv4, ipv6))
def test_every_open_address_is_of_the_public_internet(address: Address) -> None:
    if AddressRules().forbids(address, 443) is None:
        assert address.is_global
        assert not address.is_multicast
        assert not any(address in ip_network(text) for text in CLOSED)


@examples(200)
@given(ipv4)
def test_wrapping_an_address_changes_nothing(address: IPv4Address) -> None:
    assert AddressRules().forbids(within("::ffff:0:0", address), 443) == AddressRules().forbids(address, 443)


@examples(200)
@given(ipv4)
def test_no_translator_is_asked_to_carry_an_address_elsewhere(address: IPv4Address) -> None:
    disguises = (
        within("::", address),
        within("::ffff:0:0:0", address),
        within("64:ff9b::", address),
        within("64:ff9b:1::", address),
        within("2002::", address, shift=80),
        within("2001::", address, shift=64),
        within("2001::", IPv4Address(int(address) ^ 0xFFFF_FFFF)),
    )

    assert all(AddressRules().forbids(disguise, 443) for disguise in disguises)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("10.0.0.1", "a private address"),
        ("::ffff:10.0.0.1", "a private address"),
        ("fd00::1", "a private address"),
        ("127.0.0.1", "a loopback address"),
        ("::1", "a loopback address"),
        ("169.254.169.254", "a link-local address"),
        ("fe80::1%eth0", "a link-local address"),
        ("0.0.0.0", "the unspecified address"),
        ("::", "the unspecified address"),
        ("224.0.0.1", "a multicast address"),
        ("64:ff9b::1", "a NAT64 address"),
        ("2001::1", "a Teredo address"),
        ("168.63.129.16", "a cloud provider's internal address"),
        ("100.64.0.1", "not an address of the public internet"),
        ("4000::1", "not an address of the public internet"),
    ],
)
def test_the_reason_names_the_address_its_kind_and_the_setting(address: str, kind: str) -> None:
    shown = address.removeprefix("::ffff:").removesuffix("%eth0")

    hint = "" if "link-local" in kind else "; HOURBELL_ALLOW_NETWORKS may name its network"  # metadata is near

    assert forbids(address) == f"{shown} is {kind}{hint}"


def test_only_the_ports_of_the_web_and_of_the_operator_are_open() -> None:
    rules = AddressRules(allow_ports=parse_ports("8080, 9000-9001"))

    assert [port for port in range(1, 65_536) if forbids("8.8.8.8", port, rules) is None] == [80, 443, 8080, 9000, 9001]
    assert forbids("8.8.8.8", 22, rules) == "port 22 is closed to webhooks; HOURBELL_ALLOW_PORTS may name it"


def test_a_port_of_the_operator_opens_no_address() -> None:
    assert forbids("10.0.0.1", 8080, AddressRules(allow_ports=frozenset({8080}))) is not None


def test_a_network_of_the_operator_is_open_on_any_port_and_in_any_wrapping() -> None:
    rules = AddressRules(allow_networks=parse_networks("10.1.0.0/16"))

    assert forbids("10.1.2.3", 22, rules) is None
    assert forbids("::ffff:10.1.2.3", 22, rules) is None
    assert forbids("10.2.0.1", 443, rules) is not None
    assert forbids("64:ff9b::10.1.2.3", 443, rules) is not None


def test_loopback_is_open_just_while_that_is_allowed() -> None:
    allowed = [True]
    here = frozenset({ip_address("127.0.0.1"), ip_address("10.0.0.7")})
    rules = AddressRules(allow_loopback=lambda: allowed[0], own_addresses=lambda: here)

    assert [forbids(text, 9000, rules) for text in ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1")] == [None] * 4
    assert forbids("10.0.0.7", 9000, rules) is not None
    allowed[0] = False
    for text in ("127.0.0.1", "127.8.8.8", "::1"):
        assert "HOURBELL_ALLOW_NETWORKS" in str(forbids(text, 9000, rules))


def test_a_network_of_the_operator_goes_before_every_deny_but_that_of_our_servers() -> None:
    here = frozenset({ip_address("10.0.0.7")})
    rules = AddressRules(
        allow_networks=OPEN, deny_networks=OPEN, own_addresses=lambda: here, own_servers=lambda: [DATABASE]
    )

    for text in ("10.0.0.7", "127.0.0.1", "169.254.169.254", "fe80::1", "2002::1", "8.8.8.8"):
        assert forbids(text, 5432, rules) is None
    assert forbids("10.0.0.5", 443, rules) == (
        "10.0.0.5 port 443 leads to a server of Hourbell's own, which no webhook may reach"
    )


def test_a_network_that_the_operator_closes_is_closed() -> None:
    rules = AddressRules(deny_networks=parse_networks("8.8.0.0/16"))

    assert forbids("8.8.8.8", 443, rules) == "8.8.8.8 is in a network that the operator has closed to webhooks"
    assert forbids("8.9.8.8", 443, rules) is None


def test_the_addresses_of_this_machine_are_closed_and_asked_for_each_time() -> None:
    here: set[Address] = set()
    rules = AddressRules(own_addresses=lambda: frozenset(here))
    assert forbids("93.184.215.14", 443, rules) is None

    here.add(ip_address("93.184.215.14"))
    assert "is an address of the machine that Hourbell runs on" in (forbids("93.184.215.14", 443, rules) or "")
    assert forbids("::ffff:93.184.215.14", 443, rules) is not None


@pytest.mark.parametrize(
    "disguise",
    ["10.0.0.5", "::ffff:10.0.0.5", "64:ff9b::10.0.0.5", "2001:db8:64::10.0.0.5", "2002:a00:5::1", "::10.0.0.5"],
)
def test_our_servers_are_closed_on_every_port_and_in_every_disguise(disguise: str) -> None:
    rules = AddressRules(allow_networks=OPEN, own_servers=lambda: [DATABASE])

    assert forbids(disguise, 5432, rules) is not None
    assert forbids(disguise, 80, rules) is not None
    assert forbids("10.0.0.6", 5432, rules) is None


@pytest.mark.parametrize("server", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "192.168.1.7"])
def test_a_server_on_this_machine_is_closed_by_its_port_at_every_address_of_the_machine(server: str) -> None:
    here = frozenset({ip_address("192.168.1.7")})
    servers = [Server(ip_address(server), 5432)]
    rules = AddressRules(allow_networks=OPEN, own_addresses=lambda: here, own_servers=lambda: servers)

    for text in ("127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "192.168.1.7", "::ffff:127.0.0.1"):
        assert forbids(text, 5432, rules) is not None
        assert forbids(text, 3000, rules) is None
    assert forbids("192.168.1.8", 5432, rules) is None


def test_loopback_opened_on_a_developers_machine_opens_receivers_and_not_the_database() -> None:
    rules = AddressRules(allow_networks=LOOPBACK, own_servers=lambda: [Server(ip_address("127.0.0.1"), 5432)])

    assert forbids("127.0.0.1", 3000, rules) is None
    assert forbids("::1", 3000, rules) is None
    assert forbids("::1", 5432, rules) is not None
    assert forbids("0.0.0.0", 3000, rules) is not None


@pytest.mark.skipif(not Path("/proc/net/fib_trie").exists(), reason="only Linux tells")
def test_the_addresses_of_this_machine_are_those_one_can_listen_on() -> None:
    found = own_addresses()

    assert ip_address("127.0.0.1") in found
    for address in found:
        if not address.is_link_local:
            with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6) as listener:
                listener.bind((str(address), 0))


def test_a_system_that_lists_no_addresses_has_none(tmp_path: Path) -> None:
    assert own_addresses(tmp_path) == frozenset()

    (tmp_path / "fib_trie").write_text("/32 host LOCAL")
    (tmp_path / "if_inet6").write_text("fe80000000000000 02 40 20 80 eth0\n")
    assert own_addresses(tmp_path) == frozenset()


def test_only_what_is_local_in_the_routing_table_is_an_address_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "fib_trie").write_text(
        "Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n"
        "        |-- 93.184.215.0\n           /24 link UNICAST\n           |-- 93.184.215.14\n"
        "              /32 host LOCAL\n        |-- 93.184.215.255\n           /32 link BROADCAST\n"
    )

    assert own_addresses(tmp_path) == {ip_address("93.184.215.14")}


def test_an_answer_is_kept_for_a_minute() -> None:
    now, read = 0.0, iter(range(10))
    answer = cached_for_a_minute(lambda: next(read), lambda: now)
    assert [answer(), answer()] == [0, 0]

    now = 59.9
    assert answer() == 0
    now = 60.0
    assert [answer(), answer()] == [1, 1]


def test_networks_are_written_with_commas_between() -> None:
    assert parse_networks(" 10.0.0.0/8,127.0.0.1 , fd00::/8,10.0.0.0/255.0.0.0 ") == (
        ip_network("10.0.0.0/8"),
        ip_network("127.0.0.1/32"),
        ip_network("fd00::/8"),
        ip_network("10.0.0.0/8"),
    )
    assert parse_networks(" ") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("localhost", "'localhost' is not a network; write networks as in 10.0.0.0/8, fd00::/8, 192.168.1.7"),
        ("10.0.0.0/8 fd00::/8", "is not a network; write"),
        ("10.0.0.0/8,", "'' is not a network; write"),
        ("10.0.0.0/33", "is not a network; write"),
        ("10", "is not a network; write"),
        ("[::1]", "is not a network; write"),
        ("010.0.0.0/8", "is not a network; write"),
        ("10.0.0.1/8", "'10.0.0.1/8' means 10.0.0.0/8 or 10.0.0.1 alone; write which"),
        ("fe80::1%eth0", "without a zone"),
        ("::ffff:10.0.0.0/104", "IPv4 within it"),
        (f"{'x' * 500}", "…"),
    ],
)
def test_an_invalid_network_is_reported(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="write") as reported:
        parse_networks(text)

    assert message in str(reported.value)
    assert len(str(reported.value)) < 200


def test_ports_are_written_with_commas_between() -> None:
    assert parse_ports("8080, 9000-9002,1 - 2") == {8080, 9000, 9001, 9002, 1, 2}
    assert parse_ports("") == frozenset()


@pytest.mark.parametrize(
    "text", ["0", "65536", "http", "8080;9000", "9010-9000", "80-", "-80", "80,,81", "８０", "1-99999"]
)
def test_an_invalid_port_is_reported(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a port; write numbers from 1 to 65535, as in 8080, 9000-9010"):
        parse_ports(text)
