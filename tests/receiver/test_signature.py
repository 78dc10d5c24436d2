"""Genuine webhooks are accepted and all others refused, on the receiver's side."""

import base64
import dataclasses
import json
import random
from datetime import UTC, datetime, timedelta

import pytest

from hourbell.core.access.signing import secret_bytes, signature
from hourbell.receiver import InvalidWebhook, Reason, Verifier
from tests.receiver.signed import BODY, ID, OTHER_SECRET, SECRET, T0, just_now, oracle_accepts, signed

VERIFIER = Verifier(SECRET)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def reason_for(headers: object, body: bytes = BODY, now: datetime = T0, verifier: Verifier = VERIFIER) -> Reason:
    with pytest.raises(InvalidWebhook) as refused:
        verifier.verify(headers, body, now)  # type: ignore[arg-type]
    return refused.value.reason


def flipped(data: bytes, index: int, bit: int) -> bytes:
    return data[:index] + bytes([data[index] ^ 1 << bit]) + data[index + 1 :]


def test_a_signature_of_the_reference_library_is_accepted() -> None:
    headers = signed(hourbell_attempt="3", hourbell_scheduled_at="2026-03-01T08:59:00Z")

    webhook = VERIFIER.verify(headers, BODY, T0)

    assert (webhook.id, webhook.timestamp, webhook.attempt) == (ID, T0, 3)
    assert webhook.scheduled_at == T0 - MINUTE
    assert (webhook.payload, webhook.json()["job"]) == ({"days": 30}, "daily")


def test_a_signature_of_hourbell_is_accepted_by_the_reference_library_and_this_verifier() -> None:
    at = int(datetime.now(UTC).timestamp())
    signatures = signature([secret_bytes(OTHER_SECRET), secret_bytes(SECRET)], ID, at, BODY)
    headers = {"webhook-id": ID, "webhook-timestamp": str(at), "webhook-signature": signatures}

    assert oracle_accepts(headers, BODY)
    assert VERIFIER.verify(headers, BODY).id == ID


