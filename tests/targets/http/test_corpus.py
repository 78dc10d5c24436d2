"""The address corpus through the parser and the egress policy: everything bad is refused, and nothing good."""

from ipaddress import ip_address

import pytest

from hourbell.core.values.url import parse_url
from hourbell.targets.http.addresses import Address, AddressRules, plain
from hourbell.targets.http.resolver import EgressPolicy, OwnServers
from hourbell.targets.http.transport import Refused
from tests.targets.http.corpus import ADDRESSES, FORMS, GOOD, GOOD_IPV4, NAMES, PORTS, REFUSED

pytestmark = pytest.mark.anyio


class Says:
    """A name server that says the same of every name."""

    def __init__(self, answers: tuple[str, ...]) -> None:
        self._answers = tuple(ip_address(text) for text in answers)

    async def resolve(self, _host: str, _port: int, /) -> tuple[Address, ...]:
        return self._answers


async def addresses_of(url: str, answers: tuple[str, ...]) -> tuple[Address, ...]:
    resolver = Says(answers)
    return await EgressPolicy(resolver, AddressRules(), OwnServers([], resolver, elapsed=float)).addresses_of(
        parse_url(url)
    )


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(REFUSED) >= 120
    assert len(GOOD) >= 30
    assert len({parse_url(url) for url in GOOD}) >= 30


@pytest.mark.parametrize("url", FORMS)
def test_a_url_with_two_readings_is_no_url(url: str) -> None:
    with pytest.raises(ValueError, match=r"\w+"):
        parse_url(url)


@pytest.mark.parametrize("host", ADDRESSES)
async def test_an_address_that_is_closed_is_read_and_refused(host: str) -> None:
    with pytest.raises(Refused, match=r"HOURBELL_ALLOW_NETWORKS may name its network|is a link-local address$"):
        await addresses_of(f"http://{host}/", ())


@pytest.mark.parametrize("name", NAMES)
async def test_a_name_that_leads_to_a_closed_address_is_read_and_refused(name: str) -> None:
    with pytest.raises(Refused, match=r"is refused: .* is "):
        await addresses_of(f"https://{name}/hook", NAMES[name])


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("host", [GOOD_IPV4, "good.example"])
async def test_a_port_that_is_closed_is_refused(host: str, port: int) -> None:
    with pytest.raises(Refused, match=f"port {port} is closed to webhooks; HOURBELL_ALLOW_PORTS may name it"):
        await addresses_of(f"http://{host}:{port}/", (GOOD_IPV4,))


@pytest.mark.parametrize("url", GOOD)
async def test_nothing_good_is_refused(url: str) -> None:
    found = await addresses_of(url, GOOD[url])

    expected = [plain(ip_address(text)) for text in GOOD[url] or (parse_url(url).host,)]
    assert list(found) == expected
