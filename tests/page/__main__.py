"""Make the screenshots of the docs: `make screenshots`, or `python -m tests.page --all FOLDER` for every screen.

The story is the same each time (`story.py`). Screens of the docs go to `docs/images`.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs

from tests.page.chromium import NARROW, WIDE, open_browser, open_tab
from tests.page.conftest import ROOT, story_server
from tests.page.screens import screens_of
from tests.page.story import write_story

IMAGES = ROOT / "docs" / "images"
DOCS = ("home-light", "home-dark", "job-light", "run-light", "edit-light")
_THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
_SETTLE_MS = 600


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.page", description=__doc__)
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="every screen, also at 360 px, into this folder")
    parser.add_argument("--days", type=float, default=14, help="days of history")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hourbell-story-") as name:
        folder = Path(name)
        write_story(folder / "hourbell.db", arguments.days)
        with story_server(folder) as server, open_browser() as browser:
            server.wait_until_serving()
            for path, text in screens_of(server.url).items():
                for theme in _THEMES:
                    for suffix, viewport in (("", WIDE), ("-360", NARROW)):
                        image = f"{_name(path)}-{theme}{suffix}"
                        into = [IMAGES] if image in DOCS else []
                        into += [arguments.all] if arguments.all else []
                        if not into:
                            continue
                        with open_tab(browser, server.url, color_scheme=theme, viewport=viewport) as tab:
                            tab.open(path, text)
                            tab.page.wait_for_timeout(_SETTLE_MS)
                            taken = tab.page.screenshot()
                        for each in into:
                            each.mkdir(parents=True, exist_ok=True)
                            (each / f"{image}.png").write_bytes(taken)
                        print(image, flush=True)


def _name(path: str) -> str:
    path, _, query = path.partition("?")
    parts = path.strip("/").split("/")
    if parts[0] == "runs" and len(parts) > 1:
        return "run"
    if parts[0] == "jobs" and len(parts) > 1:
        return "new" if parts[1] == "new" else (parts[2:] or ["job"])[0]
    tab = parse_qs(query).get("tab", [""])[0]
    return tab or parts[0] or "home"


if __name__ == "__main__":
    main()
