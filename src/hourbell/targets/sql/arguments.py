"""Conversion of JSON values to SQL arguments: each is bound as a parameter, and the server casts it to its type."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from hourbell.targets.sql.signature import PAYLOAD, Function, Parameter, Shape

Bound = str | list[object] | None


class BadArgument(ValueError):
    """Validation error for a value that PostgreSQL cannot store; the message names it."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The SQL argument list of a call, the same list without parameter names, and the bound values."""

    named: tuple[str, ...]
    plain: tuple[str, ...]
    values: tuple[Bound, ...]


def add_payload(function: Function, args: Mapping[str, object], payload: object) -> Mapping[str, object]:
    """Add the run's payload to the args if the function has a parameter for it that the args leave out.

    Without a payload the parameter gets its default, or null if it has none.
    """
    parameter = function.payload_parameter
    if parameter is None or PAYLOAD in args or (payload is None and parameter.has_default):
        return args
    return {**args, PAYLOAD: payload}


def bind(function: Function, args: Mapping[str, object]) -> Arguments:
    """Return the arguments of a call in parameter order; parameters without an argument get their defaults."""
    if function.takes_all_in_one and not function.takes(args):
        [parameter] = function.parameters
        values: list[Bound] = [_json("args", dict(args))]
        casts = [_cast(parameter, 1, values[0])]
        return Arguments(tuple(casts), tuple(casts), tuple(values))
    given = [parameter for parameter in function.parameters if parameter.name in args]
    values = [_bound(parameter, args[parameter.name]) for parameter in given]
    casts = [_cast(*each) for each in zip(given, range(1, len(given) + 1), values, strict=True)]
    named = [
        f"{'variadic ' if parameter.is_variadic else ''}{parameter.quoted} => {cast}"
        for parameter, cast in zip(given, casts, strict=True)
    ]
    return Arguments(tuple(named), tuple(casts), tuple(values))


def _cast(parameter: Parameter, index: int, value: Bound) -> str:
    """Return SQL that casts text, or an array of text, to the parameter's type: the server can parse every type."""
    return f"${index}::pg_catalog.{'_text' if isinstance(value, list) else 'text'}::{parameter.type}"


def _bound(parameter: Parameter, value: object) -> Bound:
    if value is None:
        return None
    if parameter.shape is Shape.JSON:
        return _json(parameter.name, value)
    if parameter.shape is not Shape.PLAIN and isinstance(value, list):
        return [_element(parameter, each) for each in value]
    return _text(parameter.name, value)


def _element(parameter: Parameter, value: object) -> object:
    """Convert an array element; a nested list is one more dimension, unless the elements are JSON."""
    if value is None:
        return None
    if parameter.shape is Shape.JSON_ARRAY:
        return _json(parameter.name, value)
    if isinstance(value, list):
        return [_element(parameter, each) for each in value]
    return _text(parameter.name, value)


def _text(name: str, value: object) -> str:
    """Return a string unchanged and serialize any other value as JSON; raise BadArgument for invalid text."""
    if not isinstance(value, str):
        return _json(name, value)
    if "\0" in value:
        raise BadArgument(f"args.{name} holds a NUL character, which PostgreSQL cannot store")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadArgument(f"args.{name} holds half of a surrogate pair, which PostgreSQL cannot store") from None
    return value


def _json(name: str, value: object) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadArgument(f"args.{name} is not JSON: {error}") from None
