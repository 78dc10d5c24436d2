"""The statements of the control side, by name.

Statements that both databases can share are written once, in the `.sql` files of the store's folders, in PostgreSQL's
dialect with named parameters. The rules below translate them to SQLite. Statements that really differ are in a file of
each backend, under the same name.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from hourbell.store.lists.pages import numbered
from hourbell.store.sql.queries import load_queries

_FILES = (
    "control/access.sql",
    "alerts/alerts.sql",
    "control/audit_chain.sql",
    "control/control.sql",
    "control/secrets.sql",
)
_SQLITE_RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"= any\((:\w+)::uuid\[\]\)", r"in (select unhex(value) from json_each(\1))"),  # a list is bound as JSON
        (r"= any\((:\w+)::\w+\[\]\)", r"in (select value from json_each(\1))"),
        (r"replace\(([\w.]+)::text, '-', ''\)", r"case when \1 is not null then lower(hex(\1)) end"),  # an id
        (r"\s+for ((no key )?update|key share)( of \w+)?( skip locked)?", ""),  # the writer already has the only lock
        (r' collate "C"', ""),  # SQLite compares bytes
        (r"::\w+", ""),
        (r"\bhourbell\.", "hourbell_"),
    )
)


class Statement(NamedTuple):
    """A statement with numbered parameters, and the names of their values in order."""

    text: str
    names: tuple[str, ...]

    def bind(self, values: Mapping[str, Any]) -> list[Any]:
        return [values[name] for name in self.names]


def load_shared(file: str, *, for_sqlite: bool) -> dict[str, str]:
    """Load the statements of a file of this package, in the dialect of a backend."""
    texts = load_queries("hourbell.store", file)
    return {name: _for_sqlite(text) for name, text in texts.items()} if for_sqlite else texts


def load_statements(own: Mapping[str, str], mark: str, *, for_sqlite: bool = False) -> dict[str, Statement]:
    """Load the statements for a backend whose parameters have that prefix: shared ones and its own."""
    shared = [load_shared(file, for_sqlite=for_sqlite) for file in _FILES]
    texts = {name: text for each in (*shared, own) for name, text in each.items()}
    return {name: Statement(*numbered(text, mark)) for name, text in texts.items()}


def _for_sqlite(text: str) -> str:
    for pattern, replacement in _SQLITE_RULES:
        text = pattern.sub(replacement, text)
    return text