def test_the_published_example_is_accepted() -> None:
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    verifier = Verifier("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    webhook = verifier.verify(headers, b'{"test": 2432232314}', datetime.fromtimestamp(1614265330, UTC))

    assert webhook.json() == {"test": 2432232314}


@pytest.mark.parametrize("part", ["body", "webhook-id", "webhook-timestamp", "webhook-signature"])
def test_any_flipped_bit_is_refused(part: str) -> None:
    chance = random.Random(part)
    genuine = just_now()

    for _ in range(1000):
        headers, body = dict(genuine), BODY
        if part == "body":
            body = flipped(body, chance.randrange(len(body)), chance.randrange(8))
        else:
            value = headers[part].encode()
            headers[part] = flipped(value, chance.randrange(len(value)), chance.randrange(8)).decode("latin-1")
        with pytest.raises(InvalidWebhook):
            VERIFIER.verify(headers, body)


def test_every_other_text_of_the_same_base64_is_refused() -> None:
    """The last character of a signature has two bits that decode to nothing."""
    headers = signed()
    head, last = headers["webhook-signature"][:-2], headers["webhook-signature"][-2]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

    for char in alphabet.replace(last, ""):
        assert reason_for(headers | {"webhook-signature": f"{head}{char}="}) == Reason.WRONG_SIGNATURE


@pytest.mark.parametrize(
    ("age", "reason"),
    [
        (5 * MINUTE, None),
        (5 * MINUTE + SECOND, Reason.TOO_OLD),
        (timedelta(days=400), Reason.TOO_OLD),
        (-5 * MINUTE, None),
        (-5 * MINUTE - SECOND, Reason.TOO_NEW),
        (-timedelta(days=400), Reason.TOO_NEW),
    ],
)
def test_clocks_may_differ_by_five_minutes_and_no_more(age: timedelta, reason: Reason | None) -> None:
    if reason is None:
        assert VERIFIER.verify(signed(), BODY, T0 + age).timestamp == T0
    else:
        assert reason_for(signed(), now=T0 + age) == reason


@pytest.mark.parametrize("age", [6 * MINUTE, -6 * MINUTE, timedelta(days=1)])
def test_by_the_real_clock_a_replay_is_refused_as_the_reference_library_does(age: timedelta) -> None:
    headers = signed(at=datetime.now(UTC) - age)

    assert not oracle_accepts(headers, BODY)
    with pytest.raises(InvalidWebhook):
        VERIFIER.verify(headers, BODY)


def test_the_tolerance_can_be_chosen() -> None:
    strict = Verifier(SECRET, tolerance=SECOND)

    assert strict.verify(signed(), BODY, T0 + SECOND).id == ID
    assert reason_for(signed(), now=T0 + 2 * SECOND, verifier=strict) == Reason.TOO_OLD


def test_a_forged_request_learns_nothing_about_its_age() -> None:
    assert reason_for(signed(secret=OTHER_SECRET), now=T0 + timedelta(days=1)) == Reason.WRONG_SIGNATURE


def test_while_a_secret_is_changed_either_side_may_be_ahead() -> None:
    old, new, both = signed(), signed(secret=OTHER_SECRET), signed()
    both["webhook-signature"] = f"{new['webhook-signature']} {old['webhook-signature']}"

    for headers in (old, new, both):
        assert Verifier([OTHER_SECRET, SECRET]).verify(headers, BODY, T0).id == ID
    for secret in (SECRET, OTHER_SECRET):
        assert Verifier(secret).verify(both, BODY, T0).id == ID
    assert reason_for(new) == Reason.WRONG_SIGNATURE


def test_the_names_of_headers_may_be_in_any_case() -> None:
    loud = {name.upper(): value for name, value in signed(hourbell_attempt="2").items()}

    assert VERIFIER.verify(loud, BODY, T0).attempt == 2


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_each_of_the_three_headers_must_be_there_once(name: str) -> None:
    genuine = signed()

    assert reason_for({key: value for key, value in genuine.items() if key != name}) == Reason.MISSING_HEADER
    assert reason_for(genuine | {name: ""}) == Reason.MISSING_HEADER
    assert reason_for(genuine | {name.title(): genuine[name]}) == Reason.DUPLICATE_HEADER
    assert reason_for([*genuine.items(), (name, genuine[name])]) == Reason.DUPLICATE_HEADER


@pytest.mark.parametrize(
    "timestamp",
    ["+1772355600", "-1772355600", "1772355600.0", "1_772_355_600", " 1772355600", "1e9", "0", "01772355600",
     "0x69a401d0", "١٧٧٢٣٥٥٦٠٠", "1" * 5000, "nan", "2026-03-01T09:00:00Z"],
)  # fmt: skip
def test_a_timestamp_is_plain_digits(timestamp: str) -> None:
    assert reason_for(signed() | {"webhook-timestamp": timestamp}) == Reason.MALFORMED_HEADER


@pytest.mark.parametrize("webhook_id", ["a.b", "a b", "a\nb", "é", "a" * 256, "\udc80"])
def test_an_id_is_printable_and_has_no_dot(webhook_id: str) -> None:
    assert reason_for(signed() | {"webhook-id": webhook_id}) == Reason.MALFORMED_HEADER


def test_a_dot_cannot_be_moved_from_the_body_into_the_id() -> None:
    """`id.timestamp.body` is the same text when the id ends later; such an id is refused."""
    later = int(T0.timestamp()) + 1
    genuine = signed(b"%d.{}" % later)
    moved = genuine | {"webhook-id": f"{ID}.{genuine['webhook-timestamp']}", "webhook-timestamp": str(later)}

    assert reason_for(moved, b"{}") == Reason.MALFORMED_HEADER


def test_entries_of_other_versions_and_broken_ones_are_passed_over() -> None:
    genuine = signed()
    odd = "v1a,c2ln v2,x , v1 v1, v1,% v1,é garbage,,, v1,AAAA "

    assert VERIFIER.verify(genuine | {"webhook-signature": odd + genuine["webhook-signature"]}, BODY, T0).id == ID
    assert reason_for(genuine | {"webhook-signature": odd}) == Reason.WRONG_SIGNATURE
    as_other_version = genuine["webhook-signature"].replace("v1,", "v1a,")
    assert reason_for(genuine | {"webhook-signature": as_other_version}) == Reason.WRONG_SIGNATURE


@pytest.mark.parametrize("body", ["{}", '{"name": "Ærøskøbing ✓ 日本"}', "", "no JSON", "\ufeff{}", "[" * 100_000])
def test_any_body_is_verified_as_the_bytes_it_is(body: str) -> None:
    data = body.encode()

    assert VERIFIER.verify(signed(data), data, T0).body == data
    assert reason_for(signed(data), data + b"\n") == Reason.WRONG_SIGNATURE


def test_a_body_need_not_be_text() -> None:
    body = bytes(range(256))
    at = int(T0.timestamp())
    headers = signed() | {"webhook-signature": signature([secret_bytes(SECRET)], ID, at, body)}

    assert VERIFIER.verify(headers, body, T0).body == body


@pytest.mark.parametrize("value", [None, 1772355600, b"1772355600", ["x"]])
def test_a_header_that_is_no_text_is_refused(value: object) -> None:
    assert reason_for(signed() | {"webhook-timestamp": value}) == Reason.MALFORMED_HEADER


def test_a_body_that_was_decoded_or_parsed_is_an_error_of_the_program() -> None:
    for body in (BODY.decode(), json.loads(BODY), None):
        with pytest.raises(TypeError, match="exactly as it was received"):
            VERIFIER.verify(signed(), body, T0)


def test_a_time_without_a_zone_is_an_error_of_the_program() -> None:
    with pytest.raises(ValueError, match="time zone"):
        VERIFIER.verify(signed(), BODY, T0.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("attempt", "expected"), [("1", 1), ("12", 12), ("0", None), ("-1", None), ("x", None), ("1" * 5000, None)]
)
def test_an_invalid_attempt_number_is_unknown(attempt: str, expected: int | None) -> None:
    assert VERIFIER.verify(signed(hourbell_attempt=attempt), BODY, T0).attempt == expected


def test_the_signed_body_says_when_it_was_scheduled_whatever_the_header_says() -> None:
    lie = {"hourbell_scheduled_at": "1999-12-31T23:59:59Z"}
    own_body = b'{"scheduled_at": "soon"}'

    assert VERIFIER.verify(signed(**lie), BODY, T0).scheduled_at == T0 - MINUTE
    assert VERIFIER.verify(signed(), BODY, T0).scheduled_at == T0 - MINUTE
    reported = VERIFIER.verify(signed(own_body, hourbell_scheduled_at="2026-03-01T09:59:00+01:00"), own_body, T0)
    assert (reported.scheduled_at, reported.scheduled_at.tzinfo if reported.scheduled_at else None) == (
        T0 - MINUTE,
        UTC,
    )
    for odd in ("soon", "2026-03-01T09:00:00", "0001-01-01T00:00:00+14:00", ""):
        assert VERIFIER.verify(signed(own_body, hourbell_scheduled_at=odd), own_body, T0).scheduled_at is None


def test_a_body_of_the_jobs_own_has_no_payload() -> None:
    for body in (b'{"text": "hello"}', b'["payload"]'):
        with pytest.raises(ValueError, match="body of its own"):
            _ = VERIFIER.verify(signed(body), body, T0).payload


def test_a_webhook_cannot_be_changed() -> None:
    webhook = VERIFIER.verify(signed(), BODY, T0)

    with pytest.raises(dataclasses.FrozenInstanceError):
        webhook.id = "another"  # type: ignore[misc]


def test_a_refusal_says_what_to_answer() -> None:
    with pytest.raises(InvalidWebhook, match="check that the secret is this job's") as refused:
        VERIFIER.verify(signed(secret=OTHER_SECRET), BODY, T0)

    assert refused.value.status == 401
    assert refused.value.problem() == {
        "title": "Unauthorized",
        "status": 401,
        "detail": str(refused.value),
        "reason": "wrong_signature",
    }


def secret_of(size: int) -> str:
    return "whsec_" + base64.b64encode(b"k" * size).decode()


@pytest.mark.parametrize("size", [24, 32, 64])
def test_secrets_of_24_to_64_bytes_are_accepted(size: int) -> None:
    assert Verifier(secret_of(size)).verify(signed(secret=secret_of(size)), BODY, T0).id == ID


@pytest.mark.parametrize(
    "secret",
    [secret_of(23), secret_of(65), SECRET[6:], SECRET.upper(), SECRET + "\n", SECRET[:-1], "whsec_", "", "whsec_é", 7],
)
def test_a_bad_secret_is_refused_without_being_shown(secret: object) -> None:
    with pytest.raises(ValueError, match="secret 2 of 2") as refused:
        Verifier([SECRET, secret])  # type: ignore[list-item]

    assert str(refused.value) == (
        "secret 2 of 2 is not whsec_ and base64 of 24 to 64 bytes; copy it whole, without spaces or line breaks"
    )
    assert refused.value.__cause__ is refused.value.__context__ is None


def test_a_verifier_shows_no_secret() -> None:
    verifier = Verifier([SECRET, OTHER_SECRET])

    assert repr(verifier) == str(verifier) == "<Verifier with 2 secrets>"
    assert repr(VERIFIER) == "<Verifier with 1 secret>"


def test_a_verifier_needs_a_secret_and_a_tolerance() -> None:
    with pytest.raises(ValueError, match="at least one secret"):
        Verifier([])
    with pytest.raises(ValueError, match="more than nothing"):
        Verifier(SECRET, tolerance=timedelta(0))
