"""UUIDs that begin with a time, so that an index by id is written where those of that time are, however many others
there are, and not in as many places as there are ids to write."""

from hashlib import sha1
from uuid import UUID, SafeUUID, uuid5

_TIME_BITS = (1 << 48) - 1
_REST_BITS = (1 << 80) - 1 & ~(0xF << 76 | 0b11 << 62)  # without those that tell version and variant
_VARIANT = 0b10 << 62


def timed_id(milliseconds: int, rest: bytes, version: int) -> UUID:
    """Milliseconds since the epoch, and 74 bits of the first ten bytes of the rest: of version 7 if they are random,
    else of version 8."""
    time = (milliseconds & _TIME_BITS) << 80
    return uuid_of(time | version << 76 | _VARIANT | int.from_bytes(rest[:10], "big") & _REST_BITS)


def keyed_id(namespace: UUID, key: str, milliseconds: int | None) -> UUID:
    """The id that follows from a key, and begins with the time of the key if it is known."""
    if milliseconds is None:
        return uuid5(namespace, key)
    return timed_id(milliseconds, sha1(namespace.bytes + key.encode(), usedforsecurity=False).digest(), version=8)


def time_of_key(key: str) -> int | None:
    """Milliseconds since the epoch that a key begins with, if it is a UUID of version 7."""
    try:
        found = UUID(key)
    except ValueError:
        return None
    return found.int >> 80 if found.version == 7 else None


def parse_id(text: str) -> UUID | None:
    """The id that a text is; None if it is none."""
    try:
        return UUID(text)
    except ValueError:
        return None


def uuid_of(number: int) -> UUID:
    """The UUID that is this number. Its constructor takes three times as long, and many are made."""
    made = object.__new__(UUID)
    object.__setattr__(made, "int", number)
    object.__setattr__(made, "is_safe", SafeUUID.unknown)
    return made
