"""Strict parsing of webhook URLs: a URL that has more than one reading is refused.

Parsers disagree about unusual URLs, and attackers exploit the difference. So the whole product uses this parser, which
accepts only plain URLs. The egress policy relies on that.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import quote

PORTS = {"http": 80, "https": 443}
_MAX_URL_CHARACTERS = 2_048
_MAX_NAME_CHARACTERS, _MAX_LABEL_CHARACTERS = 253, 63
_URL = re.compile(r"(https?)://([^/?]*)(.*)", re.ASCII | re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::([^:]*))?")
_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})", re.ASCII)
_UNESCAPED = "/?:@!$&'()*+,;=%"  # what RFC 3986 allows in a path and a query besides letters, digits and -._~


@dataclass(frozen=True, slots=True)
class Url:
    """A parsed URL.

    `host` is a lower-case ASCII name without a final dot, or a canonical address. `path` begins with a slash and
    includes the query, percent-encoded as it is sent.
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The value of the Host header: with the port only if it is not the scheme's default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """The scheme, host and port, always written out: the lane of the URL's runs."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def is_address(self) -> bool:
        """True if the host is an IP address and not a name. No top-level domain is a number."""
        return ":" in self.host or self.host.rpartition(".")[2].isdigit()

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_url(text: object) -> Url:
    """Parse a URL, or raise a ValueError that says how to write one. The text of the result parses to the same URL.

    No message repeats more than the host, because the rest may contain a password or a token.
    """
    if not isinstance(text, str) or not text:
        raise ValueError("write a URL, as in https://example.com/hook")
    _check_length(text)
    if " " in text or "\\" in text or not text.isprintable():
        raise ValueError("a URL has no spaces, control characters or backslashes; percent-encode them")
    if "#" in text:
        raise ValueError("a fragment is never sent; leave out the # and what follows, or write %23")
    found = _URL.fullmatch(text)
    if found is None:
        raise ValueError("a URL begins with https:// or http://, as in https://example.com/hook")
    scheme = found[1].lower()
    host, port = _authority(found[2])
    url = Url(scheme, host, port or PORTS[scheme], _path(found[3]))
    _check_length(str(url))
    return url


def _check_length(text: str) -> None:
    if len(text) > _MAX_URL_CHARACTERS:
        raise ValueError(
            f"the URL has {len(text):,} characters with all it encodes; at most {_MAX_URL_CHARACTERS:,} are taken"
        )


def _authority(text: str) -> tuple[str, int | None]:
    if "@" in text:
        raise ValueError("a URL must not contain a user name or password; send them in a header")
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise ValueError("the host cannot be read; write a name, an IPv4 address, or an IPv6 address in brackets")
    host, port = found[1], found[2]
    if port is not None and (_PORT.fullmatch(port) is None or int(port) > 65_535):
        raise ValueError("a port is a number from 1 to 65535; correct it, or leave it out with its colon")
    return _host(host), None if port is None else int(port)


def _host(text: str) -> str:
    if not text or text == "[]":
        raise ValueError("there is no host; write one, as in https://example.com/hook")
    if text.startswith("["):
        return _ipv6(text[1:-1])
    if "%" in text:
        raise ValueError("the host is percent-encoded; write it in plain characters")
    labels = [_label(label, text) for label in text.removesuffix(".").split(".")]
    # Resolvers read 127.1, 0x7f000001 and 017700000001 as addresses, each in its own way: so a numeric last label must
    # be a plain IPv4 address.
    if _NUMBER.fullmatch(labels[-1]):
        return _ipv4(text)
    name = ".".join(labels)
    if len(name) > _MAX_NAME_CHARACTERS:
        raise ValueError(f"the host name is too long; at most {_MAX_NAME_CHARACTERS} characters are a name")
    return name


def _label(label: str, host: str) -> str:
    plain = label.encode().lower().decode()  # ASCII only: str.lower() would turn a Kelvin sign into an ASCII k
    if len(plain) <= _MAX_LABEL_CHARACTERS and (not plain.isascii() or plain.startswith("xn--")):
        plain = _international(plain, host)
    if len(plain) > _MAX_LABEL_CHARACTERS:
        raise ValueError(f"{_shown(host)} has a part of over {_MAX_LABEL_CHARACTERS} characters, which no name has")
    if _LABEL.fullmatch(plain) is None:
        raise ValueError(f"{_shown(host)} is not a host name; write letters, digits and hyphens between single dots")
    return plain


def _international(label: str, host: str) -> str:
    """Encode a label by IDNA 2008 without mapping, so that ①, fullwidth letters and ideographic dots are refused."""
    import idna  # only a few hosts need its tables

    try:
        return idna.alabel(label).decode()
    except idna.IDNAError:
        raise ValueError(
            f"{_shown(host)} is not an international name; write it in lower case, as in bücher.example"
        ) from None


def _ipv4(text: str) -> str:
    try:
        return str(IPv4Address(text))
    except ValueError:
        raise ValueError(f"{_shown(text)} is not an IPv4 address; write four numbers, as in 192.0.2.1") from None


def _ipv6(text: str) -> str:
    if "%" in text:
        raise ValueError(
            "an address with a zone means something else on every machine; leave out the % and what follows"
        )
    try:
        address = IPv6Address(text)
    except ValueError:
        raise ValueError(f"{_shown(text)} is not an IPv6 address; write one, as in [2001:db8::1]") from None
    # Python releases format this one differently, and it is part of a lane's name.
    return f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else str(address)


def _path(text: str) -> str:
    # Receivers disagree about a bare %, and encoding it would guess the intent: it may be a typo in %2F.
    if _LONE_PERCENT.search(text):
        raise ValueError("a % stands before two hexadecimal digits; write %25 for a percent sign")
    path, _, query = text.partition("?")
    return quote(f"{path or '/'}?{query}" if query else path or "/", safe=_UNESCAPED)


def _shown(host: str) -> str:
    text = ascii(host)
    return text if len(text) <= 80 else f"{text[:76]}…{text[-1]}"
