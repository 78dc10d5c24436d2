"""Every transport survives slow, broken and hostile receivers: in time, with the correct outcome."""

import asyncio
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hourbell.targets.http.transport import MAX_RESPONSE_BYTES, Response, Transport, TransportError
from tests.targets.http import receivers
from tests.targets.http.receivers import (
    OK,
    Behaviour,
    Talk,
    answers,
    answers_and_closes,
    answers_and_hangs,
    answers_and_resets,
    drips,
    receiving,
    until,
)
from tests.targets.http.transports import TRANSPORTS, FakeEgressPolicy, a_request, yes

pytestmark = pytest.mark.anyio

LINE = b"HTTP/1.1 200 OK\r\n"
HEAD = LINE + b"Content-Length: 20\r\n\r\n"
CHUNKED = LINE + b"Transfer-Encoding: chunked\r\n\r\n"
CLOSED = "the connection was closed before an answer came"
NOT_HTTP = "the answer is not HTTP"
TOO_LONG = "the answer's headers are longer than 64 KiB"
TOO_MANY = "the answer has more than 256 headers"
NO_ANSWER = "no answer within 1 s"

WITHOUT_AN_ANSWER: dict[str, tuple[Behaviour, str]] = {
    "silent": (answers_and_hangs(), NO_ANSWER),
    "slow_headers": (drips(LINE, b"A: b\r\n" * 99), NO_ANSWER),
    "stops_inside_the_headers": (answers_and_hangs(LINE + b"Content-"), NO_ANSWER),
    "interim_and_no_more": (answers_and_hangs(b"HTTP/1.1 102 Processing\r\n\r\n"), NO_ANSWER),
    "closes": (answers_and_closes(), CLOSED),
    "closes_inside_the_headers": (answers_and_closes(LINE + b"Content-Length: 2\r\n"), CLOSED),
    "closes_after_an_interim_answer": (answers_and_closes(b"HTTP/1.1 100 Continue\r\n\r\n"), CLOSED),
    "resets": (answers_and_resets(), "the connection was reset before an answer came"),
    "speaks_another_protocol": (answers_and_hangs(b"220 mail.example ESMTP\r\n\r\n"), NOT_HTTP),
    "speaks_binary": (answers_and_hangs(bytes(range(256))), NOT_HTTP),
    "status_is_no_number": (answers_and_hangs(b"HTTP/1.1 abc OK\r\n\r\n"), NOT_HTTP),
    "status_below_100": (answers_and_hangs(b"HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n"), NOT_HTTP),
    "header_without_a_colon": (answers_and_hangs(LINE + b"nonsense\r\n\r\n"), NOT_HTTP),
    "two_lengths": (answers_and_hangs(LINE + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), NOT_HTTP),
    "switches_protocols": (
        answers_and_hangs(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
        "the answer switches to another protocol, which was not asked for",
    ),
    "header_of_ten_mebibytes": (answers_and_hangs(LINE + b"A: " + b"x" * 10_485_760 + b"\r\n\r\n"), TOO_LONG),
    "headers_just_too_long": (answers_and_hangs(LINE + (b"A: " + b"b" * 325 + b"\r\n") * 200 + b"\r\n"), TOO_LONG),
    "a_header_too_many": (answers_and_hangs(LINE + b"A: b\r\n" * 257 + b"\r\n"), TOO_MANY),
    "endless_tiny_headers": (receivers.ENDLESS_TINY_HEADERS, TOO_MANY),
    "endless_header": (receivers.ENDLESS_HEADER, TOO_LONG),
    "endless_headers": (receivers.ENDLESS_HEADERS, TOO_LONG),
    "endless_status_line": (receivers.ENDLESS_STATUS, TOO_LONG),
    "interim_answer_with_a_long_body": (
        answers_and_hangs(b"HTTP/1.1 104 X\r\nContent-Length: 100000\r\n\r\n" + bytes(100_000)),
        TOO_LONG,
    ),
    "endless_interim_answers": (receivers.ENDLESS_INTERIM, TOO_LONG),
}

# With what comes of the body, and a timeout that is not waited for unless the receiver just hangs.
WITH_HALF_AN_ANSWER: dict[str, tuple[Behaviour, bytes, float]] = {
    "hangs_after_the_headers": (answers_and_hangs(HEAD), b"", 1),
    "hangs_inside_the_body": (answers_and_hangs(HEAD + b"half"), b"half", 1),
    "closes_inside_the_body": (answers_and_closes(HEAD + b"half"), b"half", 60),
    "resets_inside_the_body": (answers_and_resets(HEAD + b"half"), b"half", 60),
    "resets_where_the_end_is_unknown": (answers_and_resets(b"HTTP/1.0 200 OK\r\n\r\nhalf"), b"half", 60),
    "closes_inside_a_chunk": (answers_and_closes(CHUNKED + b"9\r\nhalf"), b"half", 60),
    "bad_chunk_size": (answers_and_hangs(CHUNKED + b"4\r\nhalf\r\nnonsense\r\n"), b"half", 60),
    "bad_chunk_size_at_once": (answers_and_hangs(CHUNKED + b"nonsense\r\n"), b"", 60),
    "bad_chunk_size_later": (answers_and_hangs(CHUNKED, b"4\r\nhalf\r\n", b"nonsense\r\n"), b"half", 60),
    "bad_trailer": (answers_and_hangs(CHUNKED + b"4\r\nhalf\r\n0\r\nnonsense\r\n\r\n"), b"half", 60),
    "endless_chunk_size": (receivers.ENDLESS_CHUNK_SIZE, b"", 60),
    "endless_trailers": (receivers.ENDLESS_TRAILERS, b"", 60),
    "endless_tiny_trailers": (receivers.ENDLESS_TINY_TRAILERS, b"", 60),
    "endless_tiny_chunks": (receivers.ENDLESS_TINY_CHUNKS, b"x" * 101, 60),
}


WITH_TOO_MUCH: dict[str, Behaviour] = {
    "a_gibibyte": receivers.BIG_BODY,
    "an_endless_body": receivers.ENDLESS_BODY,
    "endless_chunks": receivers.ENDLESS_CHUNKS,
}

GREEDY = [
    *WITH_TOO_MUCH.values(),
    receivers.GZIP_BOMB,
    receivers.ENDLESS_CHUNK_SIZE,
    receivers.ENDLESS_TINY_CHUNKS,
    receivers.ENDLESS_TRAILERS,
    receivers.ENDLESS_TINY_TRAILERS,
    receivers.ENDLESS_TINY_HEADERS,
    receivers.ENDLESS_HEADER,
    receivers.ENDLESS_HEADERS,
    receivers.ENDLESS_STATUS,
    receivers.ENDLESS_INTERIM,
    receivers.ENDLESS_ANSWERS,
]


async def send(transport: Transport, port: int, *, timeout: float = 1, body: bytes = b"{}") -> Response:
    """A response that takes much longer than a second fails, whatever the request's own timeout."""
    async with asyncio.timeout(6):
        return await transport.send(a_request(port, timeout=timeout, body=body), yes)


@pytest.mark.parametrize(("behaviour", "message"), WITHOUT_AN_ANSWER.values(), ids=WITHOUT_AN_ANSWER)
async def test_without_an_answer_the_attempt_fails_in_time_and_says_why(
    transport: Transport, behaviour: Behaviour, message: str
) -> None:
    async with receiving(behaviour) as receiver:
        with pytest.raises(TransportError) as failed:
            await send(transport, receiver.port, timeout=1 if message == NO_ANSWER else 60)
        await until(lambda: receiver.open == 0)

    assert (str(failed.value), failed.value.begun) == (message, True)
    assert list(failed.value.phases) == ["dns", "connect", "wait"]
    assert (receiver.connections, len(receiver.requests)) == (1, 1)


@pytest.mark.parametrize(("behaviour", "body", "timeout"), WITH_HALF_AN_ANSWER.values(), ids=WITH_HALF_AN_ANSWER)
async def test_an_answer_counts_whatever_becomes_of_its_body(
    transport: Transport, behaviour: Behaviour, body: bytes, timeout: float
) -> None:
    async with receiving(behaviour) as receiver:
        response = await send(transport, receiver.port, timeout=timeout)
        await until(lambda: receiver.open == 0)

    assert (response.status, response.body, response.is_whole) == (200, body, False)
    assert list(response.phases) == ["dns", "connect", "wait", "read"]
    assert (receiver.connections, len(receiver.requests)) == (1, 1)


@pytest.mark.parametrize("behaviour", WITH_TOO_MUCH.values(), ids=WITH_TOO_MUCH)
async def test_only_the_beginning_of_a_body_over_the_limit_is_read(transport: Transport, behaviour: Behaviour) -> None:
    async with receiving(behaviour) as receiver:
        response = await send(transport, receiver.port, timeout=60)
        await until(lambda: receiver.open == 0)

    assert (response.status, response.body, response.is_whole) == (200, b"x" * MAX_RESPONSE_BYTES, False)
    assert (receiver.connections, len(receiver.requests)) == (1, 1)


async def test_a_slow_body_ends_with_the_attempts_time(transport: Transport) -> None:
    async with receiving(drips(HEAD, b"x" * 20)) as receiver:
        response = await send(transport, receiver.port)

    assert (response.status, response.is_whole) == (200, False)
    assert 0 < len(response.body) < 20


async def test_a_body_that_trickles_for_ever_is_left_long_before_the_attempts_time(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hourbell.targets.http.client.MAX_BODY_SECONDS", 0.5)
    async with receiving(drips(LINE + b"Content-Length: 99999\r\n\r\n", b"x" * 99_999)) as receiver:
        response = await send(transport, receiver.port, timeout=60)
        await until(lambda: receiver.open == 0)

    assert (response.status, response.is_whole) == (200, False)
    assert 0 < len(response.body) < 99_999


async def test_headers_just_short_enough_are_taken(transport: Transport) -> None:
    header = b"A: " + b"b" * 245 + b"\r\n"
    said = LINE + header * 255 + b"Content-Length: 200000\r\n\r\n" + bytes(200_000)
    async with receiving(answers(said)) as receiver:
        response = await send(transport, receiver.port, timeout=60)

    assert (response.status, len(response.headers)) == (200, 256)


async def test_nothing_is_decompressed(transport: Transport) -> None:
    async with receiving(receivers.GZIP_BOMB) as receiver:
        response = await send(transport, receiver.port, timeout=60)

    assert response.body == receivers.PACKED[:MAX_RESPONSE_BYTES]


async def test_more_answers_than_requests_do_no_harm(transport: Transport) -> None:
    async with receiving(receivers.ENDLESS_ANSWERS) as receiver:
        response = await send(transport, receiver.port, timeout=60)
        await until(lambda: receiver.open == 0)

    assert (response.status, response.body, len(receiver.requests)) == (200, b"ok", 1)


async def test_a_receiver_that_reads_nothing_is_left_in_time_with_the_rest_unsent(transport: Transport) -> None:
    is_left = asyncio.Event()

    async def behave(talk: Talk) -> None:
        await is_left.wait()
        await talk.hang_on()

    async with receiving(behave) as receiver:
        with pytest.raises(TransportError, match=r"^no answer within 1 s$") as failed:
            await send(transport, receiver.port, body=bytes(16_777_216))
        is_left.set()
        await until(lambda: receiver.open == 0)

    assert failed.value.begun
    assert receiver.bytes_read < 16_777_216


async def test_a_receiver_that_never_accepts_is_left_in_time(transport: Transport) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(TransportError, match=r"^no answer within 1 s$") as failed:
            await send(transport, listener.getsockname()[1])
        await asyncio.sleep(0.05)
        accepted, _ = listener.accept()
        with accepted:
            accepted.settimeout(10)
            assert accepted.recv(65_536).startswith(b"POST /hook")
            assert accepted.recv(1) == b""

    assert failed.value.begun


async def test_a_connection_that_does_not_come_about_is_given_up_in_time(transport: Transport) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:  # until the listener's queue is full, so that it answers nobody else
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        with pytest.raises(TransportError, match=r"^no connection within 1 s$") as failed:
            await send(transport, port)
        for each in waiting:
            each.close()

    assert (failed.value.begun, list(failed.value.phases)) == (False, ["dns", "connect"])


async def test_a_closed_port_is_reported_at_once(transport: Transport) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(TransportError) as failed:
        await send(transport, port)

    assert str(failed.value) == f"connection refused by 127.0.0.1 port {port}"
    assert (failed.value.begun, list(failed.value.phases)) == (False, ["dns", "connect"])


async def test_a_look_up_that_hangs_ends_with_the_attempts_time(transport: Transport, policy: FakeEgressPolicy) -> None:
    policy.is_stuck = True
    with pytest.raises(TransportError) as failed:
        await send(transport, 80)

    assert str(failed.value) == "the name was not looked up within 1 s"
    assert (failed.value.begun, list(failed.value.phases)) == (False, ["dns"])


async def test_a_leave_that_hangs_ends_with_the_attempts_time(transport: Transport) -> None:
    async def begin() -> bool:
        await asyncio.sleep(60)
        return True

    async with receiving(answers(OK)) as receiver, asyncio.timeout(6):
        with pytest.raises(TransportError) as failed:
            await transport.send(a_request(receiver.port, timeout=1), begin)

    assert str(failed.value) == "the 1 s of the attempt were over before the request was sent"
    assert (failed.value.begun, receiver.bytes_read) == (False, 0)


@pytest.mark.parametrize("name", TRANSPORTS)
async def test_no_receiver_makes_the_memory_grow(name: str) -> None:
    root = Path(__file__).parents[3]
    async with AsyncExitStack() as stack:
        ports = [(await stack.enter_async_context(receiving(kind))).port for kind in (answers(OK), *GREEDY)]
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.targets.http.growth", name, *map(str, ports)),
            cwd=root,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await child.communicate()

    assert child.returncode == 0
    assert int(output) <= 50 * 1024
