"""Standard Webhooks signatures: HMAC-SHA256 over the id, the time of the attempt and exactly the bytes sent."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable

PREFIX = "whsec_"
SECRET_BYTES = 32
_LEAST, _MOST = 24, 64


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
    digests = (hmac.new(key, signed, hashlib.sha256).digest() for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
