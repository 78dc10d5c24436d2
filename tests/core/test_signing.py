"""Signatures by the rules of Standard Webhooks, held against the reference implementation."""

import random
from datetime import UTC, datetime

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.access.signing import new_secret, secret_bytes, signature

OLD, NEW = new_secret(b"o" * 32), new_secret(b"n" * 32)


def verify(secret: str, headers: dict[str, str], body: bytes) -> None:
    standardwebhooks.Webhook(secret).verify(body, headers)


def headers_of(body: bytes, *secrets: str, at: int | None = None) -> dict[str, str]:
    timestamp = int(datetime.now(UTC).timestamp()) if at is None else at
    keys = [secret_bytes(secret) for secret in secrets]
    return {
        "webhook-id": "run-1",
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(keys, "run-1", timestamp, body),
    }


@given(st.dictionaries(st.text(), st.text()))
def test_the_reference_implementation_verifies_what_we_sign(payload: dict[str, str]) -> None:
    import json

    body = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
    verify(NEW, headers_of(body, NEW), body)


@pytest.mark.parametrize("receivers", [OLD, NEW])
def test_during_a_rotation_either_secret_verifies(receivers: str) -> None:
    verify(receivers, headers_of(b"{}", NEW, OLD), b"{}")


def test_another_secret_does_not_verify() -> None:
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        verify(OLD, headers_of(b"{}", NEW), b"{}")


def test_an_old_timestamp_is_refused_by_the_reference() -> None:
    long_ago = int(datetime.now(UTC).timestamp()) - 301
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        verify(NEW, headers_of(b"{}", NEW, at=long_ago), b"{}")


def test_a_thousand_flipped_bytes_all_fail() -> None:
    dice = random.Random(1)
    body = b'{"id": "run-1", "payload": {"amount": 100}}'
    headers = headers_of(body, NEW)
    for _ in range(1_000):
        changed = bytearray(body)
        changed[dice.randrange(len(body))] ^= 1 << dice.randrange(8)
        with pytest.raises((standardwebhooks.WebhookVerificationError, UnicodeDecodeError)):
            verify(NEW, headers, bytes(changed))


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_AAAA", "whsec_!!!", "AAAA" * 12, new_secret(b"x" * 65)])
def test_a_bad_secret_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(ValueError, match="whsec_ and base64") as caught:
        secret_bytes(secret)
    assert len(secret) < 7 or secret not in str(caught.value)
