"""How an API token is written: `hb_`, 43 digits of 256 random bits, and 6 digits of a checksum over what is before.

The checksum finds a typo without asking anybody, and tells those who scan for leaked secrets a real token from text
that looks like one. It protects nothing else.
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
    """A token of 32 random bytes."""
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"a token is made of {RANDOM_BYTES} random bytes")
    head = PREFIX + _in_base_62(int.from_bytes(random, "big"), _RANDOM_DIGITS)
    return head + _sum_of(head)


def is_token_text(text: str) -> bool:
    """Whether it is written as a token is, with the right checksum."""
    return _TOKEN.fullmatch(text) is not None and _sum_of(text[:-_SUM_DIGITS]) == text[-_SUM_DIGITS:]


def digest_of(text: str) -> bytes:
    """What is kept of a token: its 256 random bits need no slow hash, as a password would."""
    return hashlib.sha256(text.encode()).digest()


def _sum_of(head: str) -> str:
    return _in_base_62(zlib.crc32(head.encode()), _SUM_DIGITS)


def _in_base_62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, 62)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
