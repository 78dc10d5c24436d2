"""The small grammars inside a crontab's lines: variables, fields, and percent signs in commands."""

import re
from collections.abc import Sequence

_ASSIGNED = re.compile(r"""[ \t]*(?:"([^"]*)"|'([^']*)'|([^ \t="'#][^ \t=]*))[ \t]*=[ \t]*(.*)""", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_WORD = re.compile(r"[^ \t]+")
_COMMAND_PART = re.compile(r"\\%|\\.|%|[^\\%]+|\\", re.DOTALL)
_ORDER_OF_FIELDS = re.compile(r"#.*\buser(?:-?name)?[ \t]+(?:cmd|command)\b", re.IGNORECASE)
# Standard system accounts, except those that are also names of programs.
_ACCOUNTS = frozenset(
    {
        "root", "www-data", "nobody", "daemon", "apache", "ubuntu", "ec2-user", "debian-spamd", "munin", "logcheck",
        "smmsp", "postgres", "nagios", "zabbix",
    }
)  # fmt: skip


def read_variable(text: str) -> tuple[str, str] | None:
    """Return name and value if the line sets a variable, None if not; raise a ValueError if it is malformed.

    Quotes around the whole name or value are removed, and spaces inside them are preserved. Nothing is expanded, and a
    # does not begin a comment.
    """
    found = _ASSIGNED.fullmatch(text)
    if found is None:
        return None
    quoted, single, bare, value = found.groups()
    name = bare if bare is not None else quoted if quoted is not None else single
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name[:40]!r} is not the name of a variable; write NAME=value, or five fields and a command")
    value = value.rstrip(" \t")
    if value[:1] in ('"', "'"):
        quote, end = value[0], value.find(value[0], 1)
        if end < 0:
            raise ValueError(f"the value of {name[:40]} has no closing {quote}; write one at the end")
        if end < len(value) - 1:
            raise ValueError(f"something follows the quoted value of {name[:40]}; put all of it in quotes")
        value = value[1:end]
    return name, value


def split_fields(text: str, count: int) -> tuple[list[str], str]:
    """Return at most `count` leading words, and the rest without leading blanks."""
    fields: list[str] = []
    at = 0
    for found in _WORD.finditer(text):
        if len(fields) == count:
            return fields, text[found.start() :]
        fields.append(found[0])
        at = found.end()
    return fields, text[at:].lstrip(" \t")


def read_command(text: str) -> tuple[str, str | None]:
    r"""Split a command from its input: the first % ends the command, others are line breaks, \% is a percent sign."""
    parts: list[str] = [""]
    for found in _COMMAND_PART.finditer(text):
        if found[0] == "%":
            parts.append("")
        else:
            parts[-1] += "%" if found[0] == "\\%" else found[0]
    command, *lines = parts
    return command.rstrip(" \t") if not lines else command, "\n".join(lines) if lines else None


def has_both_days(day_of_month: str, day_of_week: str) -> bool:
    """Check if cron requires both day fields to match: neither is a bare star, and one begins with a star."""
    are_restricted = day_of_month not in ("*", "?") and day_of_week not in ("*", "?")
    return are_restricted and (day_of_month.startswith("*") or day_of_week.startswith("*"))


def system_form(lines: Sequence[str]) -> str | None:
    """Return why the file's entries seem to name a user, or None if they do not."""
    for line in lines:
        text = line.strip(" \t")
        if text.startswith("#"):
            if _ORDER_OF_FIELDS.search(text):
                return "a comment puts a user before the command"
            continue
        text = text.removeprefix("-").lstrip(" \t")
        count = 1 if text.startswith("@") else 5
        words = text.split(maxsplit=count + 1)
        if len(words) == count + 2 and words[count] in _ACCOUNTS:
            return f"{words[count]} is where a user would be"
    return None
