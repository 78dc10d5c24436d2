"""Strict YAML parsing of untrusted text: no tags, each key once, bounded aliases, and no guessing.

A plain scalar that some YAML parsers read as a boolean or a number, and others as text, is refused: quotes make it
unambiguous. Dates are texts.
"""

import re
from collections.abc import Callable
from typing import Any, Protocol

from hourbell.core.schedule.errors import echo

_DEEPEST = 40
_MAX_VALUES = 1_000_000  # with all aliases expanded
_VALUE_CHARACTERS = 64  # length of text that counts as one value
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,308})", re.ASCII)
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]{0,308})\.[0-9]{1,308}(?:[eE][-+]?[0-9]{1,4})?", re.ASCII)
_LIKE_A_NUMBER = re.compile(r"[-+.]?[0-9][0-9_.]*(?:[eE][-+]?[0-9]+)?|0[xob][0-9a-fA-F_]+", re.ASCII)
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_TEXT, _TIME = "tag:yaml.org,2002:str", "tag:yaml.org,2002:timestamp"


class Refusal(Protocol):
    def __call__(self, message: str, line: int | None = None) -> Exception: ...


EntryLines = dict[tuple[str, str], int]


def read_yaml(text: str, refusal: Refusal) -> tuple[object, tuple[int, ...], EntryLines]:
    """Return the value, the lines where the entries of the list `job` begin, and those of the entries of other tables.

    Errors are made by `refusal`.
    """
    try:
        import yaml  # type: ignore[import-untyped]  # slow to load, and most files are TOML
    except ImportError:
        raise refusal("YAML needs the package PyYAML; install it, or write TOML") from None

    def no(message: str, mark: Any) -> Exception:
        return refusal(message, None if mark is None else mark.line + 1)

    try:
        _check_events(yaml, text, no)
        root = yaml.compose(text, Loader=yaml.BaseLoader)
        if root is None:
            return {}, (), {}
        _check_size(yaml, root, no)
        reader = _Reader(yaml, no)
        return reader.value(root), _lines_of_jobs(yaml, root), _lines_of_entries(yaml, root)
    except yaml.MarkedYAMLError as error:
        hint = _hint(f"{error.context} {error.problem}")
        raise no(f"this is not YAML: {error.problem}{hint}", error.problem_mark or error.context_mark) from None
    except yaml.YAMLError as error:
        what = getattr(error, "reason", None) or "it cannot be read"
        raise refusal(f"this is not YAML: {what}") from None


def _hint(problem: str) -> str:
    is_schedule = "alias" in problem or "'@'" in problem or "'%'" in problem
    return "; put a schedule in quotes" if is_schedule else ""


def _check_events(yaml: Any, text: str, no: Callable[[str, Any], Exception]) -> None:
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.BaseLoader):
        if getattr(event, "tag", None) is not None:
            raise no(f"the tag {echo(event.tag)} is not read; leave it out", event.start_mark)
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise no("a second document begins here; a jobs file is one", event.start_mark)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise no(f"this is nested more than {_DEEPEST} deep", event.start_mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check_size(yaml: Any, root: Any, no: Callable[[str, Any], Exception]) -> None:
    """Check size and depth as if all aliases were expanded, without expanding them. Long texts count several times."""
    sizes: dict[int, tuple[int, int]] = {}

    def measure(node: Any, above: frozenset[int]) -> tuple[int, int]:
        if id(node) in above:
            raise no("an alias holds itself", node.start_mark)
        if id(node) not in sizes:
            size, depth = 1, 0
            if isinstance(node, yaml.ScalarNode):
                size += len(node.value) // _VALUE_CHARACTERS
            for each in _inner(yaml, node):
                inner_size, inner_depth = measure(each, above | {id(node)})
                size, depth = size + inner_size, max(depth, inner_depth + 1)
            if size > _MAX_VALUES or depth > _DEEPEST:
                raise no("with its aliases written out this is too large; write less of it", node.start_mark)
            sizes[id(node)] = size, depth
        return sizes[id(node)]

    measure(root, frozenset())


def _inner(yaml: Any, node: Any) -> list[Any]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _lines_of_jobs(yaml: Any, root: Any) -> tuple[int, ...]:
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == "job" and isinstance(value, yaml.SequenceNode):
            return tuple(each.start_mark.line + 1 for each in value.value)
    return ()


def _lines_of_entries(yaml: Any, root: Any) -> EntryLines:
    """Return the lines of the entries of each mapping at the top, by key and name."""
    found: EntryLines = {}
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        for name, _ in value.value if isinstance(value, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and isinstance(name, yaml.ScalarNode):
                found[key.value, name.value] = name.start_mark.line + 1
    return found


class _Reader:
    def __init__(self, yaml: Any, no: Callable[[str, Any], Exception]) -> None:
        self._yaml = yaml
        self._no = no
        self._others = yaml.resolver.Resolver()  # how YAML 1.1, which many tools still use, would read a scalar

    def value(self, node: Any) -> object:
        if isinstance(node, self._yaml.MappingNode):
            return self._mapping(node)
        if isinstance(node, self._yaml.SequenceNode):
            return [self.value(each) for each in node.value]
        return node.value if node.style is not None else self._word(node)

    def _mapping(self, node: Any) -> dict[str, object]:
        made: dict[str, object] = {}
        for key, value in node.value:
            if not isinstance(key, self._yaml.ScalarNode):
                raise self._no("a key is a text", key.start_mark)
            if key.value == "<<" and key.style is None:
                raise self._no("<< is not read; write what jobs share under defaults", key.start_mark)
            if key.value in made:
                raise self._no(f"the key {echo(key.value)!r} is there twice; write it once", key.start_mark)
            made[key.value] = self.value(value)
        return made

    def _word(self, node: Any) -> object:
        word = node.value
        if word in _WORDS:
            return _WORDS[word]
        if _INTEGER.fullmatch(word):
            return int(word)
        if _FLOAT.fullmatch(word):
            return float(word)
        tag = self._others.resolve(self._yaml.ScalarNode, word, (True, False))
        if tag not in (_TEXT, _TIME) or _LIKE_A_NUMBER.fullmatch(word):
            raise self._no(f"{echo(word)} is a text to some readers and not to others; quote it", node.start_mark)
        return word
