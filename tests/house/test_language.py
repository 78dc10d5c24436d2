"""Identifiers and docstrings use common technical words; docs/glossary.md has them."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RIDDLE = re.compile(r"(What|Who|Whoever|Whose|Of|Whether|Which|Where|How|Why|When|That|It|There|With|By|As|For)\b")
RIDDLING_TEST = re.compile(
    r"test_(what|who|whoever|whose|of|whether|which|where|nor|so|that|those|others)_"
    r"|\w*_(told|tells?|mend(ed|s)?|anew|odd|luck|faults?|unwell|beats?|goes_back|brought|out_of_reach)(_|$)"
)
BANNED = """
Apart Attempting Contestant Desk Door Edge Exchange Fault Gate Guard Held IdleWires Inline Needs NodeDesk
Place Settled Surroundings TellsSecret Threaded Told ToldCall Want Wire WireTransport Words _told attempting
bring_in build_door build_gate contest contestant desk door door_of fault_of faults_of_all gate is_storable
look_again luck lucks odd_text open_place opponent pause_words place_of plan_words spoilt storable
storable_json surroundings text_fault told told_of why_gone wire
"""
BANNED_IN_TEXTS = re.compile(
    r"\b(instants?|out of reach|mend(s|ed|ing)?|told|anew|luck|unwell|spoil(t|ed)|deeds?|heard of|stands for)\b",
    re.IGNORECASE,
)
CODE = re.compile(r"^```.*?^```$|`[^`]*`|\]\([^)]*\)|<[^>]*>", re.MULTILINE | re.DOTALL)
REQUIREMENT = re.compile(r"\b[A-Z]\d{1,3}\b")  # internal codes, such as B31
PAGES = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), *(ROOT / "examples").rglob("*.md")]
GLOSSARY = ROOT / "docs" / "glossary.md"  # defines words that only the source uses
BANNED_PREFIXES = re.compile(r"_?(MOST|LONGEST|LARGEST)(_|$)")
LIMIT = re.compile(r"_?(MAX|MIN)_")
QUALIFIER = re.compile(r"_(PER_[A-Z]+|A_SECOND|TO_[A-Z]+)$")
UNITS = """
ADDRESSES ATTEMPTS BREAKS BUCKETS BYTES CALLERS CHANGES CHARACTERS CONNECTIONS DATES DAYS DEFINITIONS DIGITS ERRORS
EVENTS FRAMES GAPS HEADERS HOSTS IMPORTS ITEMS JOBS KEYS LANES LEVELS LINES LOOKUPS MARKS MOMENTS NAMES
NOTIFICATIONS OCCURRENCES OUTAGES PARAMETERS POINTS RATIO REQUESTS ROWS RUNS SCHEDULES SECONDS STREAMS
SUGGESTIONS TAGS TIMES TOKENS TURNS VALUES VERSIONS WAITS
"""
FILES = sorted(path for folder in ("src", "tests", "bench", "examples") for path in (ROOT / folder).rglob("*.py"))
OURS = [path for path in FILES if ROOT / "src" in path.parents or ROOT / "bench" in path.parents]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def names_in(text: str) -> Iterator[tuple[int, str]]:
    """Yield every identifier with its line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def banned(names: Iterator[tuple[int, str]]) -> list[str]:
    banned_names = frozenset(BANNED.split())
    return [f"{line}: {name}" for line, name in names if name in banned_names or BANNED_PREFIXES.match(name)]


def limits_in(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the module's MAX_ and MIN_ constants with their values."""
    for node in module.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=value)
            ):
                pairs = [(name, value)]
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = [
                    (each.id, value) for each, value in zip(names, values, strict=True) if isinstance(each, ast.Name)
                ]
            case _:
                continue
        yield from ((name, value) for name, value in pairs if value is not None and LIMIT.match(name))


