"""Which format a jobs file is written in: by its name or, for a text without one, by how it begins."""

import re
from pathlib import PurePath

from hourbell.core.formats.jobs_file_text import Format

_SUFFIXES: dict[str, Format] = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".json": "json"}
# The first line that says anything: not blank, no comment, and not the mark at which a document of YAML begins.
_FIRST_LINE = re.compile(r"^(?!---)[ \t]*+([^\s#].*)$", re.MULTILINE)
_YAML_KEY = re.compile(r"(?:\w+|\"\w+\"|'\w+')[ \t]*:(?:\s|$)")


def format_of_name(name: str) -> Format | None:
    """The format that a file of this name is in, or None if the name does not say."""
    return _SUFFIXES.get(PurePath(name).suffix.lower())


def format_of_text(text: str) -> Format:
    """The format of a text: JSON begins with a brace, YAML with a key and a colon, and all else is TOML."""
    found = _FIRST_LINE.search(text.removeprefix("\ufeff"))
    first = found[1] if found else ""
    if first.startswith("{"):
        return "json"
    return "yaml" if _YAML_KEY.match(first) else "toml"
