"""What the target asks of an HTTP client: send one request, once.

`tests/targets/http/test_transport*.py` hold every client to these words. A transport never follows a redirect, never
sends a request a second time, never takes a proxy from the environment, never decompresses, and connects only where the
address guard lets it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hourbell.core.values.url import Url

MOST_READ = 65_536  # bytes of an answer's body; the rest is not read
MOST_HEADERS = 65_536  # bytes of an answer's status line and headers
MAX_HEADERS = 256  # of an answer, trailers and those of interim answers included
MAX_BODY_SECONDS = 5.0  # to read an answer's body, counted from its last header; the rest is not read


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: Url
    headers: Mapping[str, str] = field(repr=False)  # the transport adds Host, Content-Length and Accept-Encoding
    body: bytes = field(repr=False)
    timeout: float  # seconds for the whole attempt, from the first look-up to the last byte


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes  # the first MOST_READ bytes, as they came
    is_whole: bool  # False if there was more to read, or it broke off
    phases: Mapping[str, float] = field(default_factory=dict)  # seconds, if any: dns, connect, tls, wait, read


class TransportError(Exception):
    """There is no answer. The message is one sentence for people; `begun` tells whether a byte may have left.

    `phases` holds the seconds of those it reached, the one it failed in included.
    """

    def __init__(self, message: str, *, begun: bool, phases: Mapping[str, float] | None = None) -> None:
        super().__init__(message)
        self.begun = begun
        self.phases = phases or {}


class Refused(TransportError):
    """The address guard forbids the connection. It will not change by itself, so there is no use in trying again."""

    def __init__(self, message: str) -> None:
        super().__init__(message, begun=False)


class NotBegun(Exception):
    """`begin` said no: nothing was sent, and nothing may be."""


class Transport(Protocol):
    async def send(self, request: Request, begin: Callable[[], Awaitable[bool]]) -> Response:
        """Send one request and read the answer, within its timeout; else raise a TransportError.

        `begin` is awaited once, when the connection is there and nothing has been sent yet; if it answers False,
        NotBegun is raised and nothing is sent. An answer that is not 1xx counts from its last header on: if its body
        stalls, breaks off or takes longer than MAX_BODY_SECONDS, what came of it is the answer. Cancelling closes the
        connection, unless all is over.
        """

    async def close(self) -> None:
        """Close every connection; what is being sent fails, and nothing is sent any more."""
