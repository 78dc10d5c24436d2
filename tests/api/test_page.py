"""The web page as a browser gets it: files, caching, compression, headers, and the prefix of a reverse proxy."""

import gzip
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from hourbell.api.page import PAGE_POLICY, read_page, render_index
from hourbell.core.access.roles import Role
from hourbell.core.values.networks import parse_networks
from hourbell.core.values.public_path import OWN_PATHS, parse_public_path
from tests.api.whole import Whole, whole_api
from tests.database import Database

pytestmark = pytest.mark.anyio
HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
PLAIN = {"Accept-Encoding": "identity"}
SCRIPT = "console.log('hourbell');\n" * 100
INDEX = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Hourbell</title>
<link rel="icon" href="./favicon.svg"><link rel="stylesheet" href="./assets/main-1a2b3c4d.css">
<script type="module" src="./assets/main-1a2b3c4d.js"></script></head><body><div id="root"></div></body></html>"""
FILES = {
    "index.html": INDEX.encode(),
    "favicon.svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "assets/main-1a2b3c4d.js": SCRIPT.encode(),
    "assets/main-1a2b3c4d.css": b"body{margin:0}",
    "assets/screen-5e6f.js": SCRIPT.encode(),
    "assets/screen-5e6f.js.br": b"brotli of the script",
    "assets/screen-5e6f.js.gz": gzip.compress(SCRIPT.encode()),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = tmp_path / "page" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "secret.txt").write_text("canary")
    return tmp_path / "page"


@pytest.fixture
async def whole(database: Database, folder: Path) -> AsyncIterator[Whole]:
    async with whole_api(database, page=folder) as made:
        yield made


async def test_the_page_needs_no_token(whole: Whole) -> None:
    await whole.token(Role.ADMIN)

    answer = await whole.client.get("/", headers=HTML)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert '<div id="root">' in answer.text
    assert (await whole.client.get("/api/v1/jobs")).status_code == 401


@pytest.mark.parametrize("path", ["/", "/jobs", "/jobs/a%20b", "/assets/main-1a2b3c4d.js", "/favicon.svg"])
async def test_every_answer_of_the_page_has_the_strict_headers(whole: Whole, path: str) -> None:
    headers = (await whole.client.get(path, headers=HTML)).headers

    assert headers["content-security-policy"] == PAGE_POLICY
    assert "unsafe" not in PAGE_POLICY
    assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
    assert headers["referrer-policy"] == "no-referrer"


async def test_hashed_files_are_cached_for_ever_and_the_index_is_revalidated(whole: Whole) -> None:
    script = await whole.client.get("/assets/main-1a2b3c4d.js")
    index = await whole.client.get("/", headers=HTML)

    assert (script.text, script.headers["content-type"]) == (SCRIPT, "text/javascript; charset=utf-8")
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert index.headers["cache-control"] == "no-cache"
    unchanged = await whole.client.get("/", headers={**HTML, "If-None-Match": index.headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    changed = await whole.client.get("/", headers={**HTML, "If-None-Match": '"other"'})
    assert changed.status_code == 200


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [("gzip, deflate, br", "br"), ("gzip", "gzip"), ("br;q=0, gzip;q=0.5", "gzip"), ("gzip;q=0", None), ("", None)],
)
async def test_an_asset_is_sent_in_an_encoding_that_the_browser_accepts(
    whole: Whole, accepted: str, coding: str | None
) -> None:
    async with whole.client.stream("GET", "/assets/screen-5e6f.js", headers={"Accept-Encoding": accepted}) as answer:
        body = b"".join([part async for part in answer.aiter_raw()])

    assert answer.headers.get("content-encoding") == coding
    assert answer.headers["vary"] == "Accept-Encoding"
    assert body == FILES[f"assets/screen-5e6f.js{ {'br': '.br', 'gzip': '.gz', None: ''}[coding] }"]


async def test_a_file_without_precompressed_versions_is_compressed_by_the_server(whole: Whole) -> None:
    answer = await whole.client.get("/assets/main-1a2b3c4d.js", headers={"Accept-Encoding": "gzip"})

    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) < len(SCRIPT) / 5
    assert answer.text == SCRIPT


@pytest.mark.parametrize("path", ["/jobs", "/jobs/report/edit", "/runs/0190", "/login", "/apiary", "/index.html"])
async def test_a_path_of_a_screen_serves_the_index(whole: Whole, path: str) -> None:
    answer = await whole.client.get(path, headers=HTML)

    assert answer.status_code == 200
    assert '<div id="root">' in answer.text
    assert (await whole.client.head(path, headers=HTML)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/jobs", {"Accept": "application/json"}),
        ("GET", "/jobs", {"Accept": "*/*"}),
        ("GET", "/jobs", {"Accept": "text/html;q=0, */*"}),
        ("POST", "/jobs", HTML),
        ("DELETE", "/", HTML),
        *(
            ("GET", path, HTML)
            for path in (
                "/api",
                "/api/v1/nothing",
                "/health/nothing",
                "/metrics/nothing",
                "/docs/nothing",
                "/openapi.json/nothing",
                "/assets/gone-0000.js",
                "/assets/",
            )
        ),
    ],
)
async def test_any_other_path_stays_a_problem(whole: Whole, method: str, path: str, headers: Mapping[str, str]) -> None:
    answer = await whole.client.request(method, path, headers=headers)

    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.parametrize("path", ["/../secret.txt", "/assets/%2e%2e/%2e%2e/secret.txt", "/assets/..%2f..%2fsecret.txt"])
async def test_a_path_cannot_leave_the_folder(whole: Whole, path: str) -> None:
    answer = await whole.client.get(path, headers=PLAIN)

    assert answer.status_code == 404
    assert "canary" not in answer.text


async def test_reserved_paths_are_the_first_segments_of_all_routes(whole: Whole) -> None:
    first = {route.path.split("/")[1] for route in whole.app.routes if isinstance(route, APIRoute)}

    assert first <= set(OWN_PATHS)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "evil.example"}, "foreign_host"),
        ({"Origin": "http://evil.example"}, "foreign_origin"),
        ({"X-Forwarded-For": "192.0.2.1"}, "behind_proxy"),
    ],
)
async def test_a_server_without_tokens_serves_its_page_to_this_machine_only(
    whole: Whole, headers: Mapping[str, str], code: str
) -> None:
    for path in ("/", "/jobs", "/assets/main-1a2b3c4d.js"):
        answer = await whole.client.get(path, headers={**HTML, **headers})
        assert (answer.status_code, answer.json()["code"]) == (403, code)
    await whole.token(Role.VIEWER)
    assert (await whole.client.get("/", headers={**HTML, **headers})).status_code == 200


async def test_without_a_build_the_root_explains_how_to_build(database: Database, tmp_path: Path) -> None:
    async with whole_api(database, page=tmp_path / "missing") as whole:
        answer = await whole.client.get("/", headers=HTML)
        screen = await whole.client.get("/jobs", headers=HTML)

        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")
        assert "make ui" in answer.text
        assert "/api/v1" in answer.text
        assert screen.status_code == 404
        assert (await whole.client.get("/api/v1/jobs")).status_code == 200


@asynccontextmanager
async def prefixed(database: Database, folder: Path, prefix: str) -> AsyncIterator[Whole]:
    async with whole_api(database, page=folder, public_path=prefix) as whole:
        yield whole


@pytest.mark.parametrize("sent", ["/hourbell", ""], ids=["the proxy keeps the prefix", "the proxy removes it"])
async def test_a_configured_prefix_is_in_the_page_and_optional_in_the_request(
    database: Database, folder: Path, sent: str
) -> None:
    async with prefixed(database, folder, "/hourbell") as whole:
        index = await whole.client.get(f"{sent}/jobs/report", headers=HTML)
        script = await whole.client.get(f"{sent}/assets/main-1a2b3c4d.js")
        made = await whole.client.post(
            f"{sent}/api/v1/jobs", json={"name": "a", "schedule": "@daily", "target": {"type": "task", "name": "t"}}
        )

        assert '<meta name="hourbell-base" content="/hourbell/">' in index.text
        assert 'src="/hourbell/assets/main-1a2b3c4d.js"' in index.text
        assert script.text == SCRIPT
        assert made.headers["location"] == f"/hourbell/api/v1/jobs/{made.json()['id']}"
        assert made.headers["cache-control"] == "no-store"
        assert (await whole.client.get(f"{sent}/", headers=HTML)).text == index.text
        assert (await whole.client.get("/hourbells/api/v1/jobs")).status_code == 404


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("/ops/hourbell", "/ops/hourbell/"),
        ("/ops/", "/ops/"),
        ("", "/"),
        ("//evil.example", "/"),
        ('/"><script>', "/"),
        ("/a/../b", "/"),
        ("https://evil.example", "/"),
    ],
)
async def test_a_trusted_proxy_may_report_the_prefix_it_removed(
    database: Database, folder: Path, given: str, base: str
) -> None:
    async with whole_api(database, page=folder, trusted_proxies=parse_networks("127.0.0.1")) as whole:
        await whole.token(Role.VIEWER)
        answer = await whole.client.get("/", headers={**HTML, "X-Forwarded-Prefix": given})

        assert f'<meta name="hourbell-base" content="{base}">' in answer.text
        assert f'href="{base}favicon.svg"' in answer.text


async def test_other_callers_may_not_report_a_prefix(whole: Whole) -> None:
    await whole.token(Role.VIEWER)
    answer = await whole.client.get("/", headers={**HTML, "X-Forwarded-Prefix": "/evil"})

    assert '<meta name="hourbell-base" content="/">' in answer.text
    assert "evil" not in answer.text


def test_the_placeholder_in_the_index_is_filled_without_adding_another() -> None:
    text = render_index('<head><meta name="hourbell-base" content="/" /></head>', "/a/")

    assert text == '<head><meta name="hourbell-base" content="/a/"></head>'


def test_a_build_folder_without_an_index_serves_no_page(tmp_path: Path) -> None:
    (tmp_path / "left.js").write_text("over")

    assert read_page(tmp_path) == {}


@pytest.mark.parametrize("text", ["hourbell", "/a b", "/a?b", "//a", "/a//b", "/..", "/" + "a" * 300])
def test_an_invalid_prefix_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write a path such as /hourbell"):
        parse_public_path(text)


def test_the_engine_is_imported_without_the_page() -> None:
    code = "import sys, hourbell, hourbell.engine.engine; assert 'hourbell.api.page' not in sys.modules"

    subprocess.run([sys.executable, "-c", code], check=True)
