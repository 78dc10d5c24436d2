"""The page while servers die, restart, are reached in other ways, or while the browser's clock is wrong."""

import http.client
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser

from tests.faults.process import Server
from tests.page.chromium import open_tab
from tests.page.helping import post, until_api
from tests.page.story import END

pytestmark = pytest.mark.full
AGREES_WITHIN_SECONDS = 2.0
UNREACHABLE = (
    "ERR_CONNECTION",
    "ERR_EMPTY_RESPONSE",
    "ERR_INCOMPLETE_CHUNKED",
    "ERR_NETWORK",
    "503",
    "502",
    "Failed to fetch",
)
APP = """
import asyncio
from hourbell import Scheduler
scheduler = Scheduler()

@scheduler.job("0 0 29 2 *", retry="none", delivery="at_most_once")
async def wait(run):
    await asyncio.sleep(3600)
"""
NEVER = {"name": "never", "schedule": "0 0 29 2 *", "target": {"type": "http", "url": "http://127.0.0.1:9/"}}


def test_a_killed_node_shows_within_two_seconds_of_the_api(
    browser: Browser, tmp_path: Path, database: dict[str, str]
) -> None:
    (tmp_path / "app.py").write_text(APP)
    short = {"HOURBELL_LEASE": "4s", **database}
    with Server(tmp_path, **short) as shown, Server(tmp_path, "--app", "app:scheduler", name="node", **short) as node:
        url = shown.wait_until_serving().url
        node.wait_until_serving()
        [job] = until_api(url, "/jobs", lambda found: bool(found["items"]))["items"]
        run = post(url, f"/jobs/{job['name']}/trigger")["run_id"]
        until_api(url, f"/runs/{run}", lambda found: found["state"] == "running")
        with open_tab(browser, url) as tab:
            tab.open(f"/runs/{run}", "running")
            node.signal(signal.SIGKILL)
            state = until_api(url, f"/runs/{run}", lambda found: found["state"] != "running")["state"]
            known_at = time.monotonic()

            tab.see(str(state))
            assert time.monotonic() - known_at < AGREES_WITHIN_SECONDS


def test_a_restart_is_shown_and_the_page_reconnects(browser: Browser, tmp_path: Path, database: dict[str, str]) -> None:
    with Server(tmp_path, **database) as first:
        url = first.wait_until_serving().url
        post(url, "/jobs", NEVER)
        with open_tab(browser, url, expected=UNREACHABLE) as tab:
            tab.open("/jobs", "never")
            tab.see(tab.page.locator('.hb-live[data-state="live"]'))
            first.signal(signal.SIGTERM)
            first.wait(20)

            tab.see(tab.page.locator('.hb-live[data-state="offline"]'))
            tab.see("never")  # what was loaded stays

            with Server(tmp_path, name="again", HTTP_ADDR=urlsplit(url).netloc, **database) as second:
                second.wait_until_serving()
                tab.see(tab.page.locator('.hb-live[data-state="live"]'))
                post(url, "/jobs", NEVER | {"name": "made-after-the-restart"})
                tab.see("made-after-the-restart")


@pytest.mark.parametrize("wrong_by", [timedelta(days=1), timedelta(days=-1)], ids=["ahead", "behind"])
def test_countdowns_are_right_with_a_wrong_clock(browser: Browser, story: Server, wrong_by: timedelta) -> None:
    with open_tab(browser, story.url) as tab:
        tab.page.clock.install(time=END + wrong_by)
        tab.open("/jobs/payroll-run", "payroll-run")

        tab.see(re.compile(r"in 2 d"))  # on 31 March at 17:00


def test_two_tabs_show_the_same(browser: Browser, tmp_path: Path, database: dict[str, str]) -> None:
    with Server(tmp_path, **database) as server:
        url = server.wait_until_serving().url
        post(url, "/jobs", NEVER)
        with open_tab(browser, url) as one, open_tab(browser, url) as two:
            one.open("/jobs/never", "never")
            two.open("/jobs/never", "never")

            one.page.get_by_role("button", name="Pause", exact=True).click()
            one.page.get_by_label("Note").fill("seen in both")
            one.page.get_by_label("Note").press("Enter")

            one.see("seen in both")
            two.see("seen in both")


def test_plain_http_at_another_loopback_address(browser: Browser, tmp_path: Path, database: dict[str, str]) -> None:
    with Server(tmp_path, HTTP_ADDR="127.0.0.2:0", **database) as server:
        url = server.wait_until_serving().url
        post(url, "/jobs", NEVER)
        with open_tab(browser, url) as tab:
            tab.open("/", "never")
            tab.page.get_by_role("button", name="Run now: never").click()
            tab.see("never was started")


@contextmanager
def prefix_proxy(backend: str, prefix: str) -> Iterator[str]:
    """A reverse proxy that shows a server under a prefix, which it passes on."""
    host = urlsplit(backend)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def pass_on(self) -> None:
            if not self.path.startswith(prefix + "/") and self.path != prefix:
                self.send_error(418, "outside of the prefix")
                return
            with closing(http.client.HTTPConnection(str(host.hostname), host.port, timeout=30)) as connection:
                self.exchange(connection)

        def exchange(self, connection: http.client.HTTPConnection) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.end_headers()
            while portion := answer.read1(65_536):
                self.wfile.write(portion)
                self.wfile.flush()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on  # noqa: N815

        def handle(self) -> None:
            with suppress(OSError, http.client.HTTPException):  # the browser or the server has left
                super().handle()

        def log_message(self, *_: object) -> None: ...

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy.daemon_threads = True
    thread = threading.Thread(target=proxy.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}{prefix}"
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()


def test_under_a_path_prefix(browser: Browser, tmp_path: Path, database: dict[str, str]) -> None:
    with Server(tmp_path, HOURBELL_PUBLIC_PATH="/ops/hourbell", **database) as server:
        backend = server.wait_until_serving().url
        with prefix_proxy(backend, "/ops/hourbell") as url, open_tab(browser, url) as tab:
            post(url, "/jobs", NEVER)
            tab.open("/", "never")
            tab.page.get_by_role("link", name="never", exact=True).first.click()
            tab.see(tab.page.get_by_role("heading", name="never"))
            assert tab.page.url.startswith(f"{url}/jobs/never")
            tab.see(tab.page.locator('.hb-live[data-state="live"]'))
            tab.page.reload()
            tab.wait_loaded("never")
            tab.page.get_by_role("button", name="Run now", exact=True).click()
            tab.see("never started")
