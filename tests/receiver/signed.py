"""Requests as a sender makes them, signed by the public reference library."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime

import standardwebhooks

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER_SECRET = "whsec_" + base64.b64encode(bytes(range(100, 132))).decode()
ID = "0f8c9f3e-6c1b-5a57-9a43-1f0f6f6a2a10"
T0 = datetime(2026, 3, 1, 9, 0, 0, tzinfo=UTC)
BODY = (
    b'{"id":"0f8c9f3e-6c1b-5a57-9a43-1f0f6f6a2a10","idempotencyKey":"0f8c9f3e-6c1b-5a57-9a43-1f0f6f6a2a10",'
    b'"eventId":"0f8c9f3e-6c1b-5a57-9a43-1f0f6f6a2a10","job":"daily","scheduled_at":"2026-03-01T08:59:00Z",'
    b'"trigger":"schedule:59 8 * * *","payload":{"days":30}}'
)


def signed(body: bytes = BODY, at: datetime = T0, secret: str = SECRET, **more: str) -> dict[str, str]:
    """The headers of a genuine request. `more` are headers, written with underscores."""
    return {
        "webhook-id": ID,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": standardwebhooks.Webhook(secret).sign(ID, at, body.decode()),
        **{name.replace("_", "-"): value for name, value in more.items()},
    }


def just_now(body: bytes = BODY, **more: str) -> dict[str, str]:
    """The same, for those who look at the clock."""
    return signed(body, at=datetime.now(UTC), **more)


def oracle_accepts(headers: Mapping[str, str], body: bytes, secret: str = SECRET) -> bool:
    """Return True if the reference library accepts it, by the clock of this machine. It has several ways to refuse."""
    try:
        standardwebhooks.Webhook(secret).verify(body, dict(headers), json_parse=False)
    except Exception:
        return False
    return True
