"""Connection reuse of every transport; a request is never sent twice because of it."""

import asyncio

import pytest

from hourbell.targets.http.transport import Transport, TransportError
from tests.targets.http.receivers import (
    OK,
    Talk,
    answers,
    answers_and_closes,
    answers_and_closes_later,
    answers_at_once_and_reads_nothing,
    answers_once_then_reads_and_closes,
    answers_twice,
    receiving,
    until,
)
from tests.targets.http.transports import a_request, yes

pytestmark = pytest.mark.anyio


async def test_a_connection_is_used_again(transport: Transport) -> None:
    async with receiving(answers(OK)) as receiver:
        for _ in range(5):
            await transport.send(a_request(receiver.port), yes)

    assert (receiver.connections, len(receiver.requests)) == (1, 5)


@pytest.mark.parametrize(
    "said",
    [
        OK + b"\r\n",
        OK + b"\n\n\n\n\n\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
    ],
)
async def test_a_connection_is_left_after_an_answer_whose_end_others_see_elsewhere(
    transport: Transport, said: bytes
) -> None:
    async with receiving(answers(said)) as receiver:
        for _ in range(2):
            assert (await transport.send(a_request(receiver.port), yes)).status == 200

    assert receiver.connections == 2


async def test_a_connection_is_used_for_its_own_name_only(transport: Transport) -> None:
    async with receiving(answers(OK)) as receiver:
        await transport.send(a_request(receiver.port, host="one.example"), yes)
        await transport.send(a_request(receiver.port, host="two.example"), yes)

    assert receiver.connections == 2


@pytest.mark.parametrize("method", ["POST", "GET", "PUT", "DELETE"])
async def test_no_request_is_sent_twice_when_a_kept_connection_closes_on_it(transport: Transport, method: str) -> None:
    async with receiving(answers_once_then_reads_and_closes) as receiver:
        await transport.send(a_request(receiver.port, method, path="/first"), yes)
        with pytest.raises(TransportError) as failed:
            await transport.send(a_request(receiver.port, method, path="/second"), yes)
        await asyncio.sleep(0.05)

    assert str(failed.value) == "the connection was closed before an answer came"
    assert failed.value.begun
    assert [request.split()[1] for request in receiver.requests] == [b"/first", b"/second"]
    assert receiver.connections == 1


async def test_a_connection_that_closed_while_idle_is_not_used(transport: Transport) -> None:
    async with receiving(answers_and_closes_later(OK)) as receiver:

        async def begin() -> bool:
            await until(lambda: receiver.connections == len(receiver.requests) + 1)
            return True

        for _ in range(3):
            assert (await transport.send(a_request(receiver.port), begin)).status == 200
            await until(lambda: receiver.open == 0)
            await asyncio.sleep(0.05)

    assert (receiver.connections, len(receiver.requests)) == (3, 3)


async def test_a_connection_that_closes_with_its_answer_is_not_used(transport: Transport) -> None:
    async with receiving(answers_and_closes(OK)) as receiver:
        statuses = [(await transport.send(a_request(receiver.port), yes)).status for _ in range(10)]

    assert (statuses, len(receiver.requests)) == ([200] * 10, 10)


async def test_a_connection_that_closes_during_begin_is_replaced(transport: Transport) -> None:
    close = asyncio.Event()

    async def behave(talk: Talk) -> None:
        await talk.request()
        await talk.say(OK)
        await close.wait()

    async with receiving(behave) as receiver:
        begins = 0

        async def begin() -> bool:
            nonlocal begins
            begins += 1
            close.set()
            await until(lambda: receiver.open == 0)
            return True

        await transport.send(a_request(receiver.port), yes)
        response = await transport.send(a_request(receiver.port), begin)
    assert (response.status, begins, len(receiver.requests)) == (200, 1, 2)


async def test_an_answer_nobody_asked_for_is_not_taken_for_the_next_one(transport: Transport) -> None:
    async with receiving(answers_twice) as receiver:
        first = await transport.send(a_request(receiver.port), yes)
        await asyncio.sleep(0.2)
        second = await transport.send(a_request(receiver.port), yes)

    assert (first.status, second.status, receiver.connections) == (200, 200, 2)


@pytest.mark.parametrize(
    "said",
    [
        OK + b"and more",
        OK + OK,
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\nbody",
    ],
)
async def test_a_connection_with_an_unusual_response_is_not_reused(transport: Transport, said: bytes) -> None:
    async with receiving(answers(said)) as receiver:
        for _ in range(2):
            response = await transport.send(a_request(receiver.port), yes)
            assert 200 <= response.status < 300
            assert response.is_whole

    assert (receiver.connections, len(receiver.requests)) == (2, 2)


async def test_a_connection_with_half_a_request_on_it_is_not_kept(transport: Transport) -> None:
    async with receiving(answers_at_once_and_reads_nothing) as receiver:
        for _ in range(2):
            response = await transport.send(a_request(receiver.port, body=bytes(16_777_216)), yes)
            assert response.status == 413

    assert receiver.connections == 2


async def test_ten_idle_connections_to_a_host_are_kept(transport: Transport) -> None:
    together = asyncio.Barrier(30)

    async def begin() -> bool:
        await together.wait()
        return True

    async with receiving(answers(OK)) as receiver:
        await asyncio.gather(*(transport.send(a_request(receiver.port), begin) for _ in range(30)))
        assert receiver.connections == 30
        await until(lambda: receiver.open <= 10)
        await asyncio.sleep(0.3)
        assert receiver.open == 10


async def test_a_hundred_idle_connections_are_kept_in_all(transport: Transport) -> None:
    async def send(port: int, number: int) -> None:
        await transport.send(a_request(port, host=f"host-{number}.example"), yes)

    async with receiving(answers(OK)) as receiver:
        await asyncio.gather(*(send(receiver.port, number) for number in range(120)))
        assert receiver.connections == 120
        await until(lambda: receiver.open <= 100)
        await asyncio.sleep(0.3)
        assert receiver.open == 100
