"""Equality of definitions that ignores how a database rewrites JSON."""

from collections.abc import Mapping
from decimal import Decimal
from operator import attrgetter

from hourbell.core.job.definition import Definition
from hourbell.core.job.fields import JOB_FIELDS

_JSON = ("json", "target")
_SCALARS = (str, int, float, type(None))
_json = attrgetter(*(field.name for field in JOB_FIELDS if field.kind.name in _JSON))
_plain = attrgetter(*(field.name for field in JOB_FIELDS if field.kind.name not in _JSON))


def same_definition(one: Definition, other: Definition) -> bool:
    return _plain(one) == _plain(other) and same_json(_json(one), _json(other))


def same_json(one: object, other: object) -> bool:
    """Compare JSON values: true is not 1 as in Python, and 1e23 equals the integer that PostgreSQL writes for it."""
    if type(one) is type(other) and isinstance(one, _SCALARS):  # fast path for most values
        return one == other
    match one, other:
        case (bool(), _) | (_, bool()):
            return one is other
        case Mapping(), Mapping():
            return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
        case ((list() | tuple()), (list() | tuple())):
            return len(one) == len(other) and all(map(same_json, one, other))
        case (float(), int()) | (int(), float()):
            return _exact(one) == _exact(other)
        case _:
            return one == other


def _exact(number: object) -> Decimal:
    return Decimal(repr(number)) if isinstance(number, float) else Decimal(number)  # type: ignore[arg-type]
