"""A warning about a host is quick, costs few lookups, and does not tell addresses."""

import asyncio
from collections.abc import Awaitable, Callable
from ipaddress import ip_address

import pytest

from hourbell.core.values.networks import parse_networks
from hourbell.core.values.url import parse_url
from hourbell.targets.http.addresses import Address, AddressRules, Server
from hourbell.targets.http.host_check import MAX_HOSTS, MAX_LOOKUPS, HostCheck
from hourbell.targets.http.transport import TransportError
from hourbell.testing.loop import VirtualLoop

PUBLIC, PRIVATE, LINK_LOCAL, OWN = map(ip_address, ("93.184.216.34", "10.1.2.3", "169.254.169.254", "10.9.9.9"))


class Names:
    """A resolver with fixed answers; names that hang answer when they are released."""

    def __init__(self, **addresses: tuple[Address, ...]) -> None:
        self.addresses = addresses
        self.asked: list[str] = []
        self.max_concurrent = 0
        self._open = 0
        self.released = asyncio.Event()

    async def look_up(self, host: str, port: int) -> tuple[Address, ...]:
        del port
        self.asked.append(host)
        self._open += 1
        self.max_concurrent = max(self.max_concurrent, self._open)
        try:
            await asyncio.sleep(0.01)
            if host.startswith("hangs"):
                await self.released.wait()
            if host.startswith("broken"):
                raise TransportError("no answer", begun=False)
            return self.addresses.get(host.partition(".")[0], ())
        finally:
            self._open -= 1


def check_of(names: Names, rules: AddressRules | None = None) -> HostCheck:
    rules = rules or AddressRules()
    return HostCheck(names.look_up, rules.prohibits, elapsed=asyncio.get_running_loop().time)


async def warnings(check: HostCheck, *urls: str) -> list[str]:
    return list((await check([parse_url(url) for url in urls])).values())


def in_virtual_time(test: Callable[[], Awaitable[None]]) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(test())
    finally:
        loop.close()


@pytest.mark.parametrize(
    ("addresses", "url", "expected"),
    [
        (
            (PRIVATE,),
            "https://name.example/",
            "name.example resolves to an address that webhooks may not reach (a private address); "
            "an operator can allow its network with HOURBELL_ALLOW_NETWORKS",
        ),
        (
            (PUBLIC, PRIVATE),
            "https://name.example/",
            "name.example resolves to an address that webhooks may not reach (a private address); "
            "an operator can allow its network with HOURBELL_ALLOW_NETWORKS",
        ),
        (
            (LINK_LOCAL,),
            "https://name.example/",
            "name.example resolves to an address that webhooks may not reach (a link-local address)",
        ),
        (
            (OWN,),
            "https://name.example/",
            "name.example resolves to an address that webhooks may not reach "
            "(an address that this installation keeps closed)",
        ),
        (
            (PUBLIC,),
            "https://name.example:8443/",
            "port 8443 is closed to webhooks; HOURBELL_ALLOW_PORTS may name it",
        ),
        ((PUBLIC,), "https://name.example/", None),
        ((), "https://name.example/", None),
    ],
)
def test_the_warning_names_the_kind_of_address_and_the_setting(
    addresses: tuple[Address, ...], url: str, expected: str | None
) -> None:
    async def scenario() -> None:
        rules = AddressRules(own_servers=lambda: [Server(OWN, 5432)])
        found = await warnings(check_of(Names(name=addresses), rules), url)

        assert found == ([] if expected is None else [expected])
        assert not any(str(address) in message for message in found for address in addresses)

    in_virtual_time(scenario)


def test_an_allowed_network_gets_no_warning() -> None:
    async def scenario() -> None:
        rules = AddressRules(allow_networks=parse_networks("10.0.0.0/8"))
        assert await warnings(check_of(Names(name=(PRIVATE,)), rules), "https://name.example/") == []

    in_virtual_time(scenario)


def test_a_literal_address_is_not_looked_up() -> None:
    async def scenario() -> None:
        names = Names()
        assert await warnings(check_of(names), "https://10.0.0.1/", "https://[fd00::1]/") == []
        assert names.asked == []

    in_virtual_time(scenario)


def test_a_name_that_does_not_answer_holds_a_definition_up_for_two_seconds_and_no_longer() -> None:
    async def scenario() -> None:
        names = Names(hangs=(PRIVATE,))
        check, clock = check_of(names), asyncio.get_running_loop().time
        began = clock()

        assert await warnings(check, "https://hangs.example/") == []
        assert clock() - began == pytest.approx(2.0, abs=0.001)
        names.released.set()
        await asyncio.sleep(1)
        assert len(await warnings(check, "https://hangs.example/")) == 1
        assert names.asked == ["hangs.example"]

    in_virtual_time(scenario)


def test_while_every_lookup_hangs_other_definitions_do_not_wait() -> None:
    async def scenario() -> None:
        names = Names(name=(PRIVATE,))
        check, clock = check_of(names), asyncio.get_running_loop().time
        await warnings(check, *(f"https://hangs-{number}.example/" for number in range(MAX_LOOKUPS)))
        began = clock()

        assert await warnings(check, "https://name.example/") == []
        assert clock() - began < 0.001
        assert "name.example" not in names.asked
        names.released.set()
        await asyncio.sleep(1)
        assert len(await warnings(check, "https://name.example/")) == 1

    in_virtual_time(scenario)


def test_a_name_is_looked_up_once_a_minute_whatever_it_answers() -> None:
    async def scenario() -> None:
        names = Names(name=(PRIVATE,))
        check = check_of(names)
        urls = ("https://name.example/a", "https://name.example/b", "https://broken.example/", "https://gone.example/")
        for _ in range(100):
            await warnings(check, *urls)
        assert sorted(names.asked) == ["broken.example", "gone.example", "name.example"]
        await asyncio.sleep(61)
        await warnings(check, *urls)
        assert len(names.asked) == 6

    in_virtual_time(scenario)


def test_many_hosts_in_one_request_are_a_few_lookups_at_a_time_and_few_in_all() -> None:
    async def scenario() -> None:
        names = Names()
        await warnings(check_of(names), *(f"https://name-{number}.example/" for number in range(1_000)))

        assert (len(names.asked), names.max_concurrent) == (MAX_HOSTS, MAX_LOOKUPS)

    in_virtual_time(scenario)


def test_many_requests_at_once_have_a_few_lookups_at_a_time() -> None:
    async def scenario() -> None:
        names = Names()
        check = check_of(names)
        await asyncio.gather(*(warnings(check, f"https://name-{number}.example/") for number in range(100)))

        assert names.max_concurrent <= MAX_LOOKUPS

    in_virtual_time(scenario)


def test_only_the_newest_thousand_names_are_kept() -> None:
    async def scenario() -> None:
        names = Names()
        check = check_of(names)
        for number in range(1_010):
            await warnings(check, f"https://name-{number}.example/")

        assert len(check._cache) == 1_000

    in_virtual_time(scenario)
