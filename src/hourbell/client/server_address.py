"""The URL of the server and the token, from the arguments or else from the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

URL, TOKEN, TOKEN_FILE = "HOURBELL_URL", "HOURBELL_TOKEN", "HOURBELL_TOKEN_FILE"
DEFAULT_URL = "http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    url: str  # without a trailing slash
    token: str | None = field(repr=False)


def find_server(url: str | None, token: str | None, environment: Mapping[str, str] = os.environ) -> ServerAddress:
    """Return the URL and the token; raise ValueError that says what to set. It never shows a token."""
    return ServerAddress(_checked_url(url or environment.get(URL) or DEFAULT_URL), _token(token, environment))


def _checked_url(url: str) -> str:
    hint = f"Write the server's address as in {DEFAULT_URL}, in {URL} or as url="
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.scheme in ("http", "https") and parts.hostname and parts.port != 0)
    except ValueError:
        is_whole = False
    if not is_whole or not url.isprintable() or not url.isascii() or " " in url or parts.query or parts.fragment:
        raise ValueError(f"{hint}.")
    if "@" in parts.netloc:
        raise ValueError(f"The address must not contain a user name or password; put a token in {TOKEN}.")
    return url.rstrip("/")


def _token(given: str | None, environment: Mapping[str, str]) -> str | None:
    text = given or environment.get(TOKEN)
    if not text and (path := environment.get(TOKEN_FILE)):
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, ValueError) as error:
            raise ValueError(f"{TOKEN_FILE} names {path}, which cannot be read: {error}.") from None
    text = (text or "").strip()
    if text and not (text.isascii() and text.isprintable() and " " not in text):
        raise ValueError(f"The token in {TOKEN} or {TOKEN_FILE} has characters that no token has; copy it again.")
    return text or None
