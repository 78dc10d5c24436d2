"""Hides secrets that a receiver sent back, in every form in which one is still easy to read.

A secret is found in plain text, in upper and lower case, in hexadecimal, in base64 (standard and URL-safe, alone or
anywhere inside what was encoded), and with any of its characters percent-encoded or escaped as in JSON. A credential is
found without the word before it, too: the token of `Bearer …`, the user name and password of `Basic …`. Forms that need
a key or a second look are not found: compressed, encrypted, reversed, encoded twice.

The cost is bounded: only as much text is searched as may be kept, plus the longest form of a secret.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

MASK = "***"
MIN_ENCODED_BYTES = 4  # what is shorter is looked for as it is: encoded, it would be found by chance
_MAX_ESCAPE_BYTES = 6  # \u0041
_PERCENT, _JSON = rb"%([0-9A-Fa-f]{2})", rb"\\u00([0-9A-Fa-f]{2})|\\(/)"
_ESCAPES = [re.compile(pattern) for pattern in (_PERCENT, _JSON, rb"|".join([_PERCENT, _JSON]))]
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")


class Span(NamedTuple):
    start: int
    end: int


class View(NamedTuple):
    """A reading of a text; `starts` says where each of its bytes begins in the text, None if at its own place."""

    text: bytes
    starts: Sequence[int] | None

    def span(self, start: int, end: int) -> Span:
        """Where a part of the view is in the text."""
        return Span(start, end) if self.starts is None else Span(self.starts[start], self.starts[end])


class Form(NamedTuple):
    """A way to write a secret. As many characters `before` and `after` it show some of its bits besides others."""

    text: bytes
    is_base64: bool = False  # any other is found in upper and lower case
    before: int = 0
    after: int = 0


def mask_secrets(text: str, secrets: Iterable[str], max_chars: int) -> str:
    """Return the first characters of a text, with a mask in place of each part that shows a secret."""
    parts = {part for secret in secrets for part in _parts(secret)}
    if not parts:
        return text[:max_chars]
    longest = 2 * max(map(len, parts))  # in hexadecimal, of which every character may be escaped
    searched = text[: max_chars + _MAX_ESCAPE_BYTES * longest].encode("utf-8", "replace")
    kept = text[:max_chars].encode("utf-8", "replace")
    forms = {form for part in parts for form in _forms(part)}
    spans = sorted(span for view in _views(searched) for span in _find(view, forms, len(kept)))
    return _masked(kept, spans).decode("utf-8", "replace")


def _parts(secret: str) -> Iterator[bytes]:
    """Yield the secret, and what it holds without the word of its scheme."""
    scheme, _, rest = secret.partition(" ")
    for part in (secret, rest.strip(), secret.rpartition(" ")[2]):
        if part:
            yield part.encode("utf-8", "replace")
    if scheme.lower() == "basic":
        yield from _basic_credentials(rest)


def _basic_credentials(token: str) -> Iterator[bytes]:
    """Yield user name and password together, and the password alone."""
    try:
        credentials = base64.b64decode(token.strip())
    except (binascii.Error, ValueError):
        return
    for part in (credentials, credentials.partition(b":")[2]):
        if len(part) >= MIN_ENCODED_BYTES:
            yield part


def _views(text: bytes) -> Iterator[View]:
    """Yield the text as it is, and with escapes of either kind, and of both, replaced by what they stand for."""
    yield View(text, None)
    for escapes in _ESCAPES:
        if escapes.search(text):
            yield _unescape(text, escapes)


def _unescape(text: bytes, escapes: re.Pattern[bytes]) -> View:
    plain = bytearray()
    starts: list[int] = []
    position = 0
    for match in escapes.finditer(text):
        escaped = next(group for group in match.groups() if group)
        plain += text[position : match.start()]
        plain += escaped if escaped == b"/" else bytes([int(escaped, 16)])
        starts.extend(range(position, match.start() + 1))
        position = match.end()
    plain += text[position:]
    starts.extend(range(position, len(text) + 1))
    return View(bytes(plain), starts)


def _forms(part: bytes) -> Iterator[Form]:
    """Yield the forms in which a secret is looked for."""
    yield Form(part.lower())
    yield Form(part.lower().replace(b" ", b"+"))
    if len(part) >= MIN_ENCODED_BYTES:
        yield Form(part.hex().encode())
        for core, before, after in _base64_cores(part):
            yield Form(core, True, before, after)


def _find(view: View, forms: Iterable[Form], limit: int) -> Iterator[Span]:
    """Yield where secrets show in a view and begin within the first bytes, as many as may be kept."""
    lowered, standard = view.text.lower(), view.text.translate(_TO_STANDARD)
    for form in forms:
        searched = standard if form.is_base64 else lowered
        for start, end in _occurrences(searched, form.text, limit + form.before):
            yield view.span(max(start - form.before, 0), min(end + form.after, len(searched)))


def _base64_cores(secret: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield the characters that encode a secret whatever is before and after it, for each of the three alignments.

    With them come the numbers of characters before and after that show some of its bits besides others.
    """
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + secret)
        first, bits = -(-8 * offset // 6), 8 * (offset + len(secret))
        yield encoded[first : bits // 6], int(offset > 0), int(bits % 6 > 0)


def _occurrences(text: bytes, form: bytes, limit: int) -> Iterator[Span]:
    """Yield where a form is and begins within the first bytes; one span where it overlaps itself again and again."""
    last = limit + len(form)  # an occurrence that begins within the limit ends before it
    start = text.find(form, 0, last)
    while start >= 0:
        end = start + len(form)
        following = text.find(form, start + 1, last)
        if start < following < end:
            end = _end_of_repeats(text, form[start - following :], end)
            following = text.find(form, end - len(form) + 1, last)
        yield Span(start, end)
        start = following


def _end_of_repeats(text: bytes, tail: bytes, end: int) -> int:
    """Return where a text stops to repeat the tail that ends there; in leaps, because it may do so very often."""
    leaps = [tail]
    while text.startswith(leaps[-1], end):
        end += len(leaps[-1])
        leaps.append(2 * leaps[-1])
    for leap in reversed(leaps):
        if text.startswith(leap, end):
            end += len(leap)
    return end


def _masked(text: bytes, spans: Iterable[Span]) -> bytes:
    """Replace spans, in order of their starts, by the mask; one mask for those that overlap."""
    pieces: list[bytes] = []
    position = 0
    for start, end in spans:
        if start >= len(text):
            break
        if start > position or not pieces:
            pieces += [text[position:start], MASK.encode()]
        position = max(position, end)
    return b"".join([*pieces, text[position:]])
