"""A second, strict reader of answers, written from RFC 9112 alone: it decides if the bytes are exactly one answer.

It knows nothing of the parser under test. What it does not accept may still be an answer, but not one after which a
connection may be used again.
"""

import re
from typing import NamedTuple

_STATUS = re.compile(rb"HTTP/1\.([01]) ([0-9]{3})(?: [^\r\n]*)?")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):(.*)", re.DOTALL)
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]*?)?\r?\n")
_EMPTY = re.compile(rb"\r?\n")
_LINE = re.compile(rb"([^\n]*?)\r?\n")
_WITHOUT_BODY = frozenset({204, 304})


class Exact(NamedTuple):
    """A response that ends where the bytes end, on a connection that stays open."""

    status: int
    body: bytes


def read_exact(data: bytes) -> Exact | None:
    """Read interim answers and one final answer; None unless they are exactly framed and nothing follows."""
    position = 0
    while True:
        head = _read_head(data, position)
        if head is None:
            return None
        status, minor, headers, position = head
        if status == 101 or status < 100:
            return None
        if status >= 200:
            break
    if not _stays(minor, headers):
        return None
    body = _read_body(data, position, headers, has_none=status in _WITHOUT_BODY)
    return None if body is None else Exact(status, body)


def _read_head(data: bytes, position: int) -> tuple[int, int, list[tuple[bytes, bytes]], int] | None:
    lines: list[bytes] = []
    while (empty := _EMPTY.match(data, position)) is not None:  # no harm: nothing has begun
        position = empty.end()
    while (line := _LINE.match(data, position)) is not None:
        position = line.end()
        if not line[1]:
            break
        lines.append(line[1])
    else:
        return None
    first = _STATUS.fullmatch(lines[0]) if lines else None
    fields = [_HEADER.fullmatch(line) for line in lines[1:]]
    if first is None:
        return None
    headers = [(field[1].lower(), field[2].strip(b" \t")) for field in fields if field is not None]
    return None if len(headers) < len(fields) else (int(first[2]), int(first[1]), headers, position)


def _stays(minor: int, headers: list[tuple[bytes, bytes]]) -> bool:
    options = {
        option.strip().lower() for name, value in headers if name == b"connection" for option in value.split(b",")
    }
    return b"close" not in options and (minor == 1 or b"keep-alive" in options)


def _read_body(data: bytes, position: int, headers: list[tuple[bytes, bytes]], *, has_none: bool) -> bytes | None:
    lengths = [value for name, value in headers if name == b"content-length"]
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    if (lengths and codings) or len(lengths) > 1 or any(not re.fullmatch(rb"[0-9]+", value) for value in lengths):
        return None
    if has_none:
        return b"" if position == len(data) else None
    if codings:
        is_chunked = b",".join(codings).lower().split(b",")[-1].strip() == b"chunked"
        return _read_chunks(data, position) if is_chunked else None
    if not lengths or len(data) - position != int(lengths[0]):
        return None
    return data[position:]


def _read_chunks(data: bytes, position: int) -> bytes | None:
    body = b""
    while (size := _CHUNK.match(data, position)) is not None:
        position, length = size.end(), int(size[1], 16)
        if not length:
            return body if _ends_with_trailers(data, position) else None
        body += data[position : position + length]
        end = _LINE.match(data, position + length)
        if end is None or end[1]:
            return None
        position = end.end()
    return None


def _ends_with_trailers(data: bytes, position: int) -> bool:
    while (line := _LINE.match(data, position)) is not None:
        position = line.end()
        if not line[1]:
            return position == len(data)
    return False
