"""Detection of a jobs file's format: by its file name or, for text without one, by its first line."""

import re
from pathlib import PurePath

from hourbell.core.formats.jobs_file_text import Format

_SUFFIXES: dict[str, Format] = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".json": "json"}
# The first significant line: not blank, no comment, and not the start marker of a YAML document.
_FIRST_LINE = re.compile(r"^(?!---)[ \t]*+([^\s#].*)$", re.MULTILINE)
_YAML_KEY = re.compile(r"(?:\w+|\"\w+\"|'\w+')[ \t]*:(?:\s|$)")


def format_of_name(name: str) -> Format | None:
    """Return the format of a file name, or None if its suffix is unknown."""
    return _SUFFIXES.get(PurePath(name).suffix.lower())


def format_of_text(text: str) -> Format:
    """Return the format of a text: JSON begins with a brace, YAML with a key and a colon; otherwise it is TOML."""
    found = _FIRST_LINE.search(text.removeprefix("\ufeff"))
    first = found[1] if found else ""
    if first.startswith("{"):
        return "json"
    return "yaml" if _YAML_KEY.match(first) else "toml"
