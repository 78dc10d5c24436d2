"""Small writers of TOML, YAML and JSON. Each output reads back as the same value."""

import json
import re
from collections.abc import Mapping

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_INTEGER_LIMIT = 1 << 63  # TOML integers have 64 bits
_MAX_PLAIN_KEY_CHARACTERS = 500  # YAML limits the length of a simple key


def can_be_toml(value: object) -> bool:
    """Check that TOML can represent a value: it has no null and no integer beyond 64 bits."""
    if isinstance(value, Mapping):
        return all(map(can_be_toml, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(can_be_toml, value))
    return value is not None and not (type(value) is int and not -_INTEGER_LIMIT <= value < _INTEGER_LIMIT)


def toml_key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _quoted(key)


def toml_text(text: str) -> str:
    """Write a text; one with line breaks as a multi-line string."""
    if "\n" in text:
        kept = "\n" if '"""' in text else '\n"'
        return '"""\n' + "".join(each if each in kept else _escaped(each) for each in text) + '"""'
    return _quoted(text)


def toml_json(value: object) -> str:
    """Write JSON as a TOML string, without escapes if possible."""
    text = json.dumps(value, ensure_ascii=False)
    return f"'{text}'" if text.isprintable() and "'" not in text else _quoted(text)


def toml_value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value)
        case str():
            return toml_text(value)
        case Mapping():
            pairs = [f"{toml_key(key)} = {_on_one_line(each)}" for key, each in value.items()]
            return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
        case list() | tuple():
            return f"[{', '.join(map(_on_one_line, value))}]"
    raise TypeError(f"TOML has no {type(value).__name__}")


def _on_one_line(value: object) -> str:
    return _quoted(value) if isinstance(value, str) else toml_value(value)


def json_text(value: object) -> str:
    """Write indented JSON; unprintable characters are escaped, so that they cannot control a terminal."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return "".join(each if each.isprintable() or each == "\n" else _escaped_in_json(each) for each in text)


def yaml_text(text: str) -> str:
    return _quoted(text)


def yaml_value(value: object, *, block: bool = False) -> str:
    """Write a value on one line; with `block`, a text with line breaks as a block."""
    match value:
        case str() if block and _can_be_block(value):
            return "|-\n  " + value.replace("\n", "\n  ")
        case str():
            return _quoted(value)
        case float():
            text = repr(value)
            return text if "." in text else text.replace("e", ".0e")
        case Mapping():
            return f"{{{', '.join(f'{_yaml_key(key)}: {yaml_value(each)}' for key, each in value.items())}}}"
        case list() | tuple():
            return f"[{', '.join(map(yaml_value, value))}]"
    return json.dumps(value)


def _yaml_key(key: str) -> str:
    return _quoted(key) if len(key) < _MAX_PLAIN_KEY_CHARACTERS else f"? {_quoted(key)} "


def _can_be_block(text: str) -> bool:
    """Check that a text can be a YAML block: its lines are printable and have no blanks at either end."""
    lines = text.split("\n")
    is_plain = all(line.isprintable() and line == line.strip() for line in lines)
    return len(lines) > 1 and is_plain and bool(lines[0]) and bool(lines[-1])


def _quoted(text: str) -> str:
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped_in_json(character: str) -> str:
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def _escaped(character: str) -> str:
    """Escape a character inside quotes, in a way that TOML and YAML both read."""
    if character in _SHORT:
        return _SHORT[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
