"""The web page: serves the built files of `ui/` at the root, and explains how to build them if they are missing.

The page is answered where no route matches, so it can never hide one. All files are read once, at the first request.
The page finds the API by the path prefix that is written into `index.html` (`hourbell-base`), so one build works at
the root and behind any prefix.
"""

import asyncio
import gzip
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from pathlib import Path

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hourbell.core.values.public_path import OWN_PATHS

BUILT_PAGE = Path(__file__).parents[1] / "page"
PAGE_POLICY = (
    "default-src 'self'; base-uri 'none'; frame-ancestors 'none'; object-src 'none'; img-src 'self' data:; "
    "form-action 'self'; style-src 'self'"
)
_INDEX = "index.html"
_ASSETS = "assets/"
_IMMUTABLE = "public, max-age=31536000, immutable"
_MIN_COMPRESSED_BYTES = 512
_COMPRESSIBLE = ("text/", "application/json", "application/manifest+json", "image/svg+xml")
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
_RELATIVE_URL = re.compile(r'(\s(?:src|href)=")\./')
_BASE_META = re.compile(r'<meta name="hourbell-base"[^>]*>')
_HEAD = re.compile(r"<head[^>]*>")
_NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Hourbell</title>
<meta name="viewport" content="width=device-width">
<h1>Hourbell</h1>
<p>This server works, but its web page has not been built.</p>
<p>To build it, run <code>make ui</code> in a clone of the repository, and restart the server.
Released packages contain the page.</p>
<p>The REST API is at <code>{base}api/v1</code>; <a href="{base}docs">its operations</a> are listed at
<code>{base}docs</code>. On the command line, <code>hourbell --help</code> shows what you can do.</p>
</html>
"""

RequestCheck = Callable[[Request], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page with its precompressed forms, by content coding."""

    body: bytes
    media_type: str
    cache_control: str
    encoded: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'


def read_page(folder: Path) -> dict[str, PageFile]:
    """Read the built page, by path relative to the folder; an empty dict if there is no build.

    Only these names are served, so that no request path ever reaches the file system.
    """
    if not (folder / _INDEX).is_file():
        return {}
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: _read_file(name, path, files) for name, path in files.items() if path.suffix not in (".br", ".gz")}


def _read_file(name: str, path: Path, files: Mapping[str, Path]) -> PageFile:
    body = path.read_bytes()
    media_type = _MEDIA_TYPES.get(path.suffix, "application/octet-stream")
    cache_control = _IMMUTABLE if name.startswith(_ASSETS) else "no-cache"
    encoded = {
        coding: files[name + suffix].read_bytes()
        for coding, suffix in (("br", ".br"), ("gzip", ".gz"))
        if name + suffix in files and name != _INDEX
    }
    if "gzip" not in encoded and media_type.startswith(_COMPRESSIBLE) and len(body) >= _MIN_COMPRESSED_BYTES:
        encoded["gzip"] = gzip.compress(body, mtime=0)
    return PageFile(body, media_type, cache_control, encoded)


def render_index(template: str, base: str) -> str:
    """Write the path prefix into `index.html`: into its relative URLs, and as `hourbell-base` for the scripts."""
    shown = escape(base)
    meta = f'<meta name="hourbell-base" content="{shown}">'
    text = _RELATIVE_URL.sub(lambda found: found[1] + shown, template)
    if _BASE_META.search(text):
        return _BASE_META.sub(lambda _: meta, text, count=1)
    return _HEAD.sub(lambda found: found[0] + meta, text, count=1)


class Page:
    """An ASGI app for requests that match no route: the page where it is meant, else `otherwise`."""

    def __init__(self, otherwise: ASGIApp, check: RequestCheck, folder: Path = BUILT_PAGE) -> None:
        self._otherwise = otherwise
        self._check = check
        self._folder = folder
        self._files: dict[str, PageFile] | None = None
        self._reading = asyncio.Lock()
        self._index = lru_cache(maxsize=16)(self._render_index)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            await self._otherwise(scope, receive, send)
            return
        files = await self._read()
        request = Request(scope, receive)
        file = self._find(files, scope["path"].removeprefix("/"), request)
        if file is None:
            await self._otherwise(scope, receive, send)
            return
        await self._check(request)
        await _respond(file, request.headers)(scope, receive, send)

    async def _read(self) -> dict[str, PageFile]:
        async with self._reading:
            if self._files is None:
                self._files = await asyncio.to_thread(read_page, self._folder)
            return self._files

    def _find(self, files: Mapping[str, PageFile], path: str, request: Request) -> PageFile | None:
        if path in files and path != _INDEX:
            return files[path]
        is_root = path in ("", _INDEX)
        is_screen = bool(files) and path.split("/")[0] not in OWN_PATHS and _accepts_html(request.headers)
        return self._index(base_of(request)) if is_root or is_screen else None

    def _render_index(self, base: str) -> PageFile:
        index = (self._files or {}).get(_INDEX)
        text = _NOT_BUILT.format(base=escape(base)) if index is None else render_index(index.body.decode(), base)
        body = text.encode()
        return PageFile(body, _MEDIA_TYPES[".html"], "no-cache", {"gzip": gzip.compress(body, mtime=0)})


def base_of(request: Request) -> str:
    """Return the path under which the browser sees this server, from `/` to `/`; the middleware determines it."""
    prefix: str = getattr(request.state, "public_path", "")
    return f"{prefix}/"


def _respond(file: PageFile, headers: Headers) -> Response:
    shared = {
        "Cache-Control": file.cache_control,
        "Content-Security-Policy": PAGE_POLICY,
        "ETag": file.etag,
        "Vary": "Accept-Encoding",
    }
    if file.etag in [each.strip().removeprefix("W/") for each in headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=shared)
    accepted = _accepted_codings(headers)
    coding = next((each for each in ("br", "gzip") if each in file.encoded and each in accepted), None)
    body = file.body if coding is None else file.encoded[coding]
    more = {} if coding is None else {"Content-Encoding": coding}
    return Response(body, media_type=file.media_type, headers={**shared, **more})


def _accepts_html(headers: Headers) -> bool:
    return "text/html" in _accepted(headers.getlist("accept"))


def _accepted_codings(headers: Headers) -> set[str]:
    return _accepted(headers.getlist("accept-encoding"))


def _accepted(values: list[str]) -> set[str]:
    """Return the names in an Accept header, without those that have the weight 0."""
    found = set()
    for part in ",".join(values).lower().split(","):
        name, _, parameters = part.partition(";")
        weight = parameters.replace(" ", "")
        if not re.fullmatch(r"q=0(\.0*)?", weight):
            found.add(name.strip())
    return found
