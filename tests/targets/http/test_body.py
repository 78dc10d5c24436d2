"""The body of a webhook: the envelope, or the job's own body with its placeholders filled."""

import json
from datetime import timedelta

import pytest

from hourbell.core.job.target import HttpCall, parse_target
from hourbell.core.job.template import TemplateError
from hourbell.core.run.states import Kind
from hourbell.targets.base import Call
from hourbell.targets.http.body import MAX_BODY_BYTES, RunTexts, body_of, content_type_of
from tests.targets.http.steps import RUN_ID, T0, a_call, a_definition


def made(call: Call) -> tuple[bytes, str | None]:
    http = parse_target(call.definition.target)
    assert isinstance(http, HttpCall)
    return body_of(http, call, RunTexts.of(call.run)), content_type_of(http)


def test_without_a_body_of_its_own_a_job_sends_the_envelope() -> None:
    body, content_type = made(a_call(a_definition({"days": 30})))

    assert content_type == "application/json"
    assert json.loads(body) == {
        "id": str(RUN_ID),
        "idempotencyKey": str(RUN_ID),
        "eventId": str(RUN_ID),
        "job": "report",
        "scheduled_at": "2026-03-02T09:00:00Z",
        "trigger": "schedule:0 9 * * *",
        "payload": {"days": 30},
    }


@pytest.mark.parametrize("target", [{}, {"body": {"n": "{{payload.n}}"}}, {"body": "n={{payload.n}}"}])
def test_every_attempt_carries_the_same_bytes(target: dict[str, object]) -> None:
    definition = a_definition({"n": 1.5}, **target)
    first = made(a_call(definition))
    later = made(a_call(definition, attempt=3, failures=2, now=T0 + timedelta(hours=5), ready_at=T0))

    assert first == later


def test_the_payload_of_a_run_goes_before_that_of_its_job() -> None:
    body, _ = made(a_call(a_definition({"n": 1}), payload={"n": 2}))
    assert json.loads(body)["payload"] == {"n": 2}


@pytest.mark.parametrize(
    ("more", "trigger"),
    [
        ({}, "schedule:0 9 * * *"),
        ({"expires_at": T0 + timedelta(days=1, minutes=5)}, "schedule:0 9 * * *"),
        ({"expires_at": T0 + timedelta(days=1, minutes=6)}, "catch_up:0 9 * * *"),
        ({"kind": Kind.MANUAL}, "manual"),
        ({"kind": Kind.REPLAY}, "replay"),
    ],
)
def test_the_trigger_says_why_the_run_exists(more: dict[str, object], trigger: str) -> None:
    body, _ = made(a_call(**more))
    assert json.loads(body)["trigger"] == trigger


def test_a_body_of_json_keeps_the_types_of_values() -> None:
    definition = a_definition({"name": 'A "b"', "n": 3}, body={"text": "Hi {{payload.name}}", "n": "{{payload.n}}"})
    body, content_type = made(a_call(definition))

    assert (json.loads(body), content_type) == ({"text": 'Hi A "b"', "n": 3}, "application/json")


def test_a_body_of_text_is_sent_as_text_unless_its_header_says_otherwise() -> None:
    plain = made(a_call(a_definition({"a": "ü"}, body="a={{payload.a}}")))
    form = made(a_call(a_definition(body="a=1", headers={"content-type": "application/x-www-form-urlencoded"})))

    assert plain == ("a=ü".encode(), "text/plain; charset=utf-8")
    assert form == (b"a=1", "application/x-www-form-urlencoded")


def test_a_get_without_a_body_has_none() -> None:
    assert made(a_call(a_definition(method="GET"))) == (b"", None)


def test_a_body_that_is_too_large_is_reported() -> None:
    with pytest.raises(TemplateError, match="at most 1048576"):
        made(a_call(a_definition("x" * MAX_BODY_BYTES)))


def test_half_of_a_character_cannot_be_sent_and_is_not_shown() -> None:
    for target in ({"body": "name={{payload.name}}"}, {}):
        with pytest.raises(TemplateError, match="half of a surrogate pair") as caught:
            made(a_call(a_definition({"name": "canary \ud800"}, **target)))
        assert "canary" not in str(caught.value)
