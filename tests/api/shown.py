"""Commands of a page with the answers shown below them, and a comparison of answers with them.

In a `sh` block a command begins at the margin and goes on in indented lines. Comments below it show the status and the
answer, in which `…` stands for anything.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

ANYTHING = "…"
_MORE = "……"  # further items of a list, further fields of an object
_BLOCK = re.compile(r"^```sh( \w+)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass
class Step:
    """A command, and the lines shown below it: the first begins with a status."""

    command: str
    shown: list[str] = field(default_factory=list)

    @property
    def status(self) -> int:
        return int(self.shown[0].split()[0])

    @property
    def answer(self) -> list[str]:
        """The part of the first line after the status, and the other lines."""
        first, *others = self.shown
        return [line for line in (first.partition(" ")[2], *others) if line]


def steps_of(page: Path, *kinds: str) -> list[Step]:
    """The commands of a page in order; of the blocks that say what they are for, those of these kinds."""
    steps: list[Step] = []
    for kind, block in _BLOCK.findall(page.read_text()):
        if kind and kind.strip() not in kinds:
            continue
        for line in block.splitlines():
            if line.startswith("#"):
                steps[-1].shown.append(line[1:].strip())
            elif line.startswith(" "):
                steps[-1].command += f"\n{line}"
            elif line:
                steps.append(Step(line))
    return steps


def is_as_shown(answer: str, shown: list[str]) -> bool:
    """Return True if an answer is the shown JSON or, if that is not JSON, has these lines in this order."""
    if not shown:
        return not answer.strip()
    try:
        expected = json.loads(_spelled_out(" ".join(shown)))
    except ValueError:
        return re.search(r"[^\n]*\n(.*\n)?".join(map(_pattern, shown)), answer, re.DOTALL | re.IGNORECASE) is not None
    return _fits(json.loads(answer), expected)


def _spelled_out(shown: str) -> str:
    """JSON in which what was left out is a text or a field that says so."""
    text = re.sub(r", …\]", f', "{_MORE}"]', re.sub(r", …\}", f', "{_MORE}": 0}}', shown))
    return re.sub(r": (…|\[…\])(?=[,}\]])", f': "{ANYTHING}"', text)


def _fits(value: object, expected: object) -> bool:
    match expected:
        case "…":
            return True
        case str():
            return isinstance(value, str) and re.fullmatch(_pattern(expected), value, re.DOTALL) is not None
        case dict():
            if not isinstance(value, dict) or (_MORE not in expected and expected.keys() != value.keys()):
                return False
            named = {name: each for name, each in expected.items() if name != _MORE}
            return named.keys() <= value.keys() and all(_fits(value[name], each) for name, each in named.items())
        case list():
            items = [each for each in expected if each != _MORE]
            if not isinstance(value, list) or (len(items) == len(expected) and len(items) != len(value)):
                return False
            return len(items) <= len(value) and all(map(_fits, value, items))
        case _:
            return type(value) is type(expected) and value == expected


def _pattern(text: str) -> str:
    return re.escape(text).replace(ANYTHING, ".*")
