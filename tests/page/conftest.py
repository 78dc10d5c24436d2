"""Fixtures of the page's tests: a browser, and a server that shows the story."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.faults.process import Server
from tests.page.chromium import open_browser
from tests.page.story import END, write_story

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "src" / "hourbell" / "page" / "index.html"

collect_ignore = ["shifted"]  # a module that Python imports at its start, with a setting that tests do not have


@pytest.fixture(scope="session", autouse=True)
def _built_page() -> None:
    assert PAGE.is_file(), "the web page is not built; run `make ui`"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose clock begins where the story ends."""
    folder = tmp_path_factory.mktemp("story")
    write_story(folder / "hourbell.db")
    with story_server(folder) as server:
        yield server.wait_until_serving()


def story_server(folder: Path, **environment: str) -> Server:
    """Serve the database of the story in a folder."""
    here = Path(__file__).parent
    return Server(
        folder,
        "--app",
        "tests.page.story_app:scheduler",
        PYTHONPATH=f"{here / 'shifted'}:{ROOT}",
        TEST_CLOCK_SHIFT_SECONDS=str(END.timestamp() - time.time()),
        **environment,
    )