def is_number(value: ast.expr) -> bool:
    """Tell numbers, and arithmetic on numbers and constants, from texts, dicts and timedeltas."""
    match value:
        case ast.Constant(value=number):
            return isinstance(number, int | float)
        case ast.BinOp(left=left, right=right):
            return all(isinstance(side, ast.Name) or is_number(side) for side in (left, right))
    return False


def unit_of(name: str) -> str:
    return QUALIFIER.sub("", name).rpartition("_")[2]


def without_unit(module: ast.Module) -> list[str]:
    return [name for name, value in limits_in(module) if is_number(value) and unit_of(name) not in UNITS.split()]


def riddles(module: ast.Module) -> list[str]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = (ast.get_docstring(node) for node in ast.walk(module) if isinstance(node, documented))
    return [text.splitlines()[0] for text in texts if text and RIDDLE.match(text)]


def riddling_tests(module: ast.Module) -> list[str]:
    functions = (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [each.name for each in functions if each.name.startswith("test_") and RIDDLING_TEST.match(each.name)]


def texts_in(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield string literals of several words with their line, parts of f-strings included, docstrings excluded."""
    statements = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        match node:
            case ast.Constant(value=str(text)) if " " in text and id(node) not in statements:
                yield node.lineno, text


def private_words(text: str) -> list[str]:
    return [found[0] for found in BANNED_IN_TEXTS.finditer(text)]


def test_docstrings_say_what_they_promise() -> None:
    found = {str(path.relative_to(ROOT)): riddles(tree_of(path)) for path in FILES}

    assert {path: lines for path, lines in found.items() if lines} == {}


def test_no_identifier_is_a_private_word() -> None:
    found = {str(path.relative_to(ROOT)): banned(names_in(path.read_text("utf-8"))) for path in FILES}

    assert {path: names for path, names in found.items() if names} == {}


def test_a_test_name_begins_with_its_subject() -> None:
    found = {str(path.relative_to(ROOT)): riddling_tests(tree_of(path)) for path in FILES}

    assert {path: names for path, names in found.items() if names} == {}


def test_messages_use_common_words() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}": private_words(text)
        for path in OURS
        for line, text in texts_in(tree_of(path))
    }

    assert {place: words for place, words in found.items() if words} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_common_words(page: Path) -> None:
    prose = CODE.sub("", page.read_text("utf-8"))

    assert page == GLOSSARY or private_words(prose.replace("told apart", "")) == []
    assert REQUIREMENT.findall(prose) == []


def test_every_limit_has_a_unit() -> None:
    found = {str(path.relative_to(ROOT)): without_unit(tree_of(path)) for path in OURS}

    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("MAX_BODY_BYTES, _MIN_WAIT = 1024 * KIB, 0.5", ["_MIN_WAIT"]),
        ("MAX_BYTES_PER_CALLER: int = 3\nMIN_AGE: int = 3", ["MIN_AGE"]),
        ("MAX_AGE = timedelta(days=1)\nMAX_NAMES_BY_PATH = {}\nMAXIMUM = 3", []),
    ],
)
def test_a_limit_without_a_unit_is_found(source: str, names: list[str]) -> None:
    assert without_unit(ast.parse(source)) == names


def test_banned_names_and_riddles_are_found() -> None:
    source = 'def f(told):\n    """What is told, of a wire."""\n    return _MOST_BYTES, "wire"  # a gate\n'

    assert banned(names_in(source)) == ["1: told", "3: _MOST_BYTES"]
    assert riddles(ast.parse(source)) == ["What is told, of a wire."]


def test_private_words_in_texts_are_found() -> None:
    module = ast.parse('"""The instant."""\nx = f"at an instant {instant} of luck"\ny = "instant"\n')

    assert [private_words(text) for _, text in texts_in(module)] == [["instant"], ["luck"]]


def test_a_test_name_that_riddles_is_found() -> None:
    names = ("test_what_waits_runs", "test_a_step_is_told", "test_a_whole_test", "what_waits")
    source = "".join(f"def {name}():\n    pass\n" for name in names)

    assert riddling_tests(ast.parse(source)) == ["test_what_waits_runs", "test_a_step_is_told"]
