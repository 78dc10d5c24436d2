"""Verify Standard Webhooks signatures: the sender of these bytes, and that they are recent.

Nothing in a request is trusted before its signature is verified. A secret never appears in an error or a repr.
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from hourbell.receiver.webhook import InvalidWebhook, Reason, Webhook

Headers = Mapping[str, str] | Iterable[tuple[str, str]]

_PREFIX = "whsec_"
_MIN_KEY_BYTES, _MAX_KEY_BYTES = 24, 64
# With a dot in the id, the signed text would not show where the id ends and the timestamp begins.
_ID = re.compile(r"[!-\-/-~]{1,255}")
_TIMESTAMP = re.compile(r"[1-9][0-9]{0,10}")
_ATTEMPT = re.compile(r"[1-9][0-9]{0,8}")


class Verifier:
    """Verifies the signatures of webhooks.

    Any one of several secrets may have signed, so that a secret can be rotated while webhooks arrive.
    """

    __slots__ = ("_keys", "_tolerance")

    def __init__(self, secrets: str | Sequence[str], tolerance: timedelta = timedelta(minutes=5)) -> None:
        given = [secrets] if isinstance(secrets, str) else list(secrets)
        if not given:
            raise ValueError("a verifier needs at least one secret")
        if tolerance <= timedelta(0):
            raise ValueError("the tolerance is how far clocks may differ, and more than nothing")
        self._keys = tuple(_key(secret, number, len(given)) for number, secret in enumerate(given, 1))
        self._tolerance = tolerance

    def __repr__(self) -> str:
        return f"<Verifier with {len(self._keys)} secret{'s' if len(self._keys) > 1 else ''}>"

    def verify(self, headers: Headers, body: bytes, now: datetime | None = None) -> Webhook:
        """Return the webhook with these headers and exactly these bytes; raise InvalidWebhook with the reason."""
        if not isinstance(body, bytes):
            raise TypeError("pass the body as bytes, exactly as it was received")
        if now is not None and now.tzinfo is None:
            raise ValueError("pass now with a time zone, as in datetime.now(UTC)")
        given = _by_name(headers)
        webhook_id = _required(given, "webhook-id", _ID)
        timestamp = _required(given, "webhook-timestamp", _TIMESTAMP)
        signatures = _required(given, "webhook-signature")
        if not self._has_signed(f"{webhook_id}.{timestamp}.".encode(), body, signatures):
            raise InvalidWebhook(
                Reason.WRONG_SIGNATURE,
                "no signature fits; check that the secret is this job's and the body is passed on byte for byte",
            )
        self._check_age(time.time() - int(timestamp) if now is None else now.timestamp() - int(timestamp))
        return Webhook(
            id=webhook_id,
            timestamp=datetime.fromtimestamp(int(timestamp), UTC),
            body=body,
            attempt=_attempt(given),
            scheduled_at=_scheduled_at(given, webhook_id, body),
        )

    def _has_signed(self, head: bytes, body: bytes, signatures: str) -> bool:
        # Compare the texts, not their decoded bytes: several base64 texts decode to the same bytes.
        entries = [entry.encode("ascii", "replace") for entry in signatures.split(" ")]
        expected = [_signature(key, head, body) for key in self._keys]
        return any(hmac.compare_digest(entry, one) for entry in entries for one in expected)

    def _check_age(self, age_seconds: float) -> None:
        limit = self._tolerance.total_seconds()
        if age_seconds > limit:
            raise InvalidWebhook(
                Reason.TOO_OLD,
                f"signed {age_seconds:.0f} s ago, and {limit:g} s are allowed; if it is no replay, check the clocks",
            )
        if age_seconds < -limit:
            raise InvalidWebhook(
                Reason.TOO_NEW,
                f"signed {-age_seconds:.0f} s in the future, and {limit:g} s are allowed; check this machine's clock",
            )


def _key(secret: str, number: int, count: int) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (AttributeError, binascii.Error, ValueError):
        key = b""
    if not _MIN_KEY_BYTES <= len(key) <= _MAX_KEY_BYTES or not secret.startswith(_PREFIX):
        raise ValueError(
            f"secret {number} of {count} is not {_PREFIX} and base64 of {_MIN_KEY_BYTES} to {_MAX_KEY_BYTES} bytes; "
            "copy it whole, without spaces or line breaks"
        )
    return key


def _signature(key: bytes, head: bytes, body: bytes) -> bytes:
    signer = hmac.new(key, head, hashlib.sha256)
    signer.update(body)
    return b"v1," + base64.b64encode(signer.digest())


def _by_name(headers: Headers) -> dict[str, list[object]]:
    pairs = headers.items() if isinstance(headers, Mapping) or hasattr(headers, "items") else headers
    found: dict[str, list[object]] = {}
    for name, value in pairs:
        if isinstance(name, str):
            found.setdefault(name.lower(), []).append(value)
    return found


def _required(given: Mapping[str, list[object]], name: str, form: re.Pattern[str] | None = None) -> str:
    values = given.get(name, [])
    if not values or values == [""]:
        raise InvalidWebhook(Reason.MISSING_HEADER, f"the header {name} is missing")
    if len(values) > 1:
        raise InvalidWebhook(Reason.DUPLICATE_HEADER, f"the header {name} is there {len(values)} times")
    [value] = values
    if not isinstance(value, str) or (form is not None and form.fullmatch(value) is None):
        raise InvalidWebhook(Reason.MALFORMED_HEADER, f"the header {name} is malformed")
    return value


def _optional(given: Mapping[str, list[object]], name: str) -> str:
    match given.get(name):
        case [str(value)]:
            return value
    return ""


def _attempt(given: Mapping[str, list[object]]) -> int | None:
    text = _optional(given, "hourbell-attempt")
    return int(text) if _ATTEMPT.fullmatch(text) else None


def _scheduled_at(given: Mapping[str, list[object]], webhook_id: str, body: bytes) -> datetime | None:
    """Read the scheduled time. A body with the webhook's own id is the envelope; it overrides the unsigned header."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict) and value.get("id") == webhook_id and isinstance(value.get("scheduled_at"), str):
        return _instant(value["scheduled_at"])
    return _instant(_optional(given, "hourbell-scheduled-at"))


def _instant(text: str) -> datetime | None:
    try:
        instant = datetime.fromisoformat(text)
        return instant.astimezone(UTC) if instant.tzinfo else None
    except (ValueError, OverflowError):
        return None
