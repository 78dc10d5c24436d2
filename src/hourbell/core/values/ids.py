"""UUIDs that begin with a time, so that new ids land next to each other in an index.

Random ids would each touch another page of the index, and its write cost would grow with its size.
"""

from hashlib import sha1
from uuid import UUID, SafeUUID, uuid5

_TIME_BITS = (1 << 48) - 1
_REST_BITS = (1 << 80) - 1 & ~(0xF << 76 | 0b11 << 62)  # all other bits but version and variant
_VARIANT = 0b10 << 62


def timed_id(milliseconds: int, rest: bytes, version: int) -> UUID:
    """Build a UUID from milliseconds since the epoch and 74 bits of the first ten bytes of `rest`.

    Use version 7 if `rest` is random, and version 8 otherwise.
    """
    time = (milliseconds & _TIME_BITS) << 80
    return uuid_of(time | version << 76 | _VARIANT | int.from_bytes(rest[:10], "big") & _REST_BITS)


def keyed_id(namespace: UUID, key: str, milliseconds: int | None) -> UUID:
    """Derive an id from a key. It begins with the key's time, or is a UUIDv5 if the time is None."""
    if milliseconds is None:
        return uuid5(namespace, key)
    return timed_id(milliseconds, sha1(namespace.bytes + key.encode(), usedforsecurity=False).digest(), version=8)


def time_of_key(key: str) -> int | None:
    """Return the milliseconds since the epoch in a key that is a UUID of version 7; None for any other key."""
    try:
        found = UUID(key)
    except ValueError:
        return None
    return found.int >> 80 if found.version == 7 else None


def parse_id(text: str) -> UUID | None:
    """Parse an id; return None if the text is not a UUID."""
    try:
        return UUID(text)
    except ValueError:
        return None


def uuid_of(number: int) -> UUID:
    """Build a UUID from a number. The class's constructor takes three times as long, and many ids are built."""
    made = object.__new__(UUID)
    object.__setattr__(made, "int", number)
    object.__setattr__(made, "is_safe", SafeUUID.unknown)
    return made
