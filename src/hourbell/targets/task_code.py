"""Inspection of a task function's bytecode for the names it uses."""

import functools
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any


def names(function: Callable[..., Any], name: str) -> bool:
    """Return True if a name occurs in the code of a function or of one it wraps, or if there is no code to inspect."""
    return any(code is None or _occurs(code, name) for code in _codes(function))


def _codes(function: Any) -> Iterator[CodeType | None]:
    """Yield the code of a function and of all it wraps: methods, partials and functools.wraps decorators."""
    while function is not None:
        if isinstance(function, functools.partial):
            function = function.func
            continue
        function = getattr(function, "__func__", function)
        code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
        yield code if isinstance(code, CodeType) else None
        function = getattr(function, "__wrapped__", None)


def _occurs(code: CodeType, name: str) -> bool:
    if name in code.co_names or name in code.co_consts:
        return True
    return any(isinstance(inner, CodeType) and _occurs(inner, name) for inner in code.co_consts)
