"""Mail addresses, and the URL of a mail server."""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import parse_qsl, unquote, urlsplit

MAX_ADDRESS_CHARACTERS = 254
_LOCAL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*", re.ASCII)
_DOMAIN = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9a-fA-F:.]{2,45}", re.ASCII)
_EXAMPLE = "write smtp://user:password@mail.example.com:587, or smtps://… for a server with TLS from the start"


class Security(StrEnum):
    """The protection of a connection to a mail server."""

    TLS = "tls"  # from the first byte
    STARTTLS = "starttls"  # required before login and message
    NONE = "none"


_PORTS = {Security.TLS: 465, Security.STARTTLS: 587, Security.NONE: 25}


@dataclass(frozen=True, slots=True)
class MailServer:
    host: str
    port: int
    security: Security
    user: str = ""
    password: str = field(default="", repr=False)


def parse_mail_server(text: str) -> MailServer:
    """Parse the URL of a mail server; a ValueError shows the expected form, and repeats no password."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(f"its host or port cannot be read; {_EXAMPLE}") from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme not in ("smtp", "smtps") or parts.path.strip("/") or parts.fragment or set(options) - {"tls"}:
        raise ValueError(_EXAMPLE)
    host = parts.hostname or ""
    if _HOST.fullmatch(host) is None or port == 0:
        raise ValueError(_EXAMPLE)
    security = _security_of(parts.scheme, options.get("tls"))
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not (user + password).isprintable() or not (user + password).isascii():
        raise ValueError("user and password are ASCII; percent-encode what is special in them")
    if bool(user) != bool(password):
        raise ValueError("write user and password, or neither of them")
    if user and security is Security.NONE and host not in ("localhost", "127.0.0.1", "::1"):
        raise ValueError("a password is not sent over a connection without TLS; leave out ?tls=none")
    return MailServer(host, port or _PORTS[security], security, user, password)


def parse_mail_address(text: str) -> str:
    """Return a mail address such as ops@example.com, or raise a ValueError."""
    local, at, domain = text.rpartition("@")
    is_valid = at and _LOCAL.fullmatch(local) and _DOMAIN.fullmatch(domain) and len(local) <= 64
    if not is_valid or len(text) > MAX_ADDRESS_CHARACTERS:
        raise ValueError("write an address such as ops@example.com")
    return text


def _security_of(scheme: str, option: str | None) -> Security:
    if scheme == "smtps":
        if option is not None:
            raise ValueError("an smtps:// URL always uses TLS; leave out ?tls=")
        return Security.TLS
    if option in (None, "starttls"):
        return Security.STARTTLS
    if option == "none":
        return Security.NONE
    raise ValueError("tls is starttls (the default) or none, as in smtp://localhost:25?tls=none")
