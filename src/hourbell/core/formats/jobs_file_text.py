"""Strict parsing of a jobs file's text to plain values: TOML, YAML or JSON. Ambiguous text is refused.

In every format the result has each key once, and includes the lines of jobs and other entries if the text shows them.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from hourbell.core.formats.jobs_file_yaml import read_yaml
from hourbell.core.values.strict_json import NotJson, parse_json

Format = Literal["toml", "yaml", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)

# First the tokens that may hide a table's header; last the headers themselves, at the beginning of a line.
_SKIPPED_OR_HEADER = re.compile(
    r'"""(?:[^\\"]++|\\.|"{1,2}(?!"))*+"{3,5}'
    r"|'''(?:[^']++|'{1,2}(?!'))*+'{3,5}"
    r'|"(?:[^\\"\n]++|\\.)*+"'
    r"|'[^'\n]*+'"
    r"|\#[^\n]*+"
    r"|^[ \t]*\[\[[ \t]*(?P<job>job|\"job\"|'job')[ \t]*\]\]"
    r"|^[ \t]*\[\[?[ \t]*(?P<table>channels|alert_policies)[ \t]*\.[ \t]*"
    r"(?P<quote>[\"']?)(?P<name>[\w-]++)(?P=quote)[ \t]*[\].]",
    re.DOTALL | re.MULTILINE,
)
MAX_KEY_NAMES = 32  # of a dotted key; tomllib takes the square of their number in time and memory
# The tokens of TOML that matter for dotted keys. Each consumes what it begins, so that a walk is linear.
_KEY_TOKEN = re.compile(
    r'(?P<other>"""(?:[^\\"]++|\\.|"{1,2}(?!"))*+"{0,5}'
    r"|'''(?:[^']++|'{1,2}(?!'))*+'{0,5}"
    r"|\#[^\n]*+|[^\w\"'.\#\t -]++)"
    r'|(?P<part>"(?:[^\\"\n]++|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|[\w-]++)"
    r"|(?P<dot>\.)"
    r"|[ \t]++",
    re.DOTALL,
)
_TOML_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class FileValues:
    """Parsed values. `lines` has the line of each job, counted from 1; it is empty if the text does not show them.

    `entry_lines` has those of channels and alert policies that the text shows, by table and name.
    """

    values: Mapping[str, object]
    lines: tuple[int, ...] = field(default=())
    entry_lines: Mapping[tuple[str, str], int] = field(default_factory=dict)


class NotReadable(ValueError):
    """A text that is invalid in its format. The message is one sentence; `line` is None if it is unknown."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def read_text(text: str, format: Format) -> FileValues:  # noqa: A002
    """Parse the text to values, or raise a NotReadable."""
    text = text.removeprefix("\ufeff")
    match format:
        case "toml":
            return _read_toml(text)
        case "yaml":
            values, lines, entry_lines = read_yaml(text, NotReadable)
        case "json":
            values, lines, entry_lines = _read_json(text), (), {}
    if not isinstance(values, dict):
        raise NotReadable("a jobs file holds the key job with a list of jobs", 1)
    return FileValues(values, lines, entry_lines)


def _read_toml(text: str) -> FileValues:
    _check_dotted_keys(text)
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise NotReadable("this is not a jobs file: it is nested too deep") from None
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        found = _TOML_POSITION.search(message)
        what = message[: found.start()] if found else message
        line = int(found[1]) if found and found[1] else text.count("\n") + 1 if found else None
        raise NotReadable(f"this is not TOML: {what[:1].lower()}{what[1:]}", line) from None
    except ValueError:  # Python's error for a number with thousands of digits
        raise NotReadable("a number in it is too long; write it as a text") from None
    jobs = values.get("job")
    lines, entry_lines = _lines_of_headers(text)
    return FileValues(values, lines if isinstance(jobs, list) and len(jobs) == len(lines) else (), entry_lines)


def _check_dotted_keys(text: str) -> None:
    """Raise a NotReadable if a dotted key has more than MAX_KEY_NAMES parts."""
    parts, after_dot = 0, False
    for found in _KEY_TOKEN.finditer(text):
        match found.lastgroup:
            case "part":
                parts = parts + 1 if after_dot else 1
                if parts > MAX_KEY_NAMES:
                    line = text.count("\n", 0, found.start()) + 1
                    raise NotReadable(f"a key has more than {MAX_KEY_NAMES} parts", line)
                after_dot = False
            case "dot":
                after_dot = True
            case "other":
                parts, after_dot = 0, False


def _lines_of_headers(text: str) -> tuple[tuple[int, ...], dict[tuple[str, str], int]]:
    """Return the lines of jobs, and the first line of each channel and alert policy."""
    jobs: list[int] = []
    entries: dict[tuple[str, str], int] = {}
    line, seen = 1, 0
    for found in _SKIPPED_OR_HEADER.finditer(text):
        if not (found["job"] or found["table"]):
            continue
        line += text.count("\n", seen, found.start())
        seen = found.start()
        if found["job"]:
            jobs.append(line)
        else:
            entries.setdefault((found["table"], found["name"]), line)
    return tuple(jobs), entries


def _read_json(text: str) -> object:
    try:
        return parse_json(text.encode("utf-8", "surrogatepass"), deepest=40)
    except NotJson as error:
        raise NotReadable(str(error)) from None
