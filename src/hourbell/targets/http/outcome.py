"""Mapping of HTTP responses to outcomes: 2xx succeeds, 408, 425, 429 and 5xx are retried, everything else is final."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from hourbell.core.run.settle import Answer, Failed, Outcome, Succeeded
from hourbell.targets.http.masking import mask_secrets
from hourbell.targets.http.transport import Response

_ASK_AGAIN = frozenset({408, 425, 429})
_GONE = 410
_MAX_EXCERPT_BYTES = 4_096
_MAX_WAIT = timedelta(days=1)
_BLANKS = str.maketrans("\n\t", "  ")
# Response headers with values that must not appear in a run's history.
_HIDDEN = frozenset({"set-cookie", "set-cookie2", "authorization", "proxy-authorization", "www-authenticate", "cookie"})


def outcome_of(response: Response, now: datetime, hidden: Iterable[str] = ()) -> Outcome:
    """Return the outcome of a response. The stored excerpt shows the texts in `hidden` in no common form."""
    answer = Answer(response.status, excerpt_of(response, hidden), response.phases)
    status = response.status
    if 200 <= status <= 299:
        return Succeeded(answer=answer)
    said = f"HTTP {status}{_phrase(status)}"
    if status in _ASK_AGAIN or status >= 500:
        return Failed(said, retry_after=retry_after(response, now), answer=answer)
    if status == _GONE:
        note = "the receiver answered 410 Gone; correct its url, then resume the job"
        return Failed(f"{said}: the job is paused", retryable=False, answer=answer, pauses_job=note)
    if 300 <= status <= 399:
        said += ": redirects are not followed; set the job's url to the final address"
    return Failed(said, retryable=False, answer=answer)


def retry_after(response: Response, now: datetime) -> timedelta | None:
    """Parse the Retry-After header, seconds or a date; return None if it is missing or invalid."""
    text = next((value.strip() for name, value in response.headers if name.lower() == "retry-after"), "")
    if text.isascii() and text.isdecimal():
        return _MAX_WAIT if len(text) > 9 else min(timedelta(seconds=int(text)), _MAX_WAIT)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
    until = until.replace(tzinfo=UTC) if until.tzinfo is None else until
    try:
        return min(max(until - now, timedelta(0)), _MAX_WAIT)
    except OverflowError:
        return None


def excerpt_of(response: Response, hidden: Iterable[str] = ()) -> str:
    """Return the headers and the start of the body as readable text, with secrets masked."""
    lines = [
        f"{name}: {'***' if name.lower() in _HIDDEN else value}" for name, value in response.headers if name.strip()
    ]
    coding = next((value for name, value in response.headers if name.lower() == "content-encoding"), "identity")
    if coding.lower() != "identity" and response.body:
        text = f"({len(response.body)} bytes, {coding})"
    else:
        text = response.body.decode(errors="replace")
    excerpt = "\n".join([*lines, "", text]) if text else "\n".join(lines)
    excerpt = mask_secrets(excerpt, hidden, _MAX_EXCERPT_BYTES)
    if excerpt.translate(_BLANKS).isprintable():
        return excerpt
    return "".join(char if char in "\n\t" or char.isprintable() else "�" for char in excerpt)


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""
