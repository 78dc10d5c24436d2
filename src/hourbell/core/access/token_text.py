"""The format of an API token: `hb_`, 43 base-62 digits for 256 random bits, and a 6-digit checksum of all that.

The checksum detects a typo without a database lookup, and lets scanners for leaked secrets distinguish real tokens
from similar text. It has no other security purpose.
"""

import hashlib
import re
import string
import zlib

PREFIX = "hb_"
RANDOM_BYTES = 32
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM_DIGITS, _SUM_DIGITS = 43, 6
_TOKEN = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_RANDOM_DIGITS + _SUM_DIGITS}}}", re.ASCII)


def token_text(random: bytes) -> str:
    """Return the token for 32 random bytes."""
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"a token is made of {RANDOM_BYTES} random bytes")
    head = PREFIX + _in_base_62(int.from_bytes(random, "big"), _RANDOM_DIGITS)
    return head + _sum_of(head)


def is_token_text(text: str) -> bool:
    """Check that a text has the format of a token and the right checksum."""
    return _TOKEN.fullmatch(text) is not None and _sum_of(text[:-_SUM_DIGITS]) == text[-_SUM_DIGITS:]


def digest_of(text: str) -> bytes:
    """Hash a token for storage. With 256 random bits it needs no slow password hash."""
    return hashlib.sha256(text.encode()).digest()


def _sum_of(head: str) -> str:
    return _in_base_62(zlib.crc32(head.encode()), _SUM_DIGITS)


def _in_base_62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, 62)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
