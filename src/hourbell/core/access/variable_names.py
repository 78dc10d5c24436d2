"""Unknown environment variables with our prefix: the setting probably meant, and the variables to ignore."""

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import NamedTuple

PREFIX = "HOURBELL_"
_CHARACTERS_FOR_A_TYPO = 5  # a name of ten characters may have two typos
_OF_TESTS = ("HOURBELL_BENCH_", "HOURBELL_TEST_")
# Kubernetes sets these in every pod for a service named hourbell, or hourbell-something.
_OF_KUBERNETES = re.compile(
    r"HOURBELL(?:_[A-Z0-9_]+)?_"
    r"(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)",
    re.ASCII,
)
_LINK = re.compile(r"(?:tcp|udp|sctp)://", re.ASCII)


class UnknownVariable(NamedTuple):
    """A variable that no setting reads. `meant` is the nearest name; `is_misspelled` if it differs by a typo only."""

    name: str
    meant: str | None
    is_misspelled: bool

    @property
    def message(self) -> str:
        hint = f"did you mean {self.meant}?" if self.meant else "unset it, or see docs/settings.md for the names"
        return f"{self.name[:100]} is not a setting; {hint}"


def unknown_variables(environment: Mapping[str, str], known: Collection[str]) -> list[UnknownVariable]:
    """Return every non-empty variable with our prefix that is no known setting, sorted by name."""
    ours = (name for name in sorted(environment) if name.startswith(PREFIX) and environment[name])
    return [_unknown(name, known) for name in ours if name not in known and not _is_of_others(name, environment[name])]


def nearly(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that differs from this one only by a few typos or by the order of its parts."""
    words = sorted(name.upper().split("_"))
    for each in known:
        if words == sorted(each.upper().split("_")):
            return each
    distance, nearest = min(((edit_distance(name, each), each) for each in known), default=(len(name), ""))
    return nearest if 0 < distance <= max(1, len(nearest) // _CHARACTERS_FOR_A_TYPO) else None


def edit_distance(one: str, other: str) -> int:
    """Count the insertions, deletions, replacements and swaps of neighbours that turn one text into the other."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, left in enumerate(one, 1):
        current = [row]
        for column, right in enumerate(other, 1):
            best = min(last[column] + 1, current[-1] + 1, last[column - 1] + (left != right))
            if row > 1 and column > 1 and (left, one[row - 2]) == (other[column - 2], right):
                best = min(best, before[column - 2] + 1)
            current.append(best)
        before, last = last, current
    return last[-1]


def _unknown(name: str, known: Collection[str]) -> UnknownVariable:
    bare = {each.removeprefix(PREFIX): each for each in known if each.startswith(PREFIX)}
    text = name.removeprefix(PREFIX)[:100]
    if (meant := nearly(text, bare)) is not None:
        return UnknownVariable(name, bare[meant], is_misspelled=True)
    close = get_close_matches(text, bare, n=1)
    return UnknownVariable(name, bare[close[0]] if close else None, is_misspelled=False)


def _is_of_others(name: str, value: str) -> bool:
    """Check if a variable belongs to our tests and benchmarks, or to Kubernetes."""
    if name.startswith(_OF_TESTS) or _OF_KUBERNETES.fullmatch(name):
        return True
    return name.endswith("_PORT") and _LINK.match(value) is not None
