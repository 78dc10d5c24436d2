"""Every transport awaits `begin` before it sends; and the effects of a stopped attempt."""

import asyncio
from dataclasses import replace

import pytest

from hourbell.targets.http.addresses import Address
from hourbell.targets.http.transport import NotBegun, Response, Transport, TransportError
from tests.targets.http.receivers import OK, Receiver, Talk, answers, answers_and_hangs, receiving, until
from tests.targets.http.transports import FakeEgressPolicy, a_request, no, yes

pytestmark = pytest.mark.anyio


async def test_begin_is_awaited_once_when_connected_and_before_anything_is_sent(transport: Transport) -> None:
    seen: list[tuple[int, int]] = []

    async with receiving(answers(OK)) as receiver:

        async def begin() -> bool:
            await until(lambda: receiver.open == 1)
            await asyncio.sleep(0.05)
            seen.append((receiver.connections, receiver.bytes_read))
            return True

        assert (await transport.send(a_request(receiver.port), begin)).status == 200
    assert seen == [(1, 0)]


async def test_begin_comes_before_the_bytes_on_a_kept_connection_too(transport: Transport) -> None:
    seen: list[int] = []

    async with receiving(answers(OK)) as receiver:

        async def begin() -> bool:
            await asyncio.sleep(0.05)
            seen.append(len(receiver.requests))
            return True

        await transport.send(a_request(receiver.port), begin)
        await transport.send(a_request(receiver.port), begin)
    assert seen == [0, 1]
    assert receiver.connections == 1


async def test_without_permission_to_begin_nothing_is_sent_and_the_connection_is_closed(transport: Transport) -> None:
    async with receiving(answers(OK)) as receiver:
        with pytest.raises(NotBegun):
            await transport.send(a_request(receiver.port), no)
        await until(lambda: receiver.connections == 1 and receiver.open == 0)

    assert receiver.bytes_read == 0


async def test_an_exception_from_begin_propagates_and_closes_the_connection(transport: Transport) -> None:
    async def begin() -> bool:
        raise TimeoutError("the database does not answer")

    async with receiving(answers(OK)) as receiver:
        with pytest.raises(TimeoutError, match="the database does not answer"):
            await transport.send(a_request(receiver.port), begin)
        await until(lambda: (receiver.connections, receiver.open) == (1, 0))

    assert receiver.bytes_read == 0


async def test_a_new_connection_that_closes_during_begin_has_carried_nothing(transport: Transport) -> None:
    async def behave(talk: Talk) -> None:
        """Hang up at once."""

    async with receiving(behave) as receiver:

        async def begin() -> bool:
            await until(lambda: (receiver.connections, receiver.open) == (1, 0))
            await asyncio.sleep(0.05)
            return True

        with pytest.raises(TransportError) as failed:
            await transport.send(a_request(receiver.port), begin)

    assert str(failed.value) == "the connection was closed before an answer came"
    assert (failed.value.begun, receiver.bytes_read) == (False, 0)


async def test_a_receiver_that_sends_before_the_request_got_nothing(transport: Transport) -> None:
    async def behave(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
        await talk.hang_on()

    async def begin() -> bool:
        await asyncio.sleep(0.1)
        return True

    async with receiving(behave) as receiver:
        with pytest.raises(TransportError) as failed:
            await transport.send(a_request(receiver.port), begin)
        await until(lambda: receiver.open == 0)

    assert str(failed.value) == "the receiver sent data before the request"
    assert (failed.value.begun, receiver.bytes_read) == (False, 0)


@pytest.mark.parametrize("value", ["s3cret\r\nX-Other: 1", "s3cret\nX-Other: 1", "a\rb", "a\0b", "half \ud800"])
async def test_a_request_that_http_cannot_carry_is_not_sent(transport: Transport, value: str) -> None:
    async with receiving(answers(OK)) as receiver:
        request = replace(a_request(receiver.port), headers={"X-Note": value})
        with pytest.raises(TransportError) as failed:
            await transport.send(request, yes)
        await until(lambda: (receiver.connections, receiver.open) == (1, 0))

    assert str(failed.value) == "the request has a method or a header that HTTP cannot carry"
    assert (failed.value.begun, receiver.bytes_read) == (False, 0)


async def test_cancelling_closes_the_connection(transport: Transport) -> None:
    async with receiving(answers_and_hangs(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")) as receiver:
        sending = asyncio.ensure_future(transport.send(a_request(receiver.port), yes))
        await until(lambda: len(receiver.requests) == 1)
        await _cancel(sending, receiver)


async def test_cancelling_during_begin_closes_the_connection(transport: Transport) -> None:
    async def begin() -> bool:
        await asyncio.sleep(60)
        return True

    async with receiving(answers(OK)) as receiver:
        sending = asyncio.ensure_future(transport.send(a_request(receiver.port), begin))
        await until(lambda: receiver.open == 1)
        await _cancel(sending, receiver)
    assert receiver.bytes_read == 0


async def _cancel(sending: "asyncio.Future[Response]", receiver: Receiver) -> None:
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await until(lambda: receiver.open == 0)


async def test_closing_ends_what_is_idle_and_what_is_not(transport: Transport) -> None:
    async with receiving(answers(OK)) as good, receiving(answers_and_hangs()) as mute:
        await transport.send(a_request(good.port), yes)
        sending = asyncio.ensure_future(transport.send(a_request(mute.port), yes))
        await until(lambda: len(mute.requests) == 1)
        await transport.close()

        async with asyncio.timeout(3):  # long before either would end by itself
            with pytest.raises(TransportError):
                await sending
            await until(lambda: (good.open, mute.open) == (0, 0))


async def test_closing_leaves_an_answer_that_would_end_with_its_connection_in_half(transport: Transport) -> None:
    async with receiving(answers_and_hangs(b"HTTP/1.0 200 OK\r\n\r\nhalf")) as receiver:
        sending = asyncio.ensure_future(transport.send(a_request(receiver.port), yes))
        await until(lambda: len(receiver.requests) == 1)
        await asyncio.sleep(0.1)
        await transport.close()
        response = await sending

    assert (response.status, response.body, response.is_whole) == (200, b"half", False)


async def test_nothing_is_sent_after_closing(transport: Transport) -> None:
    await transport.close()
    async with receiving(answers(OK)) as receiver:
        with pytest.raises(TransportError) as failed:
            await transport.send(a_request(receiver.port), yes)
        await asyncio.sleep(0.05)

    assert (failed.value.begun, receiver.connections) == (False, 0)


async def test_nothing_is_sent_on_a_connection_that_opens_while_closing(
    transport: Transport, policy: FakeEgressPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing: list[asyncio.Future[None]] = []

    def forbids(address: Address, port: int) -> None:
        del address, port
        closing.append(asyncio.ensure_future(transport.close()))

    monkeypatch.setattr(policy, "forbids", forbids)
    async with receiving(answers(OK)) as receiver:
        with pytest.raises(TransportError) as failed:
            await transport.send(a_request(receiver.port), yes)
        await closing[0]
        await until(lambda: (receiver.connections, receiver.open) == (1, 0))

    assert (failed.value.begun, receiver.bytes_read) == (False, 0)
