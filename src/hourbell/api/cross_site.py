"""Detection of cross-site requests (CSRF, DNS rebinding), only by headers that scripts in a page cannot set."""

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import Request

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?", re.ASCII)
_USUAL_PORTS = {"http": ":80", "https": ":443"}
# Headers that proxies, load balancers and tunnels add to the requests that they forward.
_FORWARDED = re.compile(
    r"(?:forwarded|via|x-forwarded(?:-.*)?|x-original-.*|x-envoy-.*|x-real-ip|x-client-ip|x-cluster-client-ip|"
    r"x-proxyuser-ip|client-ip|true-client-ip|cf-.*|cdn-loop|fastly-client-ip|fly-client-ip|x-azure-.*|x-amzn-trace-id)",
    re.ASCII,
)
_OLD_VERSION = "1.0"  # nginx before 1.29.7 uses it for upstreams by default; other clients no longer do


def is_safe(request: Request) -> bool:
    return request.method in SAFE_METHODS


def names_this_machine(request: Request) -> bool:
    """Return True if the Host header is localhost or a loopback address; refuses DNS rebinding."""
    found = _HOST.fullmatch(request.headers.get("host", ""))
    if found is None:
        return False
    host = found[1].lower()
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def sign_of_proxy(request: Request) -> str | None:
    """Return the sign that a proxy forwarded the request, so that its origin is unknown; None if there is no sign.

    A proxy that speaks HTTP/1.1, sends this machine as the Host and adds no header looks the same as a local program.
    """
    for name in request.headers:
        if _FORWARDED.fullmatch(name):
            return f"the header {name.title()}"
    return "HTTP/1.0" if request.scope.get("http_version") == _OLD_VERSION else None


def has_foreign_origin(request: Request) -> bool:
    """Return True if an Origin header exists and differs from the Host. The scheme is ignored: a proxy may end TLS."""
    origin = request.headers.get("origin")
    if origin is None:
        return False
    try:
        parts = urlsplit(origin.lower())
    except ValueError:
        return True
    usual = _USUAL_PORTS.get(parts.scheme)
    if usual is None or not parts.netloc:
        return True
    host = request.headers.get("host", "").lower()
    return parts.netloc.removesuffix(usual) != host.removesuffix(usual)


def is_from_another_site(request: Request) -> bool:
    """Return True if Origin or Sec-Fetch-Site names another site. A client that sends neither counts as same-site."""
    site = request.headers.get("sec-fetch-site", "none")
    return has_foreign_origin(request) or site not in ("same-origin", "none")


def is_navigation(request: Request) -> bool:
    """Return True if the browser follows a link (Sec-Fetch-Mode: navigate): no page can read that response."""
    return is_safe(request) and request.headers.get("sec-fetch-mode") == "navigate"


def is_surely_ours(request: Request) -> bool:
    """Return True if the browser states that our own page sent the request."""
    site = request.headers.get("sec-fetch-site")
    said = site == "same-origin" or (site is None and "origin" in request.headers)
    return said and not has_foreign_origin(request)
