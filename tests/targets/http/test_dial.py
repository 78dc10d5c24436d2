"""Connection timeouts, and the errors of failed connections."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from hourbell.targets.http import dial
from hourbell.targets.http.dial import Dialler, tls_context
from hourbell.targets.http.failures import joined
from hourbell.targets.http.phases import Stopwatch
from hourbell.targets.http.transport import TransportError
from tests.targets.http.receivers import OK, Talk, answers, receiving
from tests.targets.http.transports import LOOPBACK, OTHER_LOOPBACK, FakeEgressPolicy, a_request

pytestmark = pytest.mark.anyio


@pytest.fixture
def dialler() -> Dialler:
    return Dialler(FakeEgressPolicy(), tls_context())


@pytest.fixture
def watch() -> Stopwatch:
    ticks = iter(range(1_000))
    return Stopwatch(lambda: float(next(ticks)))


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port of the other loopback address where connections neither come about nor fail."""
    with socket.create_server((str(OTHER_LOOPBACK), 0), backlog=0) as listener:
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
        for each in waiting:
            each.close()


@pytest.mark.parametrize(("limit", "seconds"), [(0.2, 60), (60, 0.4)])
async def test_a_dead_address_does_not_use_up_the_attempt(
    dialler: Dialler, watch: Stopwatch, dead_port: int, monkeypatch: pytest.MonkeyPatch, limit: float, seconds: float
) -> None:
    monkeypatch.setattr(dial, "ADDRESS_SECONDS", limit)
    async with receiving(answers(OK), port=dead_port), asyncio.timeout(10):
        http_connection = await dialler.open(
            a_request(dead_port).url, (OTHER_LOOPBACK, LOOPBACK), watch, seconds=seconds
        )
        http_connection.abort()

    assert http_connection.address == LOOPBACK


async def test_a_handshake_has_a_limit_of_its_own(
    dialler: Dialler, watch: Stopwatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def listens(talk: Talk) -> None:
        await talk.hang_on()

    monkeypatch.setattr(dial, "HANDSHAKE_SECONDS", 0.2)
    async with receiving(listens) as receiver, asyncio.timeout(10):
        with pytest.raises(TransportError, match=r"^the TLS handshake did not end within 0.2 s$"):
            await dialler.open(a_request(receiver.port, scheme="https").url, (LOOPBACK,), watch, seconds=10)

    assert watch.phases() == {"connect": 1, "tls": 1}


async def test_every_address_that_failed_is_named(dialler: Dialler, watch: Stopwatch) -> None:
    with socket.create_server((str(LOOPBACK), 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(TransportError) as failed:
        await dialler.open(a_request(port).url, (LOOPBACK, OTHER_LOOPBACK), watch, seconds=10)

    refused = [f"connection refused by {address} port {port}" for address in (LOOPBACK, OTHER_LOOPBACK)]
    assert str(failed.value) == "; ".join(refused)


def test_many_failures_make_one_short_sentence() -> None:
    assert joined([]) == "the name has no address"
    assert joined(["a", "b", "c"]) == "a; b; c"
    assert joined(["a", "b", "c", "d"]) == "a; b; c; and so on for the other addresses"


def test_certificates_and_names_are_always_checked() -> None:
    context = tls_context()

    assert context.check_hostname
    assert context.verify_mode.name == "CERT_REQUIRED"
    assert context.minimum_version.name == "TLSv1_2"
