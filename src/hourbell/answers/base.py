"""The base class of all answers, and the documentation that the API adds to their fields.

The server renders answers (`api.render`), OpenAPI describes them (`api.shapes`) and the client reads them
(`client.reading`), all by the fields of the same classes. A field's type and default are the client's: a field that an
older server omits gets its default, and open-ended values, such as states, are text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Doc:
    """Documentation of a field beyond its name and type."""

    text: str = ""
    type: Any = None  # a more precise type in OpenAPI than the client relies on
    examples: tuple[str, ...] = ()
    is_extra: bool = False  # only some answers of this class have it
    key: str | None = None  # its name in JSON, if that is a keyword of Python


NO_DOC = Doc()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A JSON object of the API. `raw` is the body as received, with any fields that a newer server added."""

    raw: Json = field(repr=False, compare=False)


class AnswerField(NamedTuple):
    name: str
    type: Any
    doc: Doc
    default: Any  # dataclasses.MISSING if there is none
    default_factory: Any

    @property
    def key(self) -> str:
        """The name of the field in JSON."""
        return self.doc.key or self.name


@cache
def answer_fields(kind: Any) -> tuple[AnswerField, ...]:
    """Return the fields of an answer in the order of its JSON, without `raw`."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        AnswerField(each.name, *_split(hints[each.name]), each.default, each.default_factory)
        for each in fields(kind)
        if each.name != "raw"
    )


def _split(hint: Any) -> tuple[Any, Doc]:
    if get_origin(hint) is not Annotated:
        return hint, NO_DOC
    kind, doc = get_args(hint)
    return kind, doc
