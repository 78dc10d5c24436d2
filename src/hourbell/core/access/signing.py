"""Standard Webhooks signatures: HMAC-SHA256 over the id, the time of the attempt and exactly the bytes sent."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable
from functools import lru_cache

PREFIX = "whsec_"
SECRET_BYTES = 32
_LEAST, _MOST = 24, 64
_MOST_KEYS = 4_096


def new_secret(random_bytes: bytes) -> str:
    """The text of a secret made of these random bytes."""
    return PREFIX + base64.b64encode(random_bytes).decode()


def secret_bytes(secret: str) -> bytes:
    """The key in a secret's text, or a ValueError that does not show it."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not _LEAST <= len(key) <= _MOST:
        raise ValueError(f"a secret is {PREFIX} and base64 of {_LEAST} to {_MOST} random bytes")
    return key


def signature(keys: Iterable[bytes], webhook_id: str, timestamp: int, body: bytes) -> str:
    """What the header `webhook-signature` says: one signature for each key, so that either verifies."""
    signed = b"%s.%d.%s" % (webhook_id.encode(), timestamp, body)
    return " ".join([f"v1,{_digest(key, signed)}" for key in keys])


def _digest(key: bytes, message: bytes) -> str:
    keyed = _keyed(key).copy()
    keyed.update(message)
    return base64.b64encode(keyed.digest()).decode()


@lru_cache(_MOST_KEYS)
def _keyed(key: bytes) -> hmac.HMAC:
    """What the key alone makes of the HMAC; it is copied for each message."""
    return hmac.new(key, digestmod=hashlib.sha256)
