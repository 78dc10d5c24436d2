"""Placeholders in a job's own body: `{{payload.name}}` stands for a value, and nothing else is understood.

There is no logic in it, no formatting and no call: a placeholder is a path into what the run knows. The same run always
gives the same text.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

ROOTS = ("payload", "run", "job")
MAX_FILLED_CHARS = 1_048_576  # as many as a body has bytes
_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")  # one way to match, so that no text takes long
_SCALARS = (int, float, type(None))
_INDEX = re.compile(r"[0-9]{1,18}", re.ASCII)
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


class TemplateError(ValueError):
    """A placeholder names nothing."""


def fill_json(value: Any, values: Mapping[str, object]) -> Any:
    """JSON with the placeholders in its strings filled. A string that is nothing but one becomes the value itself."""
    return _Filling(values).json(value)


def fill_text(text: str, values: Mapping[str, object], *, is_json: bool = False) -> str:
    """Text with its placeholders filled. In a JSON text a quote inside a value ends nothing."""
    return _Filling(values).text(text, is_json=is_json)


class _Filling:
    """Fills one body, and gives up once its placeholders stand for more than MAX_FILLED_CHARS.

    A short body may name a large value many times over: that is found out before it is all written.
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
        if self._filled_chars > MAX_FILLED_CHARS:
            raise TemplateError(f"the body's placeholders stand for more than {MAX_FILLED_CHARS} characters")


def faults_of(body: object) -> list[str]:
    """What is wrong with the placeholders of a body, whatever the payload will be."""
    roots = ", ".join(ROOTS)
    paths = [path.strip() for text in _texts(body) if "{{" in text for path in _PLACEHOLDER.findall(text)]
    return [f"{{{{{path}}}}} begins with none of {roots}" for path in paths if path.partition(".")[0] not in ROOTS]


def _texts(value: object) -> Iterator[str]:
    """The texts in JSON, in their order. Of the rest, of which there may be very much, little is asked."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for each in value.values() if isinstance(value, Mapping) else value:
            if isinstance(each, str):
                yield each
            elif not isinstance(each, _SCALARS):  # asked first: whether it is a mapping takes longer
                yield from _texts(each)


def _look_up(path: str, values: Mapping[str, object]) -> object:
    value: object = values
    for step in path.split("."):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and _INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            raise TemplateError(f"the body asks for {{{{{path}}}}}, and there is no {step!r} there")
    return value
