"""Fingerprints of errors: the same for errors that differ only in ids, numbers and times."""

import re
from hashlib import blake2b

_MAX_LENGTH = 500
_VARIABLE = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # UUIDs
    r"|0x[0-9a-f]+"
    r"|\b(?=[0-9a-f]*[0-9])[0-9a-f]{12,}\b"  # hashes and other hexadecimal ids
    r"|(?<!HTTP )\d+(?:[.:,]\d+)*",  # numbers, times and addresses, but not HTTP status codes
    re.IGNORECASE,
)


def first_line(error: str | None) -> str:
    """Return the first line of an error that is not empty."""
    lines = (line.strip() for line in (error or "").splitlines())
    return next((line for line in lines if line), "")[:_MAX_LENGTH]


def fingerprint(error: str | None) -> str:
    """Return 16 hexadecimal digits that tell an error from others of the same job."""
    text = _VARIABLE.sub("#", first_line(error)).lower()
    return blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()
