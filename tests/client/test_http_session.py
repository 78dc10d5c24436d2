"""The client's own HTTP: each request is sent once, to the configured server, within its timeout."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import pytest

from hourbell.client import AsyncClient, Retries, ServerOutOfReach
from hourbell.client.errors import ApiError
from hourbell.client.http_session import HttpSession, Request
from hourbell.client.server_address import ServerAddress
from tests.targets.http.certificates import Authority

pytestmark = pytest.mark.anyio

OK = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{"status":"ok"}'
Speak = Callable[["Peer"], Awaitable[None]]


@dataclass
class Peer:
    """The other end of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> str:
        """The head of the next request, and of its body as much as Content-Length says."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        length = next((line for line in head.splitlines() if line.lower().startswith("content-length:")), ": 0")
        return head + (await self.reader.readexactly(int(length.partition(":")[2]))).decode()

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


@dataclass
class Listener:
    port: int = 0
    connections: int = 0


@asynccontextmanager
async def listening(speak: Speak, tls: ssl.SSLContext | None = None) -> AsyncIterator[Listener]:
    listener = Listener()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            await speak(Peer(reader, writer))
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()


async def answer_all(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.say(OK)


def once(data: bytes) -> Speak:
    async def speak(peer: Peer) -> None:
        await peer.request()
        await peer.say(data)

    return speak


@asynccontextmanager
async def session_to(
    url: str,
    token: str | None = None,
    *,
    timeout: float = 5.0,
    tls: ssl.SSLContext | None = None,
    proxies: bool = False,
) -> AsyncIterator[HttpSession]:
    session = HttpSession(ServerAddress(url, token), timeout=timeout, tls=tls, use_proxies=proxies)
    try:
        yield session
    finally:
        await session.close()


def local(listener: Listener, scheme: str = "http", host: str = "127.0.0.1") -> str:
    return f"{scheme}://{host}:{listener.port}"


GET = Request("GET", "/health")


async def test_requests_reuse_one_connection() -> None:
    async with listening(answer_all) as server, session_to(local(server)) as session:
        for _ in range(3):
            assert (await session.send(GET)).body == b'{"status":"ok"}'
        await asyncio.gather(*(session.send(GET) for _ in range(2)))

    assert server.connections == 2


async def test_a_closed_idle_connection_is_replaced_before_anything_is_sent() -> None:
    seen: list[str] = []

    async def speak(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.say(OK)  # and hang up

    async with listening(speak) as server, session_to(local(server)) as session:
        for _ in range(3):
            await session.send(Request("DELETE", "/x"))
            await asyncio.sleep(0.05)

    assert (len(seen), server.connections) == (3, 3)


async def test_an_idle_connection_with_unexpected_data_is_not_reused() -> None:
    async with listening(once(OK + OK)) as server, session_to(local(server)) as session:
        for _ in range(2):
            assert (await session.send(GET)).status == 200
    assert server.connections == 2


async def test_a_request_whose_answer_is_lost_is_not_repeated_and_marked_in_doubt() -> None:
    seen: list[str] = []

    async def speak(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK)
        seen.append(await peer.request())

    async with listening(speak) as server, session_to(local(server)) as session:
        await session.send(GET)
        for method in ("PUT", "DELETE"):
            with pytest.raises(ServerOutOfReach, match=r"broke \(") as caught:
                await session.send(Request(method, "/x", body=b"{}"))
            assert caught.value.is_in_doubt
            await session.send(GET)
    assert len(seen) == 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SSH-2.0-x\r\n",
        OK[:-1],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
        b"HTTP/1.1 200 OK\r\n",
    ],
    ids=["nothing", "no HTTP", "short body", "short chunk", "short head"],
)
async def test_an_incomplete_answer_is_an_error(data: bytes) -> None:
    async with listening(once(data)) as server, session_to(local(server)) as session:
        with pytest.raises(ServerOutOfReach, match=r"The connection to http.* broke \(.+\)\."):
            await session.send(GET)


async def test_an_endless_response_head_is_not_read_forever() -> None:
    async def speak(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\n")
        while True:
            await peer.say(b"X: " + b"x" * 1_000 + b"\r\n")

    async with listening(speak) as server, session_to(local(server)) as session:
        with pytest.raises(ServerOutOfReach, match="broke"):
            await session.send(GET)


async def test_a_trickling_answer_ends_at_the_total_timeout() -> None:
    async def speak(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            await peer.say(b"x")
            await asyncio.sleep(0.02)

    async with listening(speak) as server, session_to(local(server), timeout=0.3) as session:
        with pytest.raises(ServerOutOfReach, match="did not answer in time"):
            await session.send(GET)


async def test_a_stream_lasts_as_long_as_data_keeps_coming() -> None:
    async def speak(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(5):
            await peer.say(b"1\r\nx\r\n")
            await asyncio.sleep(0.1)
        await asyncio.sleep(10)

    events = Request("GET", "/events", quiet_seconds=0.4)
    async with (
        listening(speak) as server,
        session_to(local(server), timeout=0.2) as session,
        session.stream(events) as parts,
    ):
        assert b"".join([await anext(parts) for _ in range(5)]) == b"xxxxx"
        with pytest.raises(ServerOutOfReach, match="did not answer in time"):
            await anext(parts)


async def test_a_large_answer_is_read_with_backpressure() -> None:
    sent = 0

    async def speak(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        for _ in range(100):
            await peer.say(b"x" * 1_000_000)
            sent += 1

    async with (
        listening(speak) as server,
        session_to(local(server)) as session,
        session.stream(Request("GET", "/x", quiet_seconds=5)) as parts,
    ):
        await anext(parts)
        await asyncio.sleep(0.3)
        assert sent < 20
        assert sum([len(part) async for part in parts]) > 90_000_000


async def test_an_upload_that_is_refused_halfway_shows_the_refusal() -> None:
    async def speak(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 100 Continue\r\n\r\n")
        await peer.reader.readexactly(10)
        await peer.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmuch")

    async def lines() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 10_000

    async with listening(speak) as server, session_to(local(server)) as session:
        with pytest.raises(ApiError, match="much") as caught:
            async with session.stream(Request("POST", "/x", body=lines(), quiet_seconds=5)):
                pass
    assert caught.value.status == 413


async def test_a_large_body_that_is_refused_at_once_shows_the_refusal() -> None:
    async def speak(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmuch")
        await asyncio.sleep(0.2)

    async with listening(speak) as server, session_to(local(server)) as session:
        assert (await session.send(Request("POST", "/x", body=b"x" * 8_000_000))).status == 413


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b", "é", "\x7f"])
async def test_header_injection_is_refused(value: str) -> None:
    async with listening(answer_all) as server, AsyncClient(local(server), retries=Retries(tries=1)) as client:
        with pytest.raises(ValueError, match="Idempotency-Key takes printable ASCII"):
            await client.jobs.trigger("x", idempotency_key=value)
    assert server.connections == 0


async def test_names_are_escaped_in_paths() -> None:
    seen: list[str] = []

    async def speak(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.say(OK)

    async with listening(speak) as server, AsyncClient(local(server), retries=Retries(tries=1)) as client:
        await client.jobs.delete("a/../b?x=1 HTTP/1.1\r\nX-Evil: 1\r\n\r\n")
    [head] = seen
    assert head.startswith(
        "DELETE /api/v1/jobs/a%2F..%2Fb%3Fx%3D1%20HTTP%2F1.1%0D%0AX-Evil%3A%201%0D%0A%0D%0A HTTP/1.1\r\n"
    )


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.ca_file)


async def test_a_certificate_of_the_right_name_is_accepted(authority: Authority, trusting: ssl.SSLContext) -> None:
    async with (
        listening(answer_all, authority.server("localhost")) as server,
        session_to(local(server, "https", "localhost"), tls=trusting) as session,
    ):
        for _ in range(2):
            assert (await session.send(GET)).status == 200
    assert server.connections == 1


async def test_a_certificate_of_another_name_or_authority_is_refused(
    authority: Authority, trusting: ssl.SSLContext
) -> None:
    async with listening(answer_all, authority.server("other.example")) as server:
        for tls in (trusting, None):
            async with session_to(local(server, "https", "localhost"), "hb_token", tls=tls) as session:
                with pytest.raises(
                    ServerOutOfReach, match=r"certificate is not accepted: .*; write the name"
                ) as caught:
                    await session.send(GET)
                assert not caught.value.is_in_doubt


@asynccontextmanager
async def proxying(monkeypatch: pytest.MonkeyPatch, *, status: int = 200) -> AsyncIterator[list[str]]:
    """A proxy in HTTP_PROXY and HTTPS_PROXY that answers plain requests itself, and lets tunnels through."""
    heads: list[str] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async def speak(peer: Peer) -> None:
        heads.append(await peer.request())
        method, target, _ = heads[-1].split(" ", 2)
        if method != "CONNECT":
            await peer.say(OK)
            return
        await peer.say(
            f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode() if status != 200 else b"HTTP/1.1 200 X\r\n\r\n"
        )
        if status == 200:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(target.rpartition(":")[2]))
            with suppress(ConnectionError):
                await asyncio.gather(copy(peer.reader, writer), copy(reader, peer.writer))

    async with listening(speak) as proxy:
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http://me:p%40ss@127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        yield heads


async def test_a_proxy_relays_plain_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(monkeypatch) as heads, session_to("http://bell.example:81/base", proxies=True) as session:
        assert (await session.send(Request("GET", "/health", {"q": "a b"}))).status == 200

    assert heads[0].startswith("GET http://bell.example:81/base/health?q=a+b HTTP/1.1\r\nHost: bell.example:81\r\n")
    assert "Proxy-Authorization: Basic bWU6cEBzcw==\r\n" in heads[0]


async def test_a_proxy_cannot_read_a_tunnel(
    monkeypatch: pytest.MonkeyPatch, authority: Authority, trusting: ssl.SSLContext
) -> None:
    seen: list[str] = []

    async def speak(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.say(OK)

    async with listening(speak, authority.server("localhost")) as server, proxying(monkeypatch) as heads:
        url = local(server, "https", "localhost")
        async with session_to(url, "hb_token", tls=trusting, proxies=True) as session:
            assert (await session.send(GET)).status == 200

    assert heads[0].startswith(f"CONNECT localhost:{server.port} HTTP/1.1\r\n")
    assert "hb_token" not in "".join(heads)
    assert "Bearer hb_token" in seen[0]
    assert "Proxy-Authorization" not in seen[0]


async def test_a_refusing_proxy_is_reported_and_nothing_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(monkeypatch, status=407), session_to("https://bell.example", proxies=True) as session:
        with pytest.raises(ServerOutOfReach, match=r"the proxy 127\.0\.0\.1 answers HTTP 407") as caught:
            await session.send(Request("DELETE", "/x"))
    assert not caught.value.is_in_doubt


async def test_hosts_in_no_proxy_bypass_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(monkeypatch) as heads, listening(answer_all) as server:
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        async with session_to(local(server), proxies=True) as session:
            assert (await session.send(GET)).status == 200
    assert heads == []


async def test_the_second_address_is_tried_if_the_first_one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    look_up = loop.getaddrinfo

    async def two(_host: str, port: int, **more: int) -> list[object]:
        return [*await look_up("127.0.0.2", port, **more), *await look_up("127.0.0.1", port, **more)]

    async with listening(answer_all) as server:
        monkeypatch.setattr(loop, "getaddrinfo", two)
        async with session_to(f"http://bell.example:{server.port}") as session:
            assert (await session.send(GET)).status == 200


async def test_closing_ends_requests_in_progress() -> None:
    async def speak(peer: Peer) -> None:
        await peer.request()
        await asyncio.sleep(10)

    async with listening(speak) as server, session_to(local(server)) as session:
        sending = asyncio.create_task(session.send(GET))
        await asyncio.sleep(0.1)
        await session.close()
        with pytest.raises(ServerOutOfReach):
            await sending
        with pytest.raises(RuntimeError, match="was closed"):
            await session.send(GET)
