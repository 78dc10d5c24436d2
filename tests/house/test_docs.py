"""The examples of the docs work: console and Python examples are executed."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted(path for path in (ROOT / "examples").rglob("*.*") if path.suffix != ".pyc")
BIN = Path(sys.executable).parent


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def console_examples() -> list[tuple[str, str]]:
    """Every command shown in the documents, with the output shown below it."""
    found = []
    for page in PAGES:
        for block in blocks(page, "console"):
            for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = example.partition("\n")
                found.append((command.partition("  # ")[0].strip(), output))
    return found


@pytest.mark.parametrize(("command", "output"), console_examples())
def test_a_command_in_the_documents_prints_what_is_shown(command: str, output: str) -> None:
    program, *arguments = shlex.split(command)
    if program == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return
    assert Path(program).name == "hourbell"

    environment = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run([BIN / "hourbell", *arguments], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout + done.stderr == output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_examples_of_a_page_are_true(page: Path) -> None:
    examples = "\n".join(blocks(page, "python"))
    test = doctest.DocTestParser().get_doctest(examples, {"__name__": "example"}, page.name, str(page), 0)
    complaints: list[str] = []
    doctest.DocTestRunner().run(test, out=complaints.append)

    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text())

    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=lambda page: page.name)
def test_every_scheduler_that_is_shown_names_its_source(page: Path) -> None:
    """Its jobs stay its own when a module is renamed, and people copy what is shown."""
    shown = re.findall(r"\bScheduler\([^)]*\)", page.read_text())

    assert [call for call in shown if not re.match(r"""Scheduler\((source=)?["']\w""", call)] == []


def test_the_index_links_every_page_of_the_docs() -> None:
    index = ROOT / "docs" / "index.md"
    linked = re.findall(r"\]\(([\w-]+\.md)\)", index.read_text())

    assert sorted(linked) == sorted(page.name for page in index.parent.glob("*.md") if page != index)
