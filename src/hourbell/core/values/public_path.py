"""The path prefix under which a reverse proxy shows the server, such as `/hourbell`; empty at the root."""

import re

OWN_PATHS = ("api", "assets", "docs", "health", "metrics", "openapi.json")
"""First segments of paths that the server answers itself: never a screen of the page, nor a prefix."""

MAX_PUBLIC_PATH_CHARACTERS = 200
_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)*", re.ASCII)


def parse_public_path(text: str) -> str:
    """Return the prefix without a trailing slash; a ValueError says how to write one."""
    path = text.removesuffix("/")
    if len(path) > MAX_PUBLIC_PATH_CHARACTERS or _PATH.fullmatch(path) is None:
        raise ValueError("write a path such as /hourbell, of letters, digits, '.', '_', '~' and '-'")
    return path
