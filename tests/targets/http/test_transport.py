"""Requests of every transport, and responses of well-behaved receivers."""

from dataclasses import replace

import pytest

from hourbell.targets.http.transport import MAX_RESPONSE_BYTES, Transport
from tests.targets.http.receivers import OK, answers, answers_and_closes, answers_at_once_and_reads_nothing, receiving
from tests.targets.http.transports import a_request, yes

pytestmark = pytest.mark.anyio

ANSWERS = {
    "with_a_body": (OK, 200, b"ok"),
    "empty": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "not_found": (b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone", 404, b"gone"),
    "error": (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", 500, b""),
    "chunked": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nA: b\r\n\r\n",
        200,
        b"abcde",
    ),
    "after_interim_ones": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK,
        200,
        b"ok",
    ),
    "after_an_interim_one_with_a_body": (b"HTTP/1.1 104 X\r\nContent-Length: 5\r\n\r\nfirst" + OK, 200, b"ok"),
    "with_an_offer_to_upgrade": (
        b"HTTP/1.1 200 OK\r\nConnection: Upgrade, Keep-Alive\r\nUpgrade: h2,h2c\r\nContent-Length: 2\r\n\r\nok",
        200,
        b"ok",
    ),
    "lines_without_carriage_returns": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, b"ok"),
    "without_a_phrase": (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
    "not_modified": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, b""),
    "as_long_as_is_read": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n" + b"x" * MAX_RESPONSE_BYTES,
        200,
        b"x" * MAX_RESPONSE_BYTES,
    ),
}


