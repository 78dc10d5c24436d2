"""A statement in a driver's format: its text with the driver's placeholders, and its values."""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias, get_args

Dialect = Literal["postgresql", "sqlite"]
ParamStyle = Literal["pyformat", "format", "qmark", "numeric_dollar", "named"]
Value: TypeAlias = str | int | bytes | None

_USUAL: Mapping[str, ParamStyle] = {"postgresql": "pyformat", "sqlite": "named"}
_PLACEHOLDER = re.compile(r"(?<![:\w]):(\w+)")


class Statement(NamedTuple):
    """A statement; it unpacks as `text, parameters`, so that `cursor.execute(*statement)` works."""

    text: str
    parameters: tuple[Value, ...] | dict[str, Value]


def rendered(text: str, values: Mapping[str, Value], dialect: str, paramstyle: str | None) -> Statement:
    """Render a statement for a driver. Its text has placeholders `:name`, and no other colon before a letter."""
    style = _USUAL[dialect] if paramstyle is None else paramstyle
    order = _PLACEHOLDER.findall(text)
    if style == "named":
        return Statement(text, {name: values[name] for name in order})
    if style == "pyformat":
        return Statement(_PLACEHOLDER.sub(r"%(\1)s", text), {name: values[name] for name in order})
    if style == "numeric_dollar":
        numbers = {name: number for number, name in enumerate(dict.fromkeys(order), 1)}
        numbered = _PLACEHOLDER.sub(lambda found: f"${numbers[found[1]]}", text)
        return Statement(numbered, tuple(values[name] for name in numbers))
    return Statement(_PLACEHOLDER.sub("%s" if style == "format" else "?", text), tuple(values[name] for name in order))


def check_choices(dialect: str, paramstyle: str | None) -> None:
    """Raise a ValueError that lists the choices."""
    check_choice("dialect", dialect, get_args(Dialect))
    if paramstyle is not None:
        check_choice("paramstyle", paramstyle, get_args(ParamStyle))


def check_choice(what: str, given: object, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ValueError(f"{what} is {given!r}; write one of {', '.join(known)}")
