"""Every log event is explained in docs/events.md, and nothing else is."""

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "events.md"
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
TAKEN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def log_calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call of a logger in the sources, with the place."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="log"), attr=level)) if level in LEVELS:
                    yield f"{path.name}:{node.lineno}", node


def event_of(call: ast.Call) -> object:
    return call.args[0].value if isinstance(call.args[0], ast.Constant) else None


def levels_in_the_sources() -> dict[str, str]:
    found = {}
    for _, call in log_calls():
        assert isinstance(call.func, ast.Attribute)
        found[str(event_of(call))] = "error" if call.func.attr == "exception" else call.func.attr
    return found


def levels_on_the_page() -> dict[str, str]:
    return dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE))


def test_every_log_line_has_an_event_name_in_snake_case() -> None:
    strange = [location for location, call in log_calls() if not re.fullmatch(r"[a-z]+(_[a-z]+)*", str(event_of(call)))]

    assert strange == []


def test_the_page_explains_every_event_with_its_level_and_no_others() -> None:
    assert levels_on_the_page() == levels_in_the_sources()


def test_no_fact_has_a_name_that_logging_refuses() -> None:
    refused = [
        (location, key.value)
        for location, call in log_calls()
        for keyword in call.keywords
        for part in ast.walk(keyword.value)
        if isinstance(part, ast.Dict)
        for key in part.keys
        if isinstance(key, ast.Constant) and key.value in TAKEN
    ]

    assert refused == []
