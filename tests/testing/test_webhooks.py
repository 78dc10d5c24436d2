"""Webhooks of a rehearsal are built by the real target and not sent."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hourbell.testing import Rehearsal

URL = "https://shop.example/hook"


def add_job(hourbell: Rehearsal, **more: Any) -> None:
    target = {"type": "http", "url": URL, "timeout": "10s"}
    hourbell.add(name="hook", schedule="0 9 * * *", target=target, payload={"a": 1}, **more)


def test_a_request_is_recorded_as_it_would_have_left(hourbell: Rehearsal) -> None:
    add_job(hourbell)
    hourbell.advance("9h")

    [request] = hourbell.webhooks
    assert (request.method, request.url, request.at) == ("POST", URL, datetime(2026, 1, 1, 9, tzinfo=UTC))
    body = request.json()
    assert isinstance(body, dict)
    assert (body["job"], body["payload"]) == ("hook", {"a": 1})


@pytest.mark.parametrize(("status", "attempts"), [(200, 1), (404, 1), (500, 2)])
def test_answers_count_as_they_do_for_real(hourbell: Rehearsal, status: int, attempts: int) -> None:
    hourbell.answer(URL, status=status)
    add_job(hourbell, retry={"attempts": 2, "backoff": ["1m"]})
    hourbell.advance("10h")

    assert [attempt.status_code for attempt in hourbell.runs("hook")[0].attempts] == attempts * [status]


def test_a_receiver_asks_for_patience(hourbell: Rehearsal) -> None:
    hourbell.answer(URL, status=429, headers={"Retry-After": "300"}, times=1)
    add_job(hourbell)
    hourbell.advance("10h")

    first, second = hourbell.webhooks
    assert timedelta(0) <= second.at - first.at - timedelta(seconds=300) < timedelta(seconds=1)


def test_scripts_follow_each_other_and_the_last_one_stays(hourbell: Rehearsal) -> None:
    hourbell.answer(URL, error="the connection broke", times=1)
    hourbell.answer(URL, takes="11s", times=1)
    hourbell.answer(URL, status=201, body="thanks")
    add_job(hourbell)
    hourbell.advance("2d")

    first, second = hourbell.runs("hook")
    assert [attempt.error for attempt in first.attempts] == ["the connection broke", "no answer within 10 s", None]
    assert [attempt.status_code for attempt in second.attempts] == [201]


def test_a_script_for_no_request_is_refused(hourbell: Rehearsal) -> None:
    with pytest.raises(ValueError, match="write 1 or more"):
        hourbell.answer(URL, times=0)
