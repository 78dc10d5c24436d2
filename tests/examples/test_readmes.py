"""Scripts, files, commands and options in the examples' READMEs exist."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.processes import EXAMPLES

PAGES = sorted(EXAMPLES.rglob("README.md"))
PROGRAMS = {"python": [sys.executable], "hourbell": [sys.executable, "-m", "hourbell"]}


def commands() -> list[tuple[Path, str]]:
    """Every line that starts one of our programs, with the page it is on."""
    return [
        (page, found[0])
        for page in PAGES
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        for found in re.finditer(r"\b(?:python|hourbell) [^\n&)]+", block)
    ]


@pytest.mark.parametrize(("page", "command"), commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_command_of_a_page_is_understood(page: Path, command: str) -> None:
    program, *arguments = shlex.split(command)
    words = [each for each in arguments if re.fullmatch(r"[\w.]+\.py|[a-z]+", each)]

    whole = [*PROGRAMS[program], *words[: 1 if program == "python" else 2], "--help"]
    helped = subprocess.run(whole, cwd=page.parent, capture_output=True, text=True, check=False)

    assert helped.returncode == 0, helped.stderr
    assert [each for each in arguments if each.startswith("--") and each not in helped.stdout] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_every_name_on_a_page_exists(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"`([\w/]+\.(?:py|csv|sql))`", text) + re.findall(r"\]\(([^)#:]+)\)", text)

    assert named
    assert [name for name in named if not (page.parent / name).exists()] == []
