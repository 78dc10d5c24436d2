"""Placeholders in a job's own body: `{{payload.name}}` is replaced by a value.

There is no logic, no formatting and no function call: a placeholder is a path into the values of the run. The same run
always gives the same text.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

ROOTS = ("payload", "run", "job")
MAX_FILLED_CHARACTERS = 1_048_576  # the same number as the max bytes of a body
_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")  # unambiguous, so that matching never backtracks
_SCALARS = (int, float, type(None))
_INDEX = re.compile(r"[0-9]{1,18}", re.ASCII)
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


class TemplateError(ValueError):
    """A placeholder that has no value, or placeholders that stand for too much text."""


def fill_json(value: Any, values: Mapping[str, object]) -> Any:
    """Fill the placeholders in the strings of JSON. A string that is just one placeholder becomes the value itself."""
    return _Filling(values).json(value)


def fill_text(text: str, values: Mapping[str, object], *, is_json: bool = False) -> str:
    """Fill the placeholders of a text. With `is_json`, values are escaped so that a quote cannot end a JSON string."""
    return _Filling(values).text(text, is_json=is_json)


class _Filling:
    """Fills one body, and fails once the filled values exceed MAX_FILLED_CHARS.

    A short body may repeat a large value many times: the limit stops it before the whole text is built.
    """

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values
        self._filled_chars = 0

    def json(self, value: Any) -> Any:
        if isinstance(value, str):
            if "{{" not in value:
                return value
            whole = _PLACEHOLDER.fullmatch(value)
            return self._value(whole[1]) if whole else self.text(value)
        if isinstance(value, Mapping):
            return {name: self.json(each) for name, each in value.items()}
        if isinstance(value, list):
            return [each if isinstance(each, _SCALARS) else self.json(each) for each in value]
        return value

    def text(self, text: str, *, is_json: bool = False) -> str:
        def shown(found: re.Match[str]) -> str:
            value = _look_up(found[1].strip(), self._values)
            written = json.dumps(value, ensure_ascii=False)
            if isinstance(value, str):
                written = written[1:-1] if is_json else value
            self._count(written)
            return written

        return _PLACEHOLDER.sub(shown, text)

    def _value(self, placeholder: str) -> object:
        value = _look_up(placeholder.strip(), self._values)
        self._count(value if isinstance(value, str) else _encode(value))
        return value

    def _count(self, written: str) -> None:
        self._filled_chars += len(written)
        if self._filled_chars > MAX_FILLED_CHARACTERS:
            raise TemplateError(f"the body's placeholders stand for more than {MAX_FILLED_CHARACTERS} characters")


def template_problems(body: object) -> list[str]:
    """Return the errors in a body's placeholders that no payload can fix."""
    roots = ", ".join(ROOTS)
    paths = [path.strip() for text in _texts(body) if "{{" in text for path in _PLACEHOLDER.findall(text)]
    return [f"{{{{{path}}}}} begins with none of {roots}" for path in paths if path.partition(".")[0] not in ROOTS]


def _texts(value: object) -> Iterator[str]:
    """Return the texts in JSON, in order. Other values are passed over quickly, since there may be very many."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for each in value.values() if isinstance(value, Mapping) else value:
            if isinstance(each, str):
                yield each
            elif not isinstance(each, _SCALARS):  # checked first, because the check for a mapping is slower
                yield from _texts(each)


def _look_up(path: str, values: Mapping[str, object]) -> object:
    value: object = values
    for step in path.split("."):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and _INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            raise TemplateError(f"the body contains {{{{{path}}}}}, but there is no {step!r}")
    return value
