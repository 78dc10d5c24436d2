"""A headless Chromium of this machine, and tabs that note whatever a page must not do."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from re import Pattern
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, Response, sync_playwright
from playwright.sync_api import TimeoutError as TooLate

PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
AXE = Path(__file__).resolve().parents[2] / "ui" / "node_modules" / "axe-core" / "axe.min.js"
WIDE, NARROW = {"width": 1440, "height": 960}, {"width": 360, "height": 740}
ZONE = "Europe/Berlin"
SECONDS = 30.0  # until a screen has its data, on a busy machine
_VIOLATIONS = """
document.addEventListener('securitypolicyviolation', (event) => {
  console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`)
})
"""
_IS_LOADED = """
(text) => document.querySelector('h1') && !document.querySelector('.hb-loading') &&
  document.body.innerText.toLowerCase().includes(text.toLowerCase())
"""
_AXE = """
async () => (await axe.run(document, { resultTypes: ['violations'] })).violations.map(({ id, nodes }) =>
  `${id}: ${nodes.slice(0, 3).map(({ target, any, all }) =>
    `${target.join(' ')} (${[...any, ...all].map(({ message }) => message).join('; ')})`).join(' | ')}`)
"""


def chromium() -> str:
    """Return the path of Chromium, or of a browser made from it."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert found is not None, "the tests of the web page need Chromium; `make chromium` installs it"
    return found


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Open a browser, whose playwright ends with it: its event loop must not meet those of other tests."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Tab:
    """A tab on a server. `problems` are errors on the console, violated policies and requests to other hosts."""

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()  # parts of messages that the test itself causes
    clicks: int = 0  # a choice in a list of a form counts, too

    def __post_init__(self) -> None:
        self.page.set_default_timeout(SECONDS * 1_000)
        self.page.add_init_script(_VIOLATIONS)
        self.page.on("console", self._note_message)
        self.page.on("pageerror", lambda error: self._note(f"uncaught: {error}"))
        self.page.on("request", self._note_request)

    def open(self, path: str, text: str = "") -> None:
        """Open a screen, and wait until it shows its data: `text`, in any case."""
        self.page.goto(self.url + path)
        self.wait_loaded(text)

    def wait_loaded(self, text: str = "") -> None:
        try:
            self.page.wait_for_function(_IS_LOADED, arg=text)
        except TooLate:
            shown = self.page.locator("body").inner_text()
            raise AssertionError(f"{self.page.url} does not show {text!r} but: {shown}; {self.problems}") from None

    def click(self, target: Locator) -> None:
        """Click, and count it."""
        self.clicks += 1
        target.click()

    def see(self, target: Locator | Pattern[str] | str) -> None:
        """Wait until something is shown: an element, or a text."""
        (target if isinstance(target, Locator) else self.page.get_by_text(target)).first.wait_for()

    def violations(self) -> list[str]:
        """Return what axe-core finds wrong with the screen as it is now."""
        self.page.wait_for_function("() => document.getAnimations().every((one) => one.playState !== 'running')")
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(AXE.read_text())
        found: list[str] = self.page.evaluate(_AXE)
        return found

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._note(f"{message.text} ({message.location.get('url', '')})")

    def _note_request(self, request: Request) -> None:
        asked = urlsplit(request.url)
        if asked.scheme not in ("blob", "data") and asked.netloc != urlsplit(self.url).netloc:
            self._note(f"request to another host: {request.url}")

    def _note(self, problem: str) -> None:
        if not any(part in problem for part in self.expected):
            self.problems.append(problem)


@contextmanager
def open_tab(browser: Browser, url: str, *, expected: tuple[str, ...] = (), **options: Any) -> Iterator[Tab]:
    """Open a tab in a context of its own; its end fails if a page did what it must not do."""
    settings: dict[str, Any] = {"viewport": WIDE, "timezone_id": ZONE, "locale": "en-GB", "reduced_motion": "reduce"}
    context = browser.new_context(**(settings | options))
    try:
        tab = Tab(context.new_page(), url, expected=expected)
        yield tab
        assert not tab.problems, tab.problems
    finally:
        context.close()


def transferred(responses: list[Response], kind: str) -> int:
    """Return how many bytes of a kind of file came over the network, compressed as they were."""
    return sum(each.request.sizes()["responseBodySize"] for each in responses if each.request.resource_type == kind)
