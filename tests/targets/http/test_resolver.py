"""Look-ups and the egress policy: every answer is checked, each attempt has its own look-up, our servers are closed."""

import asyncio
import gc
import socket
import threading
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import pytest

from hourbell.core.values.networks import parse_networks
from hourbell.core.values.url import parse_url
from hourbell.targets.http.addresses import Address, AddressRules, Server
from hourbell.targets.http.resolver import DaemonThreads, EgressPolicy, OwnServers, Resolver, SystemResolver, look_up
from hourbell.targets.http.transport import Refused, TransportError
from tests.targets.http.corpus import GOOD_IPV4, GOOD_IPV6

pytestmark = pytest.mark.anyio

OPEN = parse_networks("0.0.0.0/0, ::/0")
LOST = TransportError("the name server does not answer", begun=False)
Answer = str | TransportError


class Names:
    """A name server: each name has answers, of which the next is given at each look-up and the last for ever."""

    def __init__(self, **answers: list[Answer]) -> None:
        self.answers = {name.replace("_", "."): answer for name, answer in answers.items()}
        self.asked: list[str] = []
        self.hangs = False

    async def resolve(self, host: str, _port: int, /) -> tuple[Address, ...]:
        self.asked.append(host)
        if self.hangs:
            await asyncio.Event().wait()
        answers = self.answers.get(host, [""])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, TransportError):
            raise answer
        return addresses(answer)


def addresses(text: str) -> tuple[Address, ...]:
    return tuple(ip_address(each) for each in text.split())


def policy(resolver: Resolver, rules: AddressRules | None = None) -> EgressPolicy:
    return EgressPolicy(resolver, rules or AddressRules(), OwnServers([], resolver, elapsed=float))


class Fortified:
    """A policy with everything open but the servers it is given, and a clock to turn."""

    def __init__(self, names: Names, *hosts: tuple[str, int]) -> None:
        self.now = 0.0
        self.servers = OwnServers(hosts, names, elapsed=lambda: self.now)
        self.policy = EgressPolicy(names, AddressRules(allow_networks=OPEN, own_servers=self.servers), self.servers)

    async def refuses(self, url: str) -> bool:
        try:
            await self.policy.addresses_of(parse_url(url))
        except Refused:
            return True
        return False


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Replaces the operating system's look-up."""

    def put(getaddrinfo: Callable[..., Any]) -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)

    return put


