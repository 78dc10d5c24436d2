"""The statements of the control side, by name.

Most are written once, in the `.sql` files of this package, in PostgreSQL's dialect and with named parameters. SQLite's
text is made from it by the few rules below. A statement that really differs is in the `control.sql` of each backend,
under one name.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from hourbell.store.list_pages import numbered
from hourbell.store.queries import load_queries

_FILES = ("access.sql", "control.sql", "secrets.sql")
_SQLITE_RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"= any\((:\w+)::uuid\[\]\)", r"in (select unhex(value) from json_each(\1))"),  # a list is bound as JSON
        (r"= any\((:\w+)::\w+\[\]\)", r"in (select value from json_each(\1))"),
        (r"\s+for (no key )?update( of \w+)?", ""),  # whoever writes has the only lock there is
        (r' collate "C"', ""),  # SQLite compares bytes
        (r"::\w+", ""),
        (r"\bhourbell\.", "hourbell_"),
    )
)


class Statement(NamedTuple):
    """A statement with numbered parameters, and the names of their values in that order."""

    text: str
    names: tuple[str, ...]

    def bind(self, values: Mapping[str, Any]) -> list[Any]:
        return [values[name] for name in self.names]


def load_statements(package: str, mark: str, own: dict[str, str]) -> dict[str, Statement]:
    """The statements for a backend whose parameters have that mark: the shared ones, and its own."""
    shared = {name: text for file in _FILES for name, text in load_queries("hourbell.store", file).items()}
    if package.endswith("sqlite"):
        shared = {name: _for_sqlite(text) for name, text in shared.items()}
    texts = shared | load_queries(package, "control.sql") | own
    return {name: Statement(*numbered(text, mark)) for name, text in texts.items()}


def _for_sqlite(text: str) -> str:
    for pattern, replacement in _SQLITE_RULES:
        text = pattern.sub(replacement, text)
    return text
