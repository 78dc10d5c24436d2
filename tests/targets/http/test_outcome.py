"""Outcomes of responses, and what is stored of them."""

from datetime import timedelta

import pytest

from hourbell.core.run.settle import Failed, Succeeded
from hourbell.targets.http.outcome import excerpt_of, outcome_of, retry_after
from tests.targets.http.steps import T0, answer


@pytest.mark.parametrize("status", [200, 201, 202, 204, 226, 299])
def test_2xx_succeeds(status: int) -> None:
    outcome = outcome_of(answer(status), T0)
    assert isinstance(outcome, Succeeded)
    assert outcome.answer is not None
    assert (outcome.answer.status_code, outcome.answer.phases) == (status, {"wait": 0.1})


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(code, True) for code in (408, 425, 429, 500, 502, 503, 504, 599)]
    + [(code, False) for code in (300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 405, 409, 410, 418, 422, 499)],
)
def test_statuses_that_are_retried(status: int, retryable: bool) -> None:
    outcome = outcome_of(answer(status), T0)
    assert isinstance(outcome, Failed)
    assert (outcome.retryable, outcome.begun) == (retryable, True)
    assert str(status) in outcome.error


def test_only_410_pauses_the_job() -> None:
    notes = {status: getattr(outcome_of(answer(status), T0), "pauses_job", None) for status in range(200, 600)}
    assert [status for status, note in notes.items() if note] == [410]


def test_a_redirect_says_what_to_do() -> None:
    outcome = outcome_of(answer(301, Location="https://elsewhere.example"), T0)
    assert isinstance(outcome, Failed)
    assert "redirects are not followed" in outcome.error


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("0", timedelta(0)),
        (" 120 ", timedelta(minutes=2)),
        ("1000000000", timedelta(days=1)),
        ("9" * 5_000, timedelta(days=1)),
        ("Mon, 02 Mar 2026 09:01:30 GMT", timedelta(seconds=90)),
        ("Mon, 02 Mar 2026 08:00:00 GMT", timedelta(0)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", timedelta(days=1)),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("soon", None),
        ("", None),
        ("Mon, 99 Foo 2026", None),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("Mon, 02 Mar 2026 09:01:30 +99999999999999", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, wait: timedelta | None) -> None:
    assert retry_after(answer(503, Retry_After=text), T0) == wait


def test_the_excerpt_holds_headers_and_the_head_of_the_body() -> None:
    text = excerpt_of(answer(200, b"x" * 60_000, Server="nginx", Set_Cookie="session=canary"))
    assert text.startswith("Server: nginx\nSet-Cookie: ***\n\nxxx")
    assert len(text) == 4_096


def test_the_excerpt_shows_no_secret_the_receiver_sent_back() -> None:
    text = excerpt_of(answer(400, b'{"authorization": "Bearer canary"}', X_Echo="Bearer canary"), ["Bearer canary"])
    assert "canary" not in text


def test_the_excerpt_is_text_whatever_the_body_is() -> None:
    text = excerpt_of(answer(200, b"a\x00b\x1b[31m\xff\xfe\r\n"))
    assert "\x00" not in text
    assert "\x1b" not in text


def test_a_compressed_body_is_not_unpacked() -> None:
    assert excerpt_of(answer(200, b"\x1f\x8b...", Content_Encoding="gzip")).endswith("(5 bytes, gzip)")


def test_a_secret_across_the_cut_is_not_shown_in_part() -> None:
    body = "ü" * 2_040 + "Bearer topsecret-topsecret"
    assert "topsecret" not in excerpt_of(answer(200, body.encode()), ["Bearer topsecret-topsecret"])
    assert "topsecret" not in excerpt_of(answer(200, b"token=topsecret"), ["Bearer topsecret"])
