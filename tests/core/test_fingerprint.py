"""Errors of one cause have one fingerprint, and errors of different causes have different ones."""

import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.run.fingerprint import MAX_ERROR_CHARACTERS, fingerprint_of, normalize_error

LANE = "https://billing.example:443"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("timed out after 30s", "timed out after 5s"),
        ("order 17 of 2026-11-18 is locked", "order 4711 of 2026-11-19 is locked"),
        ("connection to 10.0.0.1:8080 refused", "connection to 192.168.17.4 refused"),
        ("connection to [::1]:80 refused", "connection to [fe80::1:2]:8080 refused"),
        ("GET https://a.example/1 failed", "GET http://b.example:8080/x?y=2 failed"),
        ("no row 'ada'", "no row 'it was grace'"),
        ('KeyError: "a b"', 'KeyError: ""'),
        ("object at 0x7f3924194610", "object at 0x1"),
        ("commit deadbeef01 is gone", "commit 0123abcd45 is gone"),
        ("a  b", "a\n b"),
    ],
)
def test_varying_parts_of_errors_with_one_cause_do_not_count(first: str, second: str) -> None:
    assert fingerprint_of(first, LANE, "exhausted") == fingerprint_of(second, LANE, "exhausted")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("HTTP 503 Service Unavailable", "HTTP 500 Service Unavailable"),
        ("no such host", "connection refused"),
        (None, "no such host"),
        ("table is locked", "table is missing"),
    ],
)
def test_different_causes_differ(first: str | None, second: str) -> None:
    assert fingerprint_of(first, LANE, "exhausted") != fingerprint_of(second, LANE, "exhausted")


def test_the_lane_and_the_reason_are_part_of_the_cause() -> None:
    found = {fingerprint_of("no", lane, reason) for lane in (LANE, "task:a") for reason in ("exhausted", "lost", None)}

    assert len(found) == 6


@given(st.text())
def test_a_fingerprint_is_short_and_the_same_for_a_normalized_error(error: str) -> None:
    found = fingerprint_of(error, LANE, None)

    assert re.fullmatch("[0-9a-f]{16}", found)
    assert normalize_error(normalize_error(error)) == normalize_error(error)


@given(st.integers(0), st.integers(0), st.uuids(), st.uuids())
def test_numbers_and_ids_do_not_count(number: int, other: int, run: UUID, other_run: UUID) -> None:
    first, second = f"run {run}: code {number} from {{x}}", f"run {other_run}: code {other} from {{x}}"

    assert normalize_error(first) == normalize_error(second)


@given(st.text(), st.text())
def test_only_the_beginning_of_a_long_error_counts(first: str, second: str) -> None:
    start = "x" * MAX_ERROR_CHARACTERS

    assert normalize_error(start + first) == normalize_error(start + second)


def test_the_frames_of_a_traceback_do_not_count() -> None:
    frames = 'Traceback (most recent call last):\n  File "app.py", line {}, in invoice\n    fetch()\n'
    first = frames.format(8) + "RuntimeError: HTTP 503\n"

    assert fingerprint_of(first, LANE, None) == fingerprint_of(frames.format(9) + "RuntimeError: HTTP 503", LANE, None)
    assert fingerprint_of(first, LANE, None) != fingerprint_of(frames.format(8) + "KeyError: 1", LANE, None)
    assert fingerprint_of("x" * MAX_ERROR_CHARACTERS + first, LANE, None) == fingerprint_of(first, LANE, None)
