"""Every screen in both themes, on a wide screen and on a phone: accessible, and no wider than the screen."""

from typing import Literal

import pytest
from playwright.sync_api import Browser

from tests.faults.process import Server
from tests.page.chromium import NARROW, WIDE, open_tab
from tests.page.screens import screens_of

pytestmark = pytest.mark.full
_IS_TOO_WIDE = "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.mark.parametrize("viewport", [pytest.param(WIDE, id="wide"), pytest.param(NARROW, id="360px")])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_screen_is_accessible_and_fits(
    browser: Browser, story: Server, theme: Literal["light", "dark"], viewport: dict[str, int]
) -> None:
    wrong: dict[str, list[str]] = {}
    for path, text in screens_of(story.url).items():
        with open_tab(browser, story.url, color_scheme=theme, viewport=viewport) as tab:
            tab.open(path, text)

            found = [*tab.violations(), *tab.problems]
            found += ["wider than the screen"] if tab.page.evaluate(_IS_TOO_WIDE) else []

            tab.problems.clear()
            wrong |= {path: found} if found else {}

    assert wrong == {}
