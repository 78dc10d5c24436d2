"""The fingerprint of a failure: the same for runs that failed for one cause, whatever ids and numbers errors name."""

import re
from functools import lru_cache
from hashlib import blake2b

from hourbell.core.run.error_line import without_frames

MAX_ERROR_CHARACTERS = 1_000  # characters of an error that count
_RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\b[a-z][a-z0-9+.-]*://[^\s\"'`<>]+", "<address>"),
        (r"\"[^\"\n]*\"|(?<!\w)'[^'\n]*'(?!\w)|`[^`\n]*`", "<value>"),
        (r"\b[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}\b", "<id>"),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", "<address>"),
        (r"\[?(?<![\w:])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}\]?(?::\d+)?", "<address>"),
        (r"\b0[xX][0-9A-Fa-f]+\b", "<id>"),
        (r"\b(?=[0-9A-Fa-f]*\d)(?=\d*[A-Fa-f])[0-9A-Fa-f]{8,}\b", "<id>"),
        (r"(?<!\bHTTP )(?<!\bHTTP \d)(?<!\bHTTP \d\d)\d+", "0"),
        (r"\s+", " "),
    )
)


@lru_cache(2_048)
def normalize_error(error: str) -> str:
    """Replace what differs between errors of one cause: numbers, ids, quoted values and addresses.

    The status of an HTTP answer is a cause of its own and stays.
    """
    text = error[:MAX_ERROR_CHARACTERS]
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text.strip()


def fingerprint_of(error: str | None, lane: str, reason: str | None) -> str:
    """Return the fingerprint of a failed run: 16 hexadecimal digits."""
    parts = "\0".join((lane, reason or "", normalize_error(without_frames(error or ""))))
    return blake2b(parts.encode(errors="surrogatepass"), digest_size=8).hexdigest()
