"""Hostile answers: made from pieces of a grammar, right and wrong, and mutated from answers that are there already."""

from collections.abc import Sequence
from random import Random

_EOL = (b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\r\r\n", b"\n\r")
_VERSIONS = (
    b"HTTP/1.1",
    b"HTTP/1.1",
    b"HTTP/1.1",
    b"HTTP/1.0",
    b"HTTP/2",
    b"HTTP/0.9",
    b"http/1.1",
    b"HTTP/1.1 ",
    b"ICY",
)
_STATUSES = (
    *(b"200", b"200", b"200", b"204", b"304", b"100", b"102", b"103", b"101", b"199", b"301", b"404", b"500"),
    *(b"099", b"000", b"999", b"1000", b"20", b"-200", b"2 0", b""),
)
_PHRASES = (b" OK", b"", b" ", b" a b\tc", b" \xff\xfe", b" \0")
_NAMES = (
    b"Content-Length",
    b"content-length",
    b"Transfer-Encoding",
    b"TRANSFER-encoding",
    b"Connection",
    b"X",
    b"Upgrade",
)
_LENGTHS = (
    b"0",
    b"2",
    b"5",
    b"05",
    b"+5",
    b"-1",
    b"5, 5",
    b"5 5",
    b"0x5",
    b"65536",
    b"65537",
    b"18446744073709551616",
    b"",
)
_CODINGS = (
    b"chunked",
    b"Chunked",
    b"gzip, chunked",
    b"chunked, gzip",
    b"identity",
    b"xchunked",
    b"chunked;q=1",
    b",chunked,",
)
_OPTIONS = (b"close", b"keep-alive", b"upgrade", b"Close, keep-alive", b"keep-alive, close", b"x")
_VALUES = (b"v", b"", b" v ", b"\tv", b"a:b", b"\xff", b"\0", b"a\rb", b"v" * 300)
_CHUNK_SIZES = (
    b"0",
    b"2",
    b"5",
    b"005",
    b"5 ",
    b"5;x=y",
    b"5;x=\n",
    b" 5",
    b"0x5",
    b"-5",
    b"FFFFFFFFFFFFFFFFF",
    b"g",
    b"",
)
_BODIES = (b"", b"ok", b"hello", b"hello world", b"x" * 70_000, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
_TOKENS = (*_EOL, *_LENGTHS, *_CODINGS, *_NAMES, *_STATUSES, b": ", b"HTTP/1.1 200 OK\r\n", b"0\r\n\r\n", b"\r\n\r\n")


def make_answer(random: Random) -> bytes:
    """Make one answer, perhaps with interim ones before it and something after it."""
    interim = b"".join(
        _head(random, random.choice((b"100", b"102", b"103"))) for _ in range(random.choice((0, 0, 0, 1, 2)))
    )
    tail = random.choice((b"", b"", b"", b"", b"x", b"\r\n", b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"))
    return interim + (_plain(random) if random.random() < 0.4 else _head(random) + _body(random)) + tail


def mutate(random: Random, answer: bytes, corpus: Sequence[bytes]) -> bytes:
    """Change an answer in one to four places."""
    data = bytearray(answer)
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, min(len(data), 2_000))
        match random.randrange(6):
            case 0:
                data[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                data[at:at] = random.choice(_TOKENS)
            case 2:
                del data[at : at + random.randint(1, 20)]
            case 3:
                data[at:at] = data[at : at + random.randint(1, 40)]
            case 4:
                other = random.choice(corpus)
                data[at:] = other[random.randint(0, len(other)) :]
            case _:
                data[at : at + 2] = random.choice(_EOL)
    return bytes(data[:150_000])


def _plain(random: Random) -> bytes:
    """An answer with nothing wrong, to which mutations are done."""
    body = random.choice(_BODIES)
    if random.random() < 0.5:
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:3], body[3:]) if part)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def _head(random: Random, status: bytes | None = None) -> bytes:
    end = b"\r\n" if random.random() < 0.7 else random.choice(_EOL)
    first = random.choice(_VERSIONS) + b" " + (status or random.choice(_STATUSES)) + random.choice(_PHRASES)
    headers = [_header(random) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    return end.join([first, *headers, b"", b""])


def _header(random: Random) -> bytes:
    name = random.choice(_NAMES)
    values = {b"c": _LENGTHS, b"t": _CODINGS}.get(name[:1].lower(), _VALUES)
    if name == b"Connection":
        values = _OPTIONS
    if random.random() < 0.1:
        values = _VALUES
    return (
        random.choice((b"", b"", b"", b"", b" "))
        + name
        + random.choice((b": ", b": ", b":", b" : ", b""))
        + random.choice(values)
    )


def _body(random: Random) -> bytes:
    if random.random() < 0.4:
        return random.choice(_BODIES)
    end = random.choice(_EOL[:4])
    chunks = b"".join(
        random.choice(_CHUNK_SIZES) + end + random.choice(_BODIES[:4]) + end for _ in range(random.randint(0, 3))
    )
    return chunks + b"0" + end + random.choice((b"", b"", b"Content-Length: 9" + end, b"X" + end)) + end