def entry(text: str) -> tuple[Any, ...]:
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    socket_address = (text, 80, 0, 1) if ":" in text else (text, 80)
    return (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", socket_address)


async def test_the_addresses_of_a_name_come_in_the_order_of_the_answers() -> None:
    found = await policy(Names(good_example=[f"{GOOD_IPV6} {GOOD_IPV4} {GOOD_IPV6}"])).addresses_of(
        parse_url("https://good.example/")
    )

    assert found == addresses(f"{GOOD_IPV6} {GOOD_IPV4}")


async def test_an_address_in_the_url_is_not_looked_up_and_is_judged() -> None:
    names = Names()

    assert await policy(names).addresses_of(parse_url("http://8.8.8.8/")) == addresses("8.8.8.8")
    assert await policy(names).addresses_of(parse_url("http://[::ffff:8.8.8.8]/")) == addresses("8.8.8.8")
    with pytest.raises(Refused, match=r"^127\.0\.0\.1 is a loopback address; "):
        await policy(names).addresses_of(parse_url("http://[::ffff:127.0.0.1]/"))
    assert names.asked == []


@pytest.mark.parametrize("answer", [f"{GOOD_IPV4} ::1", f"10.0.0.1 {GOOD_IPV6}", f"{GOOD_IPV4} ::ffff:10.0.0.1"])
async def test_one_forbidden_answer_closes_the_name(answer: str) -> None:
    with pytest.raises(Refused, match=r"^mixed\.example is refused: \S+ is a (loopback|private) address"):
        await policy(Names(mixed_example=[answer])).addresses_of(parse_url("https://mixed.example/"))


async def test_a_name_without_an_address_is_no_refusal() -> None:
    with pytest.raises(
        TransportError, match=r"^nowhere\.example has no address; check the host in the URL$"
    ) as reported:
        await policy(Names()).addresses_of(parse_url("https://nowhere.example/"))

    assert not isinstance(reported.value, Refused)
    assert not reported.value.begun


async def test_an_answer_that_flips_is_judged_at_every_attempt() -> None:
    flips: list[Answer] = [GOOD_IPV4, "127.0.0.1", GOOD_IPV6] * 17
    flipping = policy(Names(flip_example=list(flips)))

    seen: list[str] = []
    for _ in flips:
        try:
            seen += [str(each) for each in await flipping.addresses_of(parse_url("https://flip.example/"))]
        except Refused:
            seen.append("127.0.0.1")
    assert seen == flips


async def test_an_address_can_be_judged_without_a_name() -> None:
    assert "is a private address" in (policy(Names()).forbids(ip_address("10.0.0.1"), 443) or "")
    assert policy(Names()).forbids(ip_address("8.8.8.8"), 443) is None


@pytest.mark.parametrize("host", ["db.internal", "DB.Internal.", "alias.example", "10.0.0.5", "[::ffff:10.0.0.5]"])
async def test_our_servers_are_closed_by_name_by_alias_and_by_address(host: str) -> None:
    names = Names(db_internal=["10.0.0.5 10.0.0.6"], alias_example=["10.0.0.6"], other_example=["10.0.0.7"])
    fortified = Fortified(names, ("DB.internal.", 5432))

    assert await fortified.refuses(f"http://{host}/")
    assert not await fortified.refuses("http://other.example/")


@pytest.mark.parametrize("host", ["10.0.0.5", "::ffff:10.0.0.5"])
async def test_a_server_that_the_settings_name_by_address_is_not_looked_up(host: str) -> None:
    names = Names()

    assert await Fortified(names, (host, 5432)).refuses("http://10.0.0.5/")
    assert names.asked == []


async def test_a_name_of_ours_is_closed_even_if_it_leads_elsewhere_a_moment_later() -> None:
    fortified = Fortified(Names(db_internal=["10.0.0.5", "10.0.0.6"]), ("db.internal", 5432))

    assert await fortified.refuses("http://db.internal/")
    assert fortified.servers() == [Server(ip_address("10.0.0.5"), 5432), Server(ip_address("10.0.0.6"), 5432)]
    assert await fortified.refuses("http://10.0.0.6/")


async def test_a_database_on_this_machine_leaves_its_other_ports_open() -> None:
    fortified = Fortified(Names(localhost=["::1 127.0.0.1"]), ("localhost", 5432))

    assert await fortified.refuses("http://localhost:5432/")
    assert await fortified.refuses("http://127.0.0.2:5432/")
    assert not await fortified.refuses("http://localhost:3000/")


async def test_our_servers_are_looked_up_again_after_a_minute() -> None:
    names = Names(db_internal=["10.0.0.5", "10.0.0.6"])
    fortified = Fortified(names, ("db.internal", 5432), ("db.internal", 6432))

    assert await fortified.refuses("http://10.0.0.5/")
    fortified.now = 59.9
    assert not await fortified.refuses("http://10.0.0.6/")
    assert names.asked == ["db.internal"]
    fortified.now = 60.0
    assert await fortified.refuses("http://10.0.0.6/")
    assert not await fortified.refuses("http://10.0.0.5/")
    assert names.asked == ["db.internal"] * 2


@pytest.mark.parametrize("answer", [LOST, ""])
async def test_the_older_answer_holds_while_there_is_no_newer_one(answer: Answer) -> None:
    names = Names(db_internal=["10.0.0.5", answer])
    fortified = Fortified(names, ("db.internal", 5432))

    for fortified.now in (0.0, 60.0, 61.0, 119.0, 120.0):
        assert await fortified.refuses("http://10.0.0.5/")
    assert len(names.asked) == 3


async def test_nobody_waits_for_a_newer_answer_of_our_servers_but_who_asks_for_it() -> None:
    fortified = Fortified(names := Names(db_internal=["10.0.0.5"]), ("db.internal", 5432))
    assert await fortified.refuses("http://10.0.0.5/")
    fortified.now = 60.0
    names.hangs = True
    waiting = asyncio.create_task(fortified.refuses("http://10.0.0.5/"))
    await asyncio.sleep(0)

    assert await fortified.refuses("http://10.0.0.5/")
    assert not waiting.done()
    waiting.cancel()


async def test_a_server_whose_look_up_fails_delays_nobody_and_is_looked_up_again_soon() -> None:
    fortified = Fortified(Names(db_internal=[LOST, "10.0.0.5"]), ("db.internal", 5432))

    assert not await fortified.refuses("http://10.0.0.5/")
    fortified.now += 5
    assert await fortified.refuses("http://10.0.0.5/")


async def test_a_server_whose_name_does_not_exist_holds_up_nobody() -> None:
    assert not await Fortified(Names(), ("gone.internal", 6379)).refuses("http://8.8.8.8/")


async def test_the_system_knows_this_machine() -> None:
    found = await SystemResolver(timeout=10).resolve("localhost", 80)

    assert found
    assert all(address.is_loopback for address in found)


async def test_the_systems_answers_are_plain_addresses_and_each_once(system: Any) -> None:
    async def getaddrinfo(*_: object, **__: object) -> list[Any]:
        return [entry(text) for text in ("fe80::1", "::ffff:8.8.8.8", "8.8.8.8", "fe80::1%2", "9.9.9.9")]

    system(getaddrinfo)
    assert await SystemResolver(timeout=10).resolve("name.example", 80) == addresses("fe80::1 8.8.8.8 9.9.9.9")


@pytest.mark.parametrize("code", [socket.EAI_NONAME, socket.EAI_NODATA])
async def test_a_name_that_does_not_exist_has_no_addresses(code: int, system: Any) -> None:
    async def getaddrinfo(*_: object, **__: object) -> list[Any]:
        raise socket.gaierror(code, "Name or service not known")

    system(getaddrinfo)
    assert await SystemResolver(timeout=10).resolve("name.example", 80) == ()


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
async def test_an_invalid_host_name_has_no_addresses(host: str) -> None:
    assert await SystemResolver(timeout=10).resolve(host, 80) == ()


@pytest.mark.parametrize("error", [socket.gaierror(socket.EAI_AGAIN, "Try again"), OSError(24, "Try again")])
async def test_a_failed_look_up_is_reported(error: OSError, system: Any) -> None:
    async def getaddrinfo(*_: object, **__: object) -> list[Any]:
        raise error

    system(getaddrinfo)
    with pytest.raises(TransportError, match=r"^name\.example could not be looked up: Try again$") as reported:
        await SystemResolver(timeout=10).resolve("name.example", 80)
    assert not reported.value.begun


async def test_a_slow_look_up_is_abandoned_and_never_takes_two_threads(system: Any) -> None:
    asked, answer = [], asyncio.get_running_loop().create_future()

    async def getaddrinfo(host: str, *_: object, **__: object) -> list[Any]:
        asked.append(host)
        return await answer if host == "slow.example" else [entry("8.8.8.8")]

    system(getaddrinfo)
    hasty = SystemResolver(timeout=0.01)
    for _ in range(3):
        with pytest.raises(TransportError, match=r"^slow\.example could not be looked up within 0\.01 s$"):
            await hasty.resolve("slow.example", 80)
    assert await hasty.resolve("quick.example", 80) == addresses("8.8.8.8")
    assert asked == ["slow.example", "quick.example"]

    answer.set_result([entry("9.9.9.9")])
    assert await hasty.resolve("slow.example", 80) == addresses("9.9.9.9")


async def test_a_look_up_that_fails_after_everybody_gave_up_raises_nowhere(system: Any) -> None:
    loop, complaints = asyncio.get_running_loop(), []
    answer: asyncio.Future[list[Any]] = loop.create_future()
    loop.set_exception_handler(lambda _, complaint: complaints.append(complaint))

    async def getaddrinfo(*_: object, **__: object) -> list[Any]:
        return await answer

    system(getaddrinfo)
    with pytest.raises(TransportError):
        await SystemResolver(timeout=0.01).resolve("name.example", 80)
    answer.set_exception(socket.gaierror(socket.EAI_AGAIN, "Try again"))
    await asyncio.sleep(0.01)
    gc.collect()
    loop.set_exception_handler(None)
    assert complaints == []


async def test_a_caller_that_gives_up_does_not_cancel_the_look_up_for_others(system: Any) -> None:
    answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    async def getaddrinfo(*_: object, **__: object) -> list[Any]:
        return await answer

    system(getaddrinfo)
    resolver = SystemResolver(timeout=10)
    first, second = (asyncio.create_task(resolver.resolve("name.example", 80)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    answer.set_result([entry("8.8.8.8")])
    assert await second == addresses("8.8.8.8")
    assert first.cancelled()


async def test_each_look_up_after_the_last_is_a_new_one(system: Any) -> None:
    answers = iter(["8.8.8.8", "127.0.0.1"])

    async def getaddrinfo(*_: object, **__: object) -> list[Any]:
        return [entry(next(answers))]

    system(getaddrinfo)
    resolver = SystemResolver(timeout=10)
    assert await resolver.resolve("name.example", 80) == addresses("8.8.8.8")
    assert await resolver.resolve("name.example", 80) == addresses("127.0.0.1")


async def test_a_look_up_in_threads_of_its_own_gives_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(host: str, *_: object, **__: object) -> list[Any]:
        assert threading.current_thread().daemon
        if host == "broken.example":
            raise socket.gaierror(socket.EAI_AGAIN, "try again")
        return [entry("8.8.8.8")]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert await look_up("name.example", 80, DaemonThreads()) == addresses("8.8.8.8")
    with pytest.raises(TransportError, match="try again"):
        await look_up("broken.example", 80, DaemonThreads())


class SlowNames:
    """The operating system's look-up, which answers at once or hangs."""

    def __init__(self) -> None:
        self.answer = "8.8.8.8"
        self.hangs: asyncio.Event | None = None

    async def getaddrinfo(self, *_: object, **__: object) -> list[Any]:
        if self.hangs is not None:
            await self.hangs.wait()
        return [entry(self.answer)] if self.answer else []


async def test_while_look_ups_hang_the_last_answer_of_a_name_is_used(system: Any) -> None:
    names = SlowNames()
    system(names.getaddrinfo)
    resolver = SystemResolver(timeout=10, patience=0.01)
    assert await resolver.resolve("name.example", 80) == addresses("8.8.8.8")

    names.hangs, names.answer = asyncio.Event(), "9.9.9.9"
    assert [await resolver.resolve("name.example", 80) for _ in range(2)] == [addresses("8.8.8.8")] * 2
    names.hangs.set()
    await asyncio.sleep(0.01)
    names.hangs = asyncio.Event()
    assert await resolver.resolve("name.example", 80) == addresses("9.9.9.9")  # it came after all


async def test_an_answer_of_long_ago_is_not_used(system: Any) -> None:
    names = SlowNames()
    system(names.getaddrinfo)
    resolver = SystemResolver(timeout=0.02, patience=0.01, stale_seconds=0)
    await resolver.resolve("name.example", 80)
    names.hangs = asyncio.Event()

    with pytest.raises(TransportError, match="could not be looked up within"):
        await resolver.resolve("name.example", 80)


async def test_a_name_that_lost_its_addresses_resolves_to_nothing(system: Any) -> None:
    names = SlowNames()
    system(names.getaddrinfo)
    resolver = SystemResolver(timeout=0.02, patience=0.01)
    await resolver.resolve("name.example", 80)
    names.answer = ""
    assert await resolver.resolve("name.example", 80) == ()
    names.hangs = asyncio.Event()

    with pytest.raises(TransportError, match="could not be looked up within"):
        await resolver.resolve("name.example", 80)


async def test_an_older_answer_is_judged_as_any_other(system: Any) -> None:
    names = SlowNames()
    system(names.getaddrinfo)
    resolver = SystemResolver(timeout=10, patience=0.01)
    await resolver.resolve("name.example", 80)
    names.hangs = asyncio.Event()
    closed = policy(resolver, AddressRules(deny_networks=parse_networks("8.8.8.8")))

    with pytest.raises(Refused):
        await closed.addresses_of(parse_url("http://name.example/"))
