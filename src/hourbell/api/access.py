"""Authentication and authorization of requests. Access is denied by default.

1. If the request has an `Authorization` header, its bearer token alone decides, valid or not.
2. Else the session cookie decides. A request that changes something must come from our own page with its CSRF token.
3. Else every program on this machine is admitted, while no token exists and the server listens on loopback only.
"""

import asyncio
import contextlib
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Depends
from starlette.applications import Starlette
from starlette.requests import Request

from hourbell import clock
from hourbell.api.cross_site import (
    has_foreign_origin,
    is_from_another_site,
    is_navigation,
    is_safe,
    is_surely_ours,
    names_this_machine,
    sign_of_proxy,
)
from hourbell.api.limits import (
    MAX_HELD_BYTES,
    MAX_HELD_BYTES_PER_CALLER,
    MAX_REQUESTS_PER_CALLER,
    UNKNOWN_TOKENS_PER_SECOND,
    ConcurrencyLimits,
    HeldBytes,
    Limits,
    LoginLimits,
    Repeats,
    Turns,
    address_group,
    import_limits,
    stream_limits,
    too_many,
)
from hourbell.api.middleware import shown_path
from hourbell.api.problems import Problem
from hourbell.api.session_cookie import COOKIE, Session, SessionCookies
from hourbell.control.access import Access, Refusal, TooManyUnknown
from hourbell.control.values import StoreUnavailable, Token
from hourbell.core.access.roles import Role

log = logging.getLogger("hourbell.api")

LOCAL = "local"
_AT_ONCE_SECONDS = 1.0
_TOKEN = "token:"  # prefix of actor names, so that no token can impersonate another actor by its name


