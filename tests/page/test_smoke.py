"""Every screen in a real browser: it loads with data, breaks no rule, and is light."""

from playwright.sync_api import Browser, Response

from tests.faults.process import Server
from tests.page.chromium import open_tab, transferred
from tests.page.screens import screens_of

KIB = 1_024
MAX_SCRIPT, MAX_STYLE = 120 * KIB, 20 * KIB


def test_every_screen_shows_its_data_accessibly_and_breaks_no_rule(browser: Browser, story: Server) -> None:
    wrong: dict[str, list[str]] = {}
    for path, text in screens_of(story.url).items():
        with open_tab(browser, story.url) as tab:
            tab.open(path, text)

            found = [*tab.violations(), *tab.problems]

            tab.problems.clear()
            wrong |= {path: found} if found else {}

    assert wrong == {}


def test_the_first_load_is_light(browser: Browser, story: Server) -> None:
    with open_tab(browser, story.url) as tab:
        responses: list[Response] = []
        tab.page.on("response", lambda response: responses.append(response))

        tab.open("/", "invoice-export")

        assert 0 < transferred(responses, "script") <= MAX_SCRIPT
        assert 0 < transferred(responses, "stylesheet") <= MAX_STYLE
