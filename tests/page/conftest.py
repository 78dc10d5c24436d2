"""Fixtures of the page's tests: a browser, and a server that shows the story."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.backends import ONE_IN_A_FILE
from tests.faults.process import Server
from tests.page.chromium import open_browser
from tests.page.databases import database_of
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


@pytest.fixture(scope="module", params=ONE_IN_A_FILE)
def backend(request: pytest.FixtureRequest) -> str:
    """The kind of database: what the page does is tested on each."""
    return str(request.param)


@pytest.fixture
def database(backend: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The setting of an empty database, for `Server`."""
    with database_of(backend, tmp_path) as url:
        yield {"DATABASE_URL": url}


@pytest.fixture(scope="session")
def story_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The story as a SQLite file that nobody serves."""
    path = tmp_path_factory.mktemp("rows") / "story.db"
    write_story(path)
    return path


@pytest.fixture(scope="module")
def story(backend: str, story_rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose clock begins where the story ends."""
    folder = tmp_path_factory.mktemp("story")
    rows = Path(shutil.copy(story_rows, folder / "hourbell.db"))
    with database_of(backend, folder, rows) as url, story_server(folder, DATABASE_URL=url) as server:
        yield server.wait_until_serving()


def story_server(folder: Path, **environment: str) -> Server:
    """Serve the story; by default the SQLite file in the folder."""
    here = Path(__file__).parent
    return Server(
        folder,
        "--app",
        "tests.page.story_app:scheduler",
        PYTHONPATH=f"{here / 'shifted'}:{ROOT}",
        TEST_CLOCK_SHIFT_SECONDS=str(END.timestamp() - time.time()),
        **environment,
    )
