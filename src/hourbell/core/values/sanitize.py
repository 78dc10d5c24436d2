"""Text that every database can store: NUL and lone surrogates are replaced."""

from typing import Any


def sanitize_text(text: str) -> str:
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def sanitize_json(value: Any) -> Any:
    """Replace NUL and lone surrogates in all texts and keys of a JSON value."""
    match value:
        case str():
            return sanitize_text(value)
        case list():
            return [sanitize_json(each) for each in value]
        case dict():
            return {sanitize_text(name): sanitize_json(each) for name, each in value.items()}
    return value
