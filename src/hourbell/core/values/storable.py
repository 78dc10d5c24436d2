"""Text as every database can keep it: without the character zero, and with a character for each half of one."""

from typing import Any


def storable(text: str) -> str:
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def storable_json(value: Any) -> Any:
    """What was read from JSON, with all of its texts so."""
    match value:
        case str():
            return storable(value)
        case list():
            return [storable_json(each) for each in value]
        case dict():
            return {storable(name): storable_json(each) for name, each in value.items()}
    return value
