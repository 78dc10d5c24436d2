"""ARCHITECTURE.md names only what exists, and the map in CONTRIBUTING.md leaves no folder out."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "hourbell"
PAGE = ROOT / "ARCHITECTURE.md"
BUILT_PAGE = PACKAGE / "page"  # made by a build, and not in the repository
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PATH = r"[\w./-]+(?:\.(?:py|sql|md|toml|json)|/)"
CODE_SPAN = re.compile(rf"`({PATH})(?:::([\w.]+))?`")


def references() -> list[tuple[str, str]]:
    """Every path between backticks, with the name after `::`, or an empty one."""
    return sorted(set(CODE_SPAN.findall(FENCED.sub("", PAGE.read_text()))))


def locate(path: str) -> Path:
    """Resolve a path of the page, which is relative to the package or to the repository."""
    return PACKAGE / path if (PACKAGE / path).exists() else ROOT / path


@cache
def names_in(path: Path) -> frozenset[str]:
    """The functions, classes and methods of a Python file, or the named statements of a SQL file."""
    text = path.read_text()
    if path.suffix == ".sql":
        return frozenset(re.findall(r"^-- name: (\w+)", text, re.MULTILINE))
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{each.name}" for each in node.body if hasattr(each, "name")}
    return frozenset(names)


def folders(parent: Path) -> list[str]:
    """The folders in it with a file of the repository somewhere below."""
    ours = {
        path.relative_to(parent).parts[0]
        for path in parent.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.is_relative_to(BUILT_PAGE)
    }
    return sorted(name for name in ours if (parent / name).is_dir())


def anchors_of(page: Path) -> set[str]:
    """The anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def contributing_map() -> str:
    block = FENCED.search(CONTRIBUTING.read_text().partition("## Where things are\n")[2])
    assert block is not None
    return block[0]


@pytest.mark.parametrize(("path", "name"), references())
def test_a_reference_of_the_page_leads_to_code(path: str, name: str) -> None:
    found = locate(path)

    assert found.exists()
    assert not name or name in names_in(found)


def test_the_page_refers_to_code_in_the_form_that_is_checked() -> None:
    spans = re.findall(r"`([^`\n]+)`", FENCED.sub("", PAGE.read_text()))

    assert len(references()) > 100
    assert [span for span in spans if "::" in span and CODE_SPAN.fullmatch(f"`{span}`") is None] == []


def test_the_links_of_the_page_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", PAGE.read_text())

    assert [path for path, _ in links if not (ROOT / path).exists()] == []
    assert [link for link in links if link[1] and link[1] not in anchors_of(ROOT / (link[0] or PAGE.name))] == []


def test_the_page_has_a_line_for_every_package() -> None:
    rows = re.findall(r"^\| `(\w+)/` \|", PAGE.read_text(), re.MULTILINE)

    assert sorted(rows) == folders(PACKAGE)


def test_the_page_names_every_module_beside_the_packages() -> None:
    modules = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py", "__main__.py"}

    assert modules <= {path for path, _ in references()}


def test_the_page_shows_the_layers_that_are_enforced() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]

    assert "```\n" + "\n".join(layers) + "\n```" in PAGE.read_text()


@pytest.mark.parametrize("package", folders(PACKAGE))
def test_the_map_has_a_line_for_a_package(package: str) -> None:
    assert re.search(rf"^src/hourbell/{package}/ +\S", contributing_map(), re.MULTILINE)


@pytest.mark.parametrize("folder", folders(ROOT / "tests"))
def test_the_map_names_a_folder_of_tests(folder: str) -> None:
    assert re.search(rf"\btests/{folder}\b", contributing_map())


def test_contributing_names_modules_that_exist() -> None:
    """Its walk of a schedule is relative to core/schedule."""
    paths = {path for path, _ in CODE_SPAN.findall(FENCED.sub("", CONTRIBUTING.read_text()))}
    schedule = PACKAGE / "core" / "schedule"

    assert [path for path in sorted(paths) if not locate(path).exists() and not (schedule / path).exists()] == []


def test_every_path_in_the_map_exists() -> None:
    named = re.findall(r"(?:^ *|\s)((?:src|tests|bench|docs|core)/[\w./]*\w/?)", contributing_map(), re.MULTILINE)

    assert [path for path in named if not locate(path).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_newcomers_find_the_page(page: str) -> None:
    assert "](ARCHITECTURE.md)" in (ROOT / page).read_text()