@dataclass(frozen=True, slots=True)
class Authenticator:
    """The authenticator of an app with its rate limits, stored in `app.state.authenticator`."""

    access: Access
    cookies: SessionCookies
    limits: Limits
    logins: LoginLimits
    is_local: bool  # the server listens on loopback only
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    unknown_tokens: Limits = field(default_factory=lambda: Limits(UNKNOWN_TOKENS_PER_SECOND, elapsed=clock.elapsed))
    triggers: Limits = field(default_factory=lambda: Limits(0, elapsed=clock.elapsed))
    streams: ConcurrencyLimits = field(default_factory=stream_limits)
    imports: ConcurrencyLimits = field(default_factory=import_limits)
    import_bytes: int = 1024**3
    refusals: Repeats = field(default_factory=lambda: Repeats(elapsed=clock.elapsed))
    held: HeldBytes = field(default_factory=lambda: HeldBytes(MAX_HELD_BYTES_PER_CALLER, MAX_HELD_BYTES))
    turns: Turns = field(default_factory=lambda: Turns(MAX_REQUESTS_PER_CALLER))
    large_body: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while one large body is handled

    def install(self, app: Starlette) -> None:
        """Install this as the authenticator of an app."""
        app.state.authenticator = self


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller."""

    actor: str
    role: Role
    token_id: UUID | None
    ip: str
    request_id: str
    is_session: bool
    expires_at: datetime | None = None

    @property
    def limited_as(self) -> str:
        """The key for rate limits: the token, or without one the client address or network."""
        return str(self.token_id) if self.token_id else address_group(self.ip)

    @property
    def name(self) -> str:
        """The name of the token, or of the actor without one."""
        return self.actor.removeprefix(_TOKEN)


class RequireRole:
    """A FastAPI dependency that returns the caller and requires at least a given role."""

    def __init__(self, role: Role) -> None:
        self.role = role

    async def __call__(self, request: Request) -> Caller:
        found = await caller(request)
        if not found.role.may(self.role):
            raise Problem(
                403, "not_allowed", f"This needs the role {self.role}, and the role of {found.name} is {found.role}."
            )
        return found


def require_role(role: Role) -> RequireRole:
    return RequireRole(role)


async def caller(request: Request) -> Caller:
    """Authenticate the caller, once per request. Raise a Problem if that fails or the rate limit is exceeded."""
    known: Caller | None = getattr(request.state, "caller", None)
    if known is not None:
        return known
    authenticator = authenticator_of(request)
    found = await _identify_within_limits(request, authenticator)
    wait = authenticator.limits.take(found.limited_as if found is not None else address_group(ip_of(request)))
    if wait:
        raise too_many(wait)
    if found is None:
        raise await _refuse(request, authenticator)
    request.state.caller = found
    request.state.identified_at = clock.elapsed()
    return found


async def check_again(request: Request, *, came_at_once: bool = False) -> None:
    """Raise a Problem if the token or session of an authenticated caller has ended since the first check.

    A body may take minutes to arrive, and an import days: what arrives after its token ended must have no effect. A
    body that arrived at once, within a second of the first check, needs no second check.
    """
    if getattr(request.state, "caller", None) is None:
        return  # a login: its caller is not authenticated yet
    if came_at_once and clock.elapsed() - request.state.identified_at < _AT_ONCE_SECONDS:
        return
    authenticator = authenticator_of(request)
    if await _identify_within_limits(request, authenticator) is None:
        raise await _refuse(request, authenticator)


async def is_let_in(request: Request) -> bool:
    """Return True if the caller of a streamed response is still authorized: its token may be revoked meanwhile."""
    try:
        return await _identify(request, authenticator_of(request)) is not None
    except (Problem, StoreUnavailable, TooManyUnknown):
        return False


async def is_known(request: Request) -> bool:
    """Return True if the caller is authenticated, for responses that show less to anonymous callers."""
    try:
        await caller(request)
    except (Problem, StoreUnavailable):
        return False
    return True


async def caller_or_local(request: Request) -> None:
    """Admit any program on this machine if the server listens on loopback only; else require a token.

    A request through a proxy, for another Host or by a page of another site does not count as local.
    """
    try:
        if authenticator_of(request).is_local:
            _check_local(request)
            return
    except Problem:
        pass  # not local; it may have a token
    await caller(request)


async def check_open_mode(request: Request) -> None:
    """Refuse a request that a server without tokens must not answer; admit it without a token otherwise.

    The files of the page are the same for everybody, so they are also served while the database is unreachable.
    """
    authenticator = authenticator_of(request)
    with contextlib.suppress(StoreUnavailable):
        if authenticator.is_local and await authenticator.access.is_open():
            _check_local(request)


async def read_in_turn(request: Request, found: "CallerDep") -> AsyncIterator[None]:
    """Handle a request without a body while holding one of its caller's turns; one with a body waits for its body."""
    has_body = request.method not in ("GET", "HEAD", "DELETE")
    async with nullcontext() if has_body else authenticator_of(request).turns.turn(found.limited_as):
        await check_again(request, came_at_once=True)
        yield


CallerDep = Annotated[Caller, Depends(caller)]


def authenticator_of(request: Request) -> Authenticator:
    authenticator: Authenticator = request.app.state.authenticator
    return authenticator


def ip_of(request: Request) -> str:
    """Return the client address that the middleware determined, or else the peer address of the connection."""
    found: str | None = getattr(request.state, "client_ip", None)
    return found if found is not None else (request.client.host if request.client else "")


def request_id_of(request: Request) -> str:
    return getattr(request.state, "request_id", "")


def not_authenticated(*, has_tokens: bool = True) -> Problem:
    """Build the 401 response. It is the same for missing, wrong, expired and revoked tokens, so it reveals nothing."""
    detail = "Send a valid token, as in Authorization: Bearer hb_…; `hourbell token create` makes one."
    if not has_tokens:
        detail = "This server has no tokens, so the one that was sent is another server's: send none, or ask that one."
    return Problem(401, "not_authenticated", detail, headers={"WWW-Authenticate": "Bearer"})


def session_of(request: Request) -> Session | None:
    """Return the session of the request's cookie. Its token is not checked here."""
    return authenticator_of(request).cookies.read(request.cookies.get(COOKIE, ""))


async def _identify_within_limits(request: Request, authenticator: Authenticator) -> Caller | None:
    try:
        return await _identify(request, authenticator)
    except TooManyUnknown as error:
        raise too_many(error.wait) from None


