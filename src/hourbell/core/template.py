"""Placeholders in a job's own body: `{{payload.name}}` stands for a value, and nothing else is understood.

There is no logic in it, no formatting and no call: a placeholder is a path into what the run knows. The same run always
gives the same text.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

ROOTS = ("payload", "run", "job")
_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")  # one way to match, so that no text takes long


class TemplateError(ValueError):
    """A placeholder names nothing."""


def fill_json(value: Any, values: Mapping[str, object]) -> Any:
    """JSON with the placeholders in its strings filled. A string that is nothing but one becomes the value itself."""
    if isinstance(value, str):
        whole = _PLACEHOLDER.fullmatch(value)
        return _look_up(whole[1].strip(), values) if whole else fill_text(value, values)
    if isinstance(value, Mapping):
        return {name: fill_json(each, values) for name, each in value.items()}
    if isinstance(value, list):
        return [fill_json(each, values) for each in value]
    return value


def fill_text(text: str, values: Mapping[str, object], *, is_json: bool = False) -> str:
    """Text with its placeholders filled. In a JSON text a quote inside a value ends nothing."""

    def shown(found: re.Match[str]) -> str:
        value = _look_up(found[1].strip(), values)
        written = json.dumps(value, ensure_ascii=False)
        if not isinstance(value, str):
            return written
        return written[1:-1] if is_json else value

    return _PLACEHOLDER.sub(shown, text)


def faults_of(body: object) -> list[str]:
    """What is wrong with the placeholders of a body, whatever the payload will be."""
    if isinstance(body, str):
        paths = [path.strip() for path in _PLACEHOLDER.findall(body)]
        roots = ", ".join(ROOTS)
        return [f"{{{{{path}}}}} begins with none of {roots}" for path in paths if path.partition(".")[0] not in ROOTS]
    if isinstance(body, Mapping):
        return [fault for each in body.values() for fault in faults_of(each)]
    if isinstance(body, list):
        return [fault for each in body for fault in faults_of(each)]
    return []


def _look_up(path: str, values: Mapping[str, object]) -> object:
    value: object = values
    for step in path.split("."):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isascii() and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            raise TemplateError(f"the body asks for {{{{{path}}}}}, and there is no {step!r} there")
    return value
