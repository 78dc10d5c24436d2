"""Masking of secrets that a receiver echoed in its response, in every form that is easy to decode.

A secret is found in plain text, in upper and lower case, in hexadecimal, in base64 (standard and URL-safe, alone or
anywhere inside the encoded data), and with any of its characters percent-encoded or escaped as in JSON. A credential is
found without its scheme, too: the token of `Bearer …`, the user name and password of `Basic …`. Forms that need a key
or a second decoding step are not found: compressed, encrypted, reversed, encoded twice.

The cost is bounded: the search covers only the text that may be stored, plus the longest form of a secret.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

MASK = "***"
MIN_ENCODED_BYTES = 4  # a shorter secret is searched only in plain text: encoded, it would match by chance
_MAX_ESCAPE_BYTES = 6  # \u0041
_PERCENT, _JSON = rb"%([0-9A-Fa-f]{2})", rb"\\u00([0-9A-Fa-f]{2})|\\(/)"
_ESCAPES = [re.compile(pattern) for pattern in (_PERCENT, _JSON, rb"|".join([_PERCENT, _JSON]))]
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")


class Span(NamedTuple):
    start: int
    end: int


class View(NamedTuple):
    """A decoded form of a text. `starts` maps each byte to its offset in the text; None if the offsets are the same."""

    text: bytes
    starts: Sequence[int] | None

    def span(self, start: int, end: int) -> Span:
        """Return the span of the text that a part of the view was decoded from."""
        return Span(start, end) if self.starts is None else Span(self.starts[start], self.starts[end])


class Form(NamedTuple):
    """An encoded form of a secret. `before` and `after` count adjacent characters that contain some of its bits."""

    text: bytes
    is_base64: bool = False  # any other form is matched case-insensitively
    before: int = 0
    after: int = 0


def mask_secrets(text: str, secrets: Iterable[str], max_chars: int) -> str:
    """Return the first `max_chars` characters of a text, with each part that shows a secret replaced by a mask."""
    parts = {part for secret in secrets for part in _parts(secret)}
    if not parts:
        return text[:max_chars]
    longest = 2 * max(map(len, parts))  # in hexadecimal; every character of it may be escaped
    searched = text[: max_chars + _MAX_ESCAPE_BYTES * longest].encode("utf-8", "replace")
    kept = text[:max_chars].encode("utf-8", "replace")
    forms = {form for part in parts for form in _forms(part)}
    spans = sorted(span for view in _views(searched) for span in _find(view, forms, len(kept)))
    return _masked(kept, spans).decode("utf-8", "replace")


def _parts(secret: str) -> Iterator[bytes]:
    """Yield the secret, and its credential without the authentication scheme."""
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
    """Yield the text unchanged, and with escapes of either kind, and of both kinds, decoded."""
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
    """Yield the forms in which a secret is searched."""
    yield Form(part.lower())
    yield Form(part.lower().replace(b" ", b"+"))
    if len(part) >= MIN_ENCODED_BYTES:
        yield Form(part.hex().encode())
        for core, before, after in _base64_cores(part):
            yield Form(core, True, before, after)


def _find(view: View, forms: Iterable[Form], limit: int) -> Iterator[Span]:
    """Yield the spans of secrets in a view that begin within the first `limit` bytes."""
    lowered, standard = view.text.lower(), view.text.translate(_TO_STANDARD)
    for form in forms:
        searched = standard if form.is_base64 else lowered
        for start, end in _occurrences(searched, form.text, limit + form.before):
            yield view.span(max(start - form.before, 0), min(end + form.after, len(searched)))


def _base64_cores(secret: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield the base64 characters that depend on the secret alone, for each of the three alignments.

    With them come the numbers of characters before and after that also contain some of its bits.
    """
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + secret)
        first, bits = -(-8 * offset // 6), 8 * (offset + len(secret))
        yield encoded[first : bits // 6], int(offset > 0), int(bits % 6 > 0)


def _occurrences(text: bytes, form: bytes, limit: int) -> Iterator[Span]:
    """Yield the spans of a form that begin within the first `limit` bytes; one span for occurrences that overlap."""
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
    """Return where the repeats of `tail` after `end` stop; the steps double, because there may be very many repeats."""
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
