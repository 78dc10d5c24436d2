"""One request and its answer on aiohttp: once, to the server that was named and to no other.

aiohttp is loaded with the first request, and the session belongs to the event loop of that request.
"""

import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING

from hourbell.client.errors import ServerOutOfReach, error_of
from hourbell.client.where import Where

if TYPE_CHECKING:
    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse, ClientSession, ClientTimeout

_LONGEST_CONNECT = 10.0
_KEEP_IDLE = 4.0  # less than the server does, which would hang up on the next request
# What OpenSSL calls bytes that are no TLS, by its version and by what they are.
_WITHOUT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")
_START = "start it with `hourbell serve`, or set HOURBELL_URL to where it is"


@dataclass(frozen=True, slots=True)
class Request:
    """What to send. `may_repeat`: sent twice, it does no more than sent once."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | AsyncIterator[bytes] | None = None
    may_repeat: bool = False
    quiet_seconds: float | None = None  # of a stream: how long it may say nothing; it may last for ever


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


class _Lost(Exception):
    """The connection broke after the request was on its way."""


class Wire:
    def __init__(self, where: Where, *, timeout: float, tls: ssl.SSLContext | None, use_proxies: bool) -> None:
        self.where = where
        self._timeout = timeout
        self._tls = tls
        self._use_proxies = use_proxies
        self._session: ClientSession | None = None
        self._is_closed = False

    async def send(self, request: Request) -> Reply:
        """The whole answer, whatever its status; ServerOutOfReach if none comes."""
        async with self._answer(request) as response:
            return Reply(response.status, response.headers, await response.read())

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """The parts of a successful answer as they come; another one is an error."""
        async with self._answer(request) as response:
            if response.status != HTTPStatus.OK:
                raise error_of(response.status, response.headers, await response.read())
            yield response.content.iter_any()

    async def close(self) -> None:
        self._is_closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @asynccontextmanager
    async def _answer(self, request: Request) -> "AsyncIterator[ClientResponse]":
        import aiohttp
        from yarl import URL

        url = URL(self.where.url + request.path, encoded=True).update_query(request.query)
        try:
            async with self._opened().request(
                request.method,
                url,
                headers=request.headers,
                data=BytesIO(request.body) if isinstance(request.body, bytes) else request.body,
                allow_redirects=False,
                # Whoever is refused need not send a million lines first, nor have them thrown away.
                expect100=isinstance(request.body, AsyncIterator),
                timeout=self._limits(request),
            ) as response:
                yield response
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise ServerOutOfReach(self._cannot_reach(error)) from error
        except TimeoutError as error:
            raise ServerOutOfReach(f"{self.where.url} gave no answer in time.", is_in_doubt=True) from error
        except _Lost as error:
            raise self._lost(error.__cause__ or error) from error.__cause__
        except (aiohttp.ClientError, OSError) as error:
            raise self._lost(error) from error

    def _limits(self, request: Request) -> "ClientTimeout":
        from aiohttp import ClientTimeout

        connect = min(self._timeout, _LONGEST_CONNECT)
        if request.quiet_seconds is None:
            return ClientTimeout(total=self._timeout, sock_connect=connect)
        return ClientTimeout(total=None, sock_connect=connect, sock_read=request.quiet_seconds)

    def _opened(self) -> "ClientSession":
        from aiohttp import ClientSession, DummyCookieJar, TCPConnector

        if self._is_closed:
            raise RuntimeError("This client was closed; make another one.")
        if self._session is None:
            headers = {"User-Agent": "hourbell-client"}
            if self.where.token is not None:
                headers["Authorization"] = f"Bearer {self.where.token}"
            tls = True if self._tls is None else self._tls
            self._session = ClientSession(
                connector=TCPConnector(ssl=tls, keepalive_timeout=_KEEP_IDLE),
                cookie_jar=DummyCookieJar(),
                headers=headers,
                middlewares=(_once,),
                trust_env=self._use_proxies,
            )
        return self._session

    def _cannot_reach(self, error: BaseException) -> str:
        inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None)
        if isinstance(inner, ssl.SSLError):
            return f"Hourbell cannot be reached at {self.where.url} {_of_tls(inner)}."
        number = getattr(inner, "errno", None) or 0
        why = os.strerror(number) if number > 0 else getattr(inner, "strerror", None) or inner or "the time was up"
        return f"Hourbell cannot be reached at {self.where.url} ({why}); {_START}."

    def _lost(self, error: BaseException) -> ServerOutOfReach:
        why = str(error) or type(error).__name__
        return ServerOutOfReach(f"The connection to {self.where.url} broke ({why}).", is_in_doubt=True)


def _of_tls(error: ssl.SSLError) -> str:
    """Why there is no TLS, and what to do; its `errno` is a number of its own, and none of the system's."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"(its certificate is not accepted: {error.verify_message}); write the name that it is for, or trust it"
    if error.reason in _WITHOUT_TLS:
        return "(what answers there does not speak TLS); write http:// instead of https://"
    return f"(TLS failed: {error.reason or error})"


async def _once(request: "ClientRequest", handler: "ClientHandlerType") -> "ClientResponse":
    """Keep aiohttp from sending a PUT or DELETE again by itself: whether that is safe is decided elsewhere."""
    from aiohttp import ClientConnectorError, ClientOSError, ServerDisconnectedError

    try:
        return await handler(request)
    except ClientConnectorError:
        raise
    except (ClientOSError, ServerDisconnectedError) as error:
        raise _Lost from error
