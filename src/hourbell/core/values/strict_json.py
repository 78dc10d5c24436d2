"""Strict JSON parsing of untrusted text: ambiguous JSON is refused. Every database can store the result.

The depth is checked before the text is parsed, so that no code here or later recurses deeper than `deepest`.
"""

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

from hourbell.core.schedule.errors import echo

DEEPEST = 32
MAX_VALUES = 50_000  # in a target or payload: each costs time whenever the job is changed, rendered or run
_MAX_NUMBER_CHARACTERS = 309  # characters; no float is longer than that before its point
_BOM = b"\xef\xbb\xbf"
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z|\\\Z)|[\[\]{}]', re.DOTALL)
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z|\\\Z)', re.DOTALL)
_SUSPECT_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


class NotJson(ValueError):
    """An invalid JSON text. The message is one sentence, with the line and column if known."""


def parse_json(data: bytes, *, deepest: int = DEEPEST, max_values: int | None = None) -> object:
    """Parse JSON, or raise a NotJson that says what is wrong. Duplicate keys are refused."""
    text = _decode(data)
    if (
        max_values is not None
        and _count_values(text) > max_values
        and _count_values(_STRING.sub("", text)) > max_values
    ):
        raise NotJson(_too_many(max_values))
    if text.count("[") + text.count("{") > deepest:
        _check_depth(text, deepest)
    try:
        value: object = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        what = error.msg[:1].lower() + error.msg[1:].removesuffix(" at").removesuffix(" starting")
        raise NotJson(f"this is not JSON: {what}, at {_location(text, error.pos)}") from None
    if _SUSPECT_ESCAPE.search(text):
        problem = json_problem(value, deepest=deepest, max_values=None)  # values were counted above
        if problem is not None:
            raise NotJson(problem)
    return value


def json_problem(value: object, *, deepest: int = DEEPEST, max_values: int | None = MAX_VALUES) -> str | None:
    """Return why a value that did not come from `parse_json` cannot be stored as JSON, or None if it can."""
    level: list[object] = [value]
    depth = count = 0
    while level:
        count += len(level)
        if max_values is not None and count > max_values:
            return _too_many(max_values)
        inner: list[object] = []
        for each in level:
            if isinstance(each, str):
                problem = text_problem(each)
                if problem is not None:
                    return problem
            elif isinstance(each, dict):
                for key in each:
                    if not isinstance(key, str):
                        return "the keys of a JSON object are texts"
                count -= len(each)  # keys are not values
                inner += each
                inner += each.values()
            elif isinstance(each, list):
                inner += each
            elif (problem := _scalar_problem(each)) is not None:
                return problem
        if depth == deepest and any(isinstance(each, (dict, list)) for each in level):
            return _too_deep(deepest)
        level = inner
        depth += 1
    return None


def text_problem(text: str) -> str | None:
    """Return why a text cannot be stored, or None if it can."""
    if "\0" in text:
        return r"a text holds the character NUL (\u0000), which cannot be stored; leave it out"
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        return rf"a text holds half of a surrogate pair (\u{code:04x}); write both halves, or neither"
    return None


def _scalar_problem(value: object) -> str | None:
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{value} is not a number in JSON"
    if value is None or isinstance(value, int):
        return None
    return f"a value of type {type(value).__name__} is not JSON; write a text"


def _decode(data: bytes) -> str:
    if data.startswith(_BOM):
        raise NotJson("the text begins with a byte order mark; leave it out")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise NotJson(f"the text is not UTF-8: byte {error.start} cannot be read") from None
    if not text or text.isspace():
        raise NotJson("the text is empty; write a JSON value")
    return text


def _check_depth(text: str, deepest: int) -> None:
    """Check the depth by counting brackets outside strings, matched or not: the parser reports invalid JSON later."""
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        character = text[found.start()]
        if character in "[{":
            depth += 1
            if depth > deepest:
                raise NotJson(f"{_too_deep(deepest)}, at {_location(text, found.start())}")
        elif character in "]}":
            depth -= 1


def _count_values(text: str) -> int:
    """Estimate the number of values: within two for JSON without strings, an upper bound for JSON with strings."""
    return text.count(",") + text.count("[") + text.count("{")


def _too_many(max_values: int) -> str:
    return f"the JSON has more than {max_values:,} values; write fewer, or one text that holds them"


def _too_deep(deepest: int) -> str:
    return f"the JSON is nested more than {deepest} deep"


def _location(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"line {line}, column {position - text.rfind(chr(10), 0, position)}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise NotJson(f"an object holds the key {echo(twice)!r} twice; write it once")
    return made


def _integer(text: str) -> int:
    _check_length(text)
    return int(text)


def _float(text: str) -> float:
    _check_length(text)
    value = float(text)
    if not math.isfinite(value):
        raise NotJson(f"the number {echo(text)} is too large; write it as a text")
    return value


def _check_length(text: str) -> None:
    if len(text) > _MAX_NUMBER_CHARACTERS:
        raise NotJson(f"the number {echo(text)} has more than {_MAX_NUMBER_CHARACTERS} characters; write it as a text")


def _constant(text: str) -> NoReturn:
    raise NotJson(f"{text} is not a number in JSON; write null, or a text")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant)
