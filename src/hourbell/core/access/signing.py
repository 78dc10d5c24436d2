"""Standard Webhooks signatures: HMAC-SHA256 over the id, the time of the attempt and exactly the bytes sent."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable
from functools import lru_cache

PREFIX = "whsec_"
SECRET_BYTES = 32
_MIN_KEY_BYTES, _MAX_KEY_BYTES = 24, 64
_MAX_KEYS = 4_096


def new_secret(random_bytes: bytes) -> str:
    """Encode random bytes as the text of a signing secret."""
    return PREFIX + base64.b64encode(random_bytes).decode()


def secret_bytes(secret: str) -> bytes:
    """Decode the key of a secret's text; raise a ValueError that does not show the secret."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not _MIN_KEY_BYTES <= len(key) <= _MAX_KEY_BYTES:
        raise ValueError(f"a secret is {PREFIX} and base64 of {_MIN_KEY_BYTES} to {_MAX_KEY_BYTES} random bytes")
    return key


def signature(keys: Iterable[bytes], webhook_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of the `webhook-signature` header: one signature per key, any of which verifies."""
    signed = b"%s.%d.%s" % (webhook_id.encode(), timestamp, body)
    return " ".join([f"v1,{_digest(key, signed)}" for key in keys])


def _digest(key: bytes, message: bytes) -> str:
    keyed = _keyed(key).copy()
    keyed.update(message)
    return base64.b64encode(keyed.digest()).decode()


@lru_cache(_MAX_KEYS)
def _keyed(key: bytes) -> hmac.HMAC:
    """Return an HMAC initialized with the key, cached because each message only copies it."""
    return hmac.new(key, digestmod=hashlib.sha256)
