"""The HTTP client interface of the webhook target: send one request, once.

`tests/targets/http/test_transport*.py` test every client against this contract. A transport never follows a redirect,
never sends a request a second time, never uses a proxy from the environment, never decompresses, and connects only to
addresses that the address rules allow.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hourbell.core.values.url import Url

MAX_RESPONSE_BYTES = 65_536  # bytes of a response body; the rest is not read
MAX_HEADER_BYTES = 65_536  # bytes of a response's status line and headers
MAX_HEADERS = 256  # of a response, including trailers and those of interim responses
MAX_BODY_SECONDS = 5.0  # to read a response body, counted from the last header; the rest is not read


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: Url
    headers: Mapping[str, str] = field(repr=False)  # the transport adds Host, Content-Length and Accept-Encoding
    body: bytes = field(repr=False)
    timeout: float  # seconds for the whole attempt, from the first lookup to the last byte


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes  # the first MAX_RESPONSE_BYTES bytes, not decoded
    is_whole: bool  # False if there was more to read, or the connection broke
    phases: Mapping[str, float] = field(default_factory=dict)  # seconds, if any: dns, connect, tls, wait, read


class TransportError(Exception):
    """Raised when there is no response. The message is one readable sentence.

    `begun` is True if a byte may have been sent. `phases` holds the seconds of each phase that the attempt reached,
    including the one in which it failed.
    """

    def __init__(self, message: str, *, begun: bool, phases: Mapping[str, float] | None = None) -> None:
        super().__init__(message)
        self.begun = begun
        self.phases = phases or {}


class Refused(TransportError):
    """Raised when the address rules forbid the connection. For a literal address a retry cannot help."""

    def __init__(self, message: str) -> None:
        super().__init__(message, begun=False)


class NotBegun(Exception):
    """Raised when `begin` returned False: nothing was sent, and nothing may be."""


class Transport(Protocol):
    async def send(self, request: Request, begin: Callable[[], Awaitable[bool]]) -> Response:
        """Send one request and return the response, within the request's timeout; else raise a TransportError.

        `begin` is awaited once, when the connection is open and nothing has been sent yet; if it returns False, `send`
        raises NotBegun and sends nothing. A response that is not 1xx counts from its last header on: if its body
        stalls, breaks off or takes longer than MAX_BODY_SECONDS, `send` returns the part that was received.
        Cancellation closes the connection, unless the response is complete.
        """

    async def close(self) -> None:
        """Close every connection; requests in flight fail, and nothing is sent any more."""
