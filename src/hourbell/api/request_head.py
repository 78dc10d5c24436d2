"""Protection against request smuggling: requests that another server may parse differently are refused.

h11 is lenient where RFC 9112 allows it: it joins folded headers, accepts a bare LF as a line end, and prefers
Transfer-Encoding to a contradicting Content-Length. A proxy in front of us may decide otherwise, and would then let a
second request pass that it never saw.
"""

import re

import h11

MAX_HEAD_BYTES = 32 * 1024  # the request line and all headers
_HEAD_END = re.compile(rb"\n\r?\n")
_LENGTH, _CODING = b"\r\ncontent-length:", b"\r\ntransfer-encoding:"
_LAST_BYTES = b"\r\n\r\n"  # every chunked body ends with these
_FREE_CHUNKS, _LEAST_CHUNK_BYTES = 100, 64


def find_ambiguity(head: bytes) -> str | None:
    """Return what is ambiguous about a request head (request line, headers, blank line); None if nothing is."""
    if len(head) > MAX_HEAD_BYTES:
        return f"its headers have more than {MAX_HEAD_BYTES:,} bytes"
    line_ends = head.count(b"\r\n")
    if head.count(b"\n") != line_ends or head.count(b"\r") != line_ends:
        return "a line does not end with CRLF"
    if b"\r\n " in head or b"\r\n\t" in head:
        return "a header is folded over several lines"
    if head.startswith(b"\r\n"):
        return "it begins with a blank line"
    version = head.partition(b"\r\n")[0].rpartition(b" ")[2]
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        return "its version is neither HTTP/1.1 nor HTTP/1.0"
    lowered = head.lower()
    lengths, codings = lowered.count(_LENGTH), lowered.count(_CODING)
    if lengths + codings > 1:
        return "it has more than one Content-Length or Transfer-Encoding"
    if codings and version == b"HTTP/1.0":
        return "HTTP/1.0 has no Transfer-Encoding"
    if lengths and not lowered.partition(_LENGTH)[2].partition(b"\r\n")[0].strip(b" \t").isdigit():
        return "its Content-Length is not a number"
    return None


class StrictConnection(h11.Connection):
    """The server side of an h11 connection that refuses ambiguous requests; `refusal` holds the reason."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, MAX_HEAD_BYTES)
        self.refusal: str | None = None
        self._is_chunked = False
        self._chunks = self._body_bytes = 0
        self._before = self._newest = b""  # the last bytes received before, and the newest data

    def receive_data(self, data: bytes) -> None:
        self._before = (self._before + self._newest[-len(_LAST_BYTES) :])[-len(_LAST_BYTES) :]
        self._newest = data
        super().receive_data(data)

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        if self.their_state is h11.IDLE:
            self._check_head()
        event = super().next_event()
        if self._is_chunked and isinstance(event, h11.Data):
            self._check_chunk(event)
        elif self._is_chunked and isinstance(event, h11.EndOfMessage):
            self._check_end(event)
        return event

    def _check_head(self) -> None:
        unread, _ = self.trailing_data
        end = _HEAD_END.search(unread)
        if end is None:
            return
        head = unread[: end.end()]
        if (why := find_ambiguity(head)) is not None:
            self._refuse(why)
        self._is_chunked = _CODING in head.lower()
        self._chunks = self._body_bytes = 0

    def _check_chunk(self, data: h11.Data) -> None:
        """Refuse a body of tiny chunks: reading each costs as much as reading a large one."""
        self._chunks += data.chunk_start
        self._body_bytes += len(data.data)
        if self._chunks > _FREE_CHUNKS + self._body_bytes // _LEAST_CHUNK_BYTES:
            self._refuse(f"its chunks have less than {_LEAST_CHUNK_BYTES} bytes each")

    def _check_end(self, end: h11.EndOfMessage) -> None:
        received = len(self._newest) - len(self.trailing_data[0])
        if received < 0 or (self._before + self._newest[:received])[-len(_LAST_BYTES) :] != _LAST_BYTES:
            self._refuse("a line does not end with CRLF")
        if end.headers:
            self._refuse("it has trailers")

    def _refuse(self, why: str) -> None:
        self.refusal = why
        raise h11.RemoteProtocolError(why)
