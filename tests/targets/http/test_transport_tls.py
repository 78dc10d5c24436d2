"""Every transport verifies certificates, and explains an invalid one."""

import asyncio
import ssl
import warnings
from pathlib import Path

import pytest

from hourbell.targets.http.transport import Transport, TransportError
from tests.targets.http.certificates import Authority, self_signed_server
from tests.targets.http.receivers import (
    OK,
    Behaviour,
    Receiver,
    Talk,
    answers,
    answers_and_closes,
    answers_at_once_and_reads_nothing,
    receiving,
    until,
)
from tests.targets.http.transports import NAME, a_request, yes

pytestmark = pytest.mark.anyio


async def refusal(transport: Transport, receiver: Receiver) -> str:
    """Return the error of a request over TLS that is not sent."""
    with pytest.raises(TransportError) as failed:
        await transport.send(a_request(receiver.port, scheme="https", timeout=1), yes)
    assert (failed.value.begun, receiver.requests) == (False, [])
    assert list(failed.value.phases) == ["dns", "connect", "tls"]
    return str(failed.value)


async def test_a_trusted_receiver_gets_the_request(transport: Transport, authority: Authority) -> None:
    async with receiving(answers(OK), tls=authority.server(NAME)) as receiver:
        first = await transport.send(a_request(receiver.port, scheme="https"), yes)
        second = await transport.send(a_request(receiver.port, scheme="https"), yes)

    assert (first.status, list(first.phases)) == (200, ["dns", "connect", "tls", "wait", "read"])
    assert (second.status, list(second.phases)) == (200, ["dns", "wait", "read"])
    assert receiver.connections == 1


async def test_a_connection_with_half_a_request_on_it_is_not_kept(transport: Transport, authority: Authority) -> None:
    async with receiving(answers_at_once_and_reads_nothing, tls=authority.server(NAME)) as receiver:
        for _ in range(2):
            response = await transport.send(a_request(receiver.port, scheme="https", body=bytes(16_777_216)), yes)
            assert response.status == 413

    assert receiver.connections == 2


async def test_the_name_of_the_url_is_asked_for(transport: Transport, authority: Authority) -> None:
    asked: list[str | None] = []
    server = authority.server(NAME)
    server.sni_callback = lambda _, name, __: asked.append(name)
    async with receiving(answers(OK), tls=server) as receiver:
        await transport.send(a_request(receiver.port, scheme="https"), yes)

    assert asked == [NAME]
    assert f"Host: {NAME}:{receiver.port}".encode() in receiver.requests[0]


async def test_a_certificate_may_be_for_an_address(transport: Transport, authority: Authority) -> None:
    async with receiving(answers(OK), tls=authority.server("127.0.0.1")) as receiver:
        response = await transport.send(a_request(receiver.port, scheme="https", host="127.0.0.1"), yes)

    assert response.status == 200


async def test_an_expired_certificate_is_refused(transport: Transport, authority: Authority) -> None:
    async with receiving(answers(OK), tls=authority.expired_server(NAME)) as receiver:
        assert await refusal(transport, receiver) == "the certificate has expired"


async def test_a_certificate_for_another_name_is_refused(transport: Transport, authority: Authority) -> None:
    async with receiving(answers(OK), tls=authority.server("another.example")) as receiver:
        assert await refusal(transport, receiver) == "the certificate is for another name"


async def test_a_self_signed_certificate_is_refused(transport: Transport, tmp_path: Path) -> None:
    async with receiving(answers(OK), tls=self_signed_server(NAME, tmp_path)) as receiver:
        assert await refusal(transport, receiver) == "the certificate is not trusted (self-signed)"


async def test_a_certificate_of_an_unknown_authority_is_refused(transport: Transport, tmp_path: Path) -> None:
    async with receiving(answers(OK), tls=Authority(tmp_path).server(NAME)) as receiver:
        assert await refusal(transport, receiver) == "the certificate is not trusted (unknown authority)"


async def test_a_receiver_with_old_tls_only_is_refused(transport: Transport, authority: Authority) -> None:
    server = authority.server(NAME)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        server.minimum_version = server.maximum_version = ssl.TLSVersion.TLSv1_1
    server.set_ciphers("ALL:@SECLEVEL=0")
    async with receiving(answers(OK), tls=server) as receiver:
        await refusal(transport, receiver)


async def greets(talk: Talk) -> None:
    await talk.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await talk.hang_on()


async def wants_an_older_version(talk: Talk) -> None:
    await talk.read()
    await talk.say(bytes.fromhex("15 0301 0002 02 46"))  # a fatal alert: protocol_version
    await talk.hang_on()


async def closes(talk: Talk) -> None:
    await talk.read()


async def listens(talk: Talk) -> None:
    await talk.hang_on()


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (greets, "the receiver does not speak TLS on this port"),
        (wants_an_older_version, "the receiver speaks no TLS from version 1.2 on"),
        (closes, "the connection was closed during the TLS handshake"),
        (listens, "the TLS handshake did not end within 1 s"),
    ],
)
async def test_a_server_without_tls_is_reported(transport: Transport, behaviour: Behaviour, message: str) -> None:
    async with receiving(behaviour) as receiver, asyncio.timeout(6):
        assert await refusal(transport, receiver) == message
        await until(lambda: receiver.open == 0)


async def test_tls_where_none_is_expected_is_not_http(transport: Transport, authority: Authority) -> None:
    async with receiving(answers(OK), tls=authority.server(NAME)) as receiver:
        with pytest.raises(TransportError) as failed:
            await transport.send(a_request(receiver.port), yes)

    assert failed.value.begun


async def test_cancelling_during_the_handshake_closes_the_connection(transport: Transport) -> None:
    async with receiving(listens) as receiver:
        sending = asyncio.ensure_future(transport.send(a_request(receiver.port, scheme="https"), yes))
        await until(lambda: receiver.bytes_read > 0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await until(lambda: receiver.open == 0)


async def test_an_answer_counts_when_its_tls_connection_breaks(transport: Transport, authority: Authority) -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"
    async with receiving(answers_and_closes(said), tls=authority.server(NAME)) as receiver:
        response = await transport.send(a_request(receiver.port, scheme="https"), yes)

    assert (response.status, response.body, response.is_whole) == (200, b"half", False)
