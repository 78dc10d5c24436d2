"""Text that every database can store: NUL and lone surrogates are replaced."""

from typing import Any


def storable(text: str) -> str:
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def storable_json(value: Any) -> Any:
    """Replace NUL and lone surrogates in all texts and keys of a JSON value."""
    match value:
        case str():
            return storable(value)
        case list():
            return [storable_json(each) for each in value]
        case dict():
            return {storable(name): storable_json(each) for name, each in value.items()}
    return value
