"""The examples of docs/receiving.md that need a framework. The others are run by tests/house."""

import ast
import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "receiving.md"
EXAMPLES = [code for code in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S) if ">>>" not in code]


def names_of_ours(code: str) -> list[tuple[str, str]]:
    return [
        (node.module, alias.name)
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("hourbell")
        for alias in node.names
    ]


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_imports_what_is_there(code: str) -> None:
    assert [name for name in names_of_ours(code) if not hasattr(importlib.import_module(name[0]), name[1])] == []


def test_the_page_shows_every_adapter() -> None:
    shown = {module for code in EXAMPLES for module, _ in names_of_ours(code)}

    assert {"hourbell.receiver", "hourbell.receiver.asgi", "hourbell.receiver.django"} <= shown
