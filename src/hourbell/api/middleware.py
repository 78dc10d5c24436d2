"""The outermost middleware: it gives every request an id and adds security headers to every response.

It wraps the whole app, so that responses to unexpected errors have the same headers. It logs such an error once.
"""

import logging
import re
from collections.abc import Callable, Sequence
from ipaddress import IPv6Address, ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hourbell.core.values.networks import Network
from hourbell.core.values.public_path import parse_public_path

log = logging.getLogger("hourbell.api")

REQUEST_ID = "X-Request-Id"
_SANE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,100}", re.ASCII)
_MAX_PATH_CHARACTERS = 500
_FOR_ALL = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_STRICTEST = "default-src 'none'; frame-ancestors 'none'"


class RequestMiddleware:
    def __init__(
        self,
        app: ASGIApp,
        *,
        new_id: Callable[[], str],
        elapsed: Callable[[], float],
        trusted_proxies: Sequence[Network] = (),
        public_path: str = "",
    ) -> None:
        self._app = app
        self._new_id = new_id
        self._elapsed = elapsed
        self._trusted_proxies = tuple(trusted_proxies)
        self._public_path = public_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get(REQUEST_ID, "")
        request_id = given if _SANE_ID.fullmatch(given) else self._new_id()
        ip = client_ip(scope, headers, self._trusted_proxies)
        prefix = self._public_path or forwarded_prefix(scope, headers, self._trusted_proxies)
        scope.setdefault("state", {}).update(request_id=request_id, client_ip=ip, public_path=prefix)
        if self._public_path:
            scope["path"] = without_prefix(scope["path"], self._public_path)
        facts = {"method": scope["method"], "path": shown_path(scope), "ip": ip, "request_id": request_id}
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(MutableHeaders(scope=message), scope["path"], request_id, prefix)
            await send(message)

        began = self._elapsed()
        try:
            await self._app(scope, receive, answer)
        except Exception:  # the app has sent a problem response; uvicorn would only log it again
            log.exception("request_failed", extra=facts)
            if not status:
                raise
        finally:
            scope["state"].get("on_end", _nothing)()
        if log.isEnabledFor(logging.DEBUG):
            log.debug("request", extra={**facts, "status": status, "seconds": round(self._elapsed() - began, 4)})


def _nothing() -> None: ...


def client_ip(scope: Scope, headers: Headers, trusted: Sequence[Network]) -> str:
    """Return the client address: the peer of the connection or, behind trusted proxies, the client they report.

    X-Forwarded-For is read from its end, and only the entries that trusted proxies have added are used.
    """
    client = scope.get("client")
    ip = _plain(client[0]) if client else ""
    heard = [part.strip() for line in headers.getlist("x-forwarded-for") for part in line.split(",")]
    while heard and _is_in(ip, trusted):
        before = _plain(heard.pop())
        if not _is_address(before):
            break
        ip = before
    return ip


def forwarded_prefix(scope: Scope, headers: Headers, trusted: Sequence[Network]) -> str:
    """Return the path prefix that a trusted proxy has removed and reports in X-Forwarded-Prefix; else an empty one."""
    client = scope.get("client")
    given = headers.get("x-forwarded-prefix", "")
    if not given or not client or not _is_in(_plain(client[0]), trusted):
        return ""
    try:
        return parse_public_path(given)
    except ValueError:
        return ""


def without_prefix(path: str, prefix: str) -> str:
    """Remove the configured prefix; a proxy may have done that already."""
    rest = path.removeprefix(prefix)
    return (rest or "/") if rest[:1] in ("", "/") else path


def shown_path(scope: Scope) -> str:
    """Return the raw path for the log, without the query, which may contain secrets."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogateescape")
    text = raw.partition(b"?")[0].decode("ascii", "backslashreplace")[:_MAX_PATH_CHARACTERS]
    return text if text.isprintable() else ascii(text)[1:-1]


def _add_headers(headers: MutableHeaders, path: str, request_id: str, prefix: str) -> None:
    headers[REQUEST_ID] = request_id
    if headers.get("Location", "").startswith("/"):
        headers["Location"] = prefix + headers["Location"]
    for name, value in _FOR_ALL.items():
        headers.setdefault(name, value)
    headers.setdefault("Content-Security-Policy", _STRICTEST)
    if path.startswith("/api/"):
        headers.setdefault("Cache-Control", "no-store")


def _plain(text: str) -> str:
    """Normalize an address: remove brackets, a port and the IPv6 mapping of an IPv4 address, as some proxies write."""
    bare = text.partition("]")[0].removeprefix("[") if text.startswith("[") else text
    if bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        address = ip_address(bare)
    except ValueError:
        return text
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_in(text: str, networks: Sequence[Network]) -> bool:
    return _is_address(text) and any(ip_address(text) in network for network in networks)
