"""Messages are read as they were written."""

import json

import pytest

from hourbell.core.alerts.kinds import Event, IncidentState
from hourbell.core.alerts.message import DigestItem, IncidentSummary, JobSummary, Message, RunSummary
from tests.core.alerts.values import opened
from tests.core.values import HOUR, T0


def test_a_message_is_read_as_it_was_written() -> None:
    message = Message(
        "id-1",
        Event.OPENED,
        T0,
        "ops",
        IncidentSummary.of(opened(), ("job", "<b>other</b>")),
        JobSummary("j", "job", "0 3 * * *", "At 03:00", tags=("billing",), next_at=T0 + HOUR),
        RunSummary("r", "failed", "exhausted", T0, 4, T0, "HTTP 503"),
        {"incident": "https://hourbell.example/incidents/1"},
    )

    assert Message.from_json(json.loads(json.dumps(message.to_json()))) == message


def test_a_digest_is_read_as_it_was_written() -> None:
    items = (
        DigestItem(Event.OPENED, IncidentSummary.of(opened(), ("one",))),
        DigestItem(Event.RESOLVED, IncidentSummary.of(opened(state=IncidentState.RESOLVED, resolved_at=T0), ("two",))),
    )
    message = Message("id-3", Event.QUIET_DIGEST, T0, "ops", items=items, total=7)
    body = json.loads(json.dumps(message.to_json()))

    assert Message.from_json(body) == message
    assert (body["incident"], body["total"]) == (None, 7)
    assert [each["type"] for each in body["incidents"]] == ["incident.opened", "incident.resolved"]


def test_a_test_of_a_channel_is_about_no_incident() -> None:
    message = Message("id-2", Event.TEST, T0, "ops")

    assert Message.from_json(message.to_json()) == message


@pytest.mark.parametrize("payload", [None, [], "text", {}, {"type": "incident.opened"}, {"type": 1, "id": 2, "at": 3}])
def test_another_payload_is_no_message(payload: object) -> None:
    with pytest.raises(ValueError, match="no message"):
        Message.from_json(payload)
