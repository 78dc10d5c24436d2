"""Which requests a browser sends on behalf of another site. Nothing but headers that pages cannot set is believed."""

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import Request

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?", re.ASCII)
_USUAL_PORTS = {"http": ":80", "https": ":443"}
# What proxies, load balancers and tunnels add to the requests that they pass on.
_FORWARDED = re.compile(
    r"(?:forwarded|via|x-forwarded(?:-.*)?|x-original-.*|x-envoy-.*|x-real-ip|x-client-ip|x-cluster-client-ip|"
    r"x-proxyuser-ip|client-ip|true-client-ip|cf-.*|cdn-loop|fastly-client-ip|fly-client-ip|x-azure-.*|x-amzn-trace-id)",
    re.ASCII,
)
_OLD_VERSION = "1.0"  # the default of nginx before 1.29.7 towards what is behind it; programs have long ceased to


def is_safe(request: Request) -> bool:
    return request.method in SAFE_METHODS


def names_this_machine(request: Request) -> bool:
    """Whether the Host is a name of this machine, and not of a page whose name was made to lead here."""
    found = _HOST.fullmatch(request.headers.get("host", ""))
    if found is None:
        return False
    host = found[1].lower()
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def sign_of_proxy(request: Request) -> str | None:
    """What shows that somebody passes the request on, so that it may be from anywhere; None if nothing does.

    A proxy that speaks HTTP/1.1, names this machine as the Host and adds no header cannot be told from a program here.
    """
    for name in request.headers:
        if _FORWARDED.fullmatch(name):
            return f"the header {name.title()}"
    return "HTTP/1.0" if request.scope.get("http_version") == _OLD_VERSION else None


def has_foreign_origin(request: Request) -> bool:
    """Whether the Origin is there and another than the Host. A scheme is not told: a proxy may end the encryption."""
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
    """Whether the browser says so, by either header. Without both it is no browser, or one that does not tell."""
    site = request.headers.get("sec-fetch-site", "none")
    return has_foreign_origin(request) or site not in ("same-origin", "none")


def is_navigation(request: Request) -> bool:
    """Whether the browser says that somebody follows a link, and no page can read the answer."""
    return is_safe(request) and request.headers.get("sec-fetch-mode") == "navigate"


def is_surely_ours(request: Request) -> bool:
    """Whether the browser says that a page of ours sends it."""
    site = request.headers.get("sec-fetch-site")
    said = site == "same-origin" or (site is None and "origin" in request.headers)
    return said and not has_foreign_origin(request)