@pytest.mark.parametrize(("said", "status", "body"), ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_comes_back_as_it_was_given(
    transport: Transport, said: bytes, status: int, body: bytes
) -> None:
    async with receiving(answers(said)) as receiver:
        response = await transport.send(a_request(receiver.port), yes)

    assert (response.status, response.body, response.is_whole) == (status, body, True)
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(("said", "status", "body"), ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_may_come_a_byte_at_a_time(transport: Transport, said: bytes, status: int, body: bytes) -> None:
    bytewise = [said[at : at + 1] for at in range(200)] + [said[200:]]
    async with receiving(answers(*bytewise)) as receiver:
        response = await transport.send(a_request(receiver.port), yes)

    assert (response.status, response.body, response.is_whole) == (status, body, True)


@pytest.mark.parametrize("head", [b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n"])
async def test_an_answer_may_end_with_its_connection(transport: Transport, head: bytes) -> None:
    async with receiving(answers_and_closes(head + b"\r\nuntil the end")) as receiver:
        response = await transport.send(a_request(receiver.port), yes)

    assert (response.status, response.body, response.is_whole) == (200, b"until the end", True)


async def test_headers_keep_their_order_spelling_and_repetitions(transport: Transport) -> None:
    lines = [b"X-One: 1", b"retry-after: 1000000000\t ", b"X-One: \xe2\x82\xac\xff", b"Void:", b"Content-Length: 0"]
    async with receiving(answers(b"\r\n".join([b"HTTP/1.1 503 Busy", *lines, b"", b""]))) as receiver:
        response = await transport.send(a_request(receiver.port), yes)

    expected = (
        ("X-One", "1"),
        ("retry-after", "1000000000"),
        ("X-One", "€\ufffd"),
        ("Void", ""),
        ("Content-Length", "0"),
    )
    assert response.headers == expected


async def test_headers_and_trailers_of_interim_answers_are_dropped(transport: Transport) -> None:
    interim = b"HTTP/1.1 104 X\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-C: d\r\n\r\n"
    async with receiving(answers(interim + OK)) as receiver:
        response = await transport.send(a_request(receiver.port), yes)

    assert (response.headers, response.body) == ((("Content-Length", "2"),), b"ok")


async def test_a_request_has_the_given_and_the_required_headers(transport: Transport) -> None:
    path = "/a%2Fb/../c;d?x=%20y&z={}&token=%73"
    async with receiving(answers(OK)) as receiver:
        await transport.send(a_request(receiver.port, "PUT", path=path, body=b"\x00body"), yes)
        head, _, body = receiver.requests[0].partition(b"\r\n\r\n")

    first, *lines = head.decode().split("\r\n")
    assert first == f"PUT {path} HTTP/1.1"
    assert sorted(lines, key=str.lower) == [
        "Accept-Encoding: identity",
        "Authorization: Bearer s3cret",
        "Content-Length: 5",
        f"Host: hook.example:{receiver.port}",
    ]
    assert body == b"\x00body"


async def test_headers_that_http_needs_are_sent_once(transport: Transport) -> None:
    spelled = {"host": "other.example", "content-length": "1", "ACCEPT-ENCODING": "gzip"}
    async with receiving(answers(OK)) as receiver:
        await transport.send(replace(a_request(receiver.port, body=b"body"), headers=spelled), yes)

    lines = receiver.requests[0].partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    expected = ["Accept-Encoding: identity", "Content-Length: 4", f"Host: hook.example:{receiver.port}"]
    assert sorted(lines) == expected


@pytest.mark.parametrize(("method", "length"), [("GET", []), ("POST", [b"Content-Length: 0"])])
async def test_a_request_may_have_no_body(transport: Transport, method: str, length: list[bytes]) -> None:
    async with receiving(answers(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as receiver:
        response = await transport.send(a_request(receiver.port, method, body=b""), yes)

    assert response.is_whole
    assert [line for line in receiver.requests[0].split(b"\r\n") if line.startswith(b"Content-")] == length


async def test_the_longest_body_arrives_whole(transport: Transport) -> None:
    body = bytes(range(256)) * 4096
    async with receiving(answers(OK)) as receiver:
        await transport.send(a_request(receiver.port, body=body), yes)

    assert receiver.requests[0].partition(b"\r\n\r\n")[2] == body


async def test_an_answer_counts_before_the_request_is_read(transport: Transport) -> None:
    async with receiving(answers_at_once_and_reads_nothing) as receiver:
        response = await transport.send(a_request(receiver.port, body=bytes(1_048_576)), yes)

    assert response.status == 413


async def test_a_body_over_the_limit_is_cut(transport: Transport) -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\n" + b"x" * (MAX_RESPONSE_BYTES + 1)
    async with receiving(answers(said)) as receiver:
        response = await transport.send(a_request(receiver.port), yes)

    assert (response.body, response.is_whole) == (b"x" * MAX_RESPONSE_BYTES, False)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_and_nobody_goes_there(transport: Transport, status: int) -> None:
    async with receiving(answers(OK)) as second:
        head = f"HTTP/1.1 {status} Elsewhere\r\nLocation: http://hook.example:{second.port}/\r\n"
        async with receiving(answers(head.encode() + b"Content-Length: 0\r\n\r\n")) as first:
            response = await transport.send(a_request(first.port, "GET", body=b""), yes)

    assert response.status == status
    assert second.connections == 0


async def test_cookies_are_not_kept(transport: Transport) -> None:
    async with receiving(answers(b"HTTP/1.1 204 No Content\r\nSet-Cookie: a=b\r\n\r\n")) as receiver:
        await transport.send(a_request(receiver.port), yes)
        await transport.send(a_request(receiver.port), yes)

    assert b"cookie" not in receiver.requests[1].lower()


async def test_proxies_of_the_environment_are_not_used(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving(answers(OK)) as proxy, receiving(answers(OK)) as receiver:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            monkeypatch.setenv(name.upper(), f"http://127.0.0.1:{proxy.port}")
        await transport.send(a_request(receiver.port), yes)

    assert (proxy.connections, len(receiver.requests)) == (0, 1)


async def test_phases_are_those_that_happened(transport: Transport) -> None:
    async with receiving(answers(OK)) as receiver:
        first = await transport.send(a_request(receiver.port), yes)
        second = await transport.send(a_request(receiver.port), yes)

    assert list(first.phases) == ["dns", "connect", "wait", "read"]
    assert list(second.phases) == ["dns", "wait", "read"]
    assert all(seconds >= 0 for seconds in first.phases.values())