async def _refuse(request: Request, authenticator: Authenticator) -> Problem:
    log_refusal(request, _refusal(request, authenticator))
    return not_authenticated(has_tokens=not (authenticator.is_local and await authenticator.access.is_open()))


async def _identify(request: Request, authenticator: Authenticator) -> Caller | None:
    given = request.headers.getlist("authorization")
    if given:
        scheme, _, text = given[0].partition(" ")
        if len(given) > 1 or scheme.lower() != "bearer":
            return None
        group = address_group(ip_of(request))
        token = await authenticator.access.authenticate(
            text.strip(), delay=lambda: authenticator.unknown_tokens.take(group)
        )
        return _with_token(request, token, token.expires_at) if token is not None else None
    session = session_of(request)
    if session is not None:
        token = await authenticator.access.session_token(session.token_id)
        if token is not None and not await authenticator.access.is_session_ended(session.id):
            _check_session(request, session)
            return _with_token(request, token, ends_at(session, token), is_session=True)
    if authenticator.is_local and await authenticator.access.is_open():
        _check_local(request)
        return Caller(LOCAL, Role.ADMIN, None, ip_of(request), request_id_of(request), is_session=False)
    return None


def log_refusal(request: Request, refusal: Refusal) -> None:
    """Log the reason for a refusal, at most once a minute per address and token. The response does not reveal it."""
    ip = ip_of(request)
    left_out = authenticator_of(request).refusals.admit(f"{address_group(ip)} {refusal.reason} {refusal.token_id}")
    if left_out is None:
        return
    facts = {"reason": refusal.reason, "token_id": refusal.token_id, "ip": ip, "request_id": request_id_of(request)}
    log.warning("authentication_failed", extra={**facts, "path": shown_path(request.scope), "left_out": left_out})


def _refusal(request: Request, authenticator: Authenticator) -> Refusal:
    """Return the reason why a request was refused."""
    given = request.headers.getlist("authorization")
    if given:
        scheme, _, text = given[0].partition(" ")
        is_bearer = len(given) == 1 and scheme.lower() == "bearer"
        return authenticator.access.refusal(text.strip()) if is_bearer else Refusal("malformed")
    if COOKIE in request.cookies:
        session = session_of(request)
        return Refusal("session_ended") if session is None else authenticator.access.session_refusal(session.token_id)
    return Refusal("missing")


def ends_at(session: Session, token: Token) -> datetime:
    """Return the time at which a session ends: its own expiry or that of its token, whichever is earlier."""
    return min(session.expires_at, token.expires_at or session.expires_at)


def _with_token(request: Request, token: Token, until: datetime | None, *, is_session: bool = False) -> Caller:
    return Caller(
        f"{_TOKEN}{token.name}",
        token.role,
        token.id,
        ip_of(request),
        request_id_of(request),
        is_session=is_session,
        expires_at=until,
    )


def _check_session(request: Request, session: Session) -> None:
    if is_safe(request):
        return
    given = request.headers.get("x-csrf-token", "")
    if not is_surely_ours(request) or not hmac.compare_digest(given.encode(), session.csrf_token.encode()):
        raise Problem(
            403,
            "cross_site",
            "A session changes something only from its own page, with the header X-CSRF-Token; programs send a token "
            "as Authorization: Bearer.",
        )


def _check_local(request: Request) -> None:
    """Refuse requests from other machines, and those that a page of another site makes a local browser send."""
    if (sign := sign_of_proxy(request)) is not None:
        raise Problem(
            403,
            "behind_proxy",
            f"This request came through a proxy ({sign}), and the server has no token, so that everybody who reaches "
            "the proxy could do everything. Make a token with `hourbell token create admin --role admin`.",
        )
    if not names_this_machine(request):
        raise Problem(
            403,
            "foreign_host",
            "Without a token the server answers this machine alone, as localhost or 127.0.0.1; "
            "make a token with `hourbell token create admin --role admin`.",
        )
    if has_foreign_origin(request):
        raise Problem(403, "foreign_origin", "Without a token the server answers no page of another site.")
    if is_from_another_site(request) and not is_navigation(request):
        raise Problem(403, "cross_site", "Without a token the server takes no request from a page of another site.")
