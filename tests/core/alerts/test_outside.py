"""Notifications of a watcher outside: no node is ready, and one is again."""

from datetime import UTC, datetime, timedelta

import pytest

from hourbell.core.alerts.kinds import Event
from hourbell.core.alerts.outside import Notified, Silence, due_event, outside_message
from hourbell.core.alerts.text import describe

T0 = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SILENCE = Silence(T0, "http://a:8080: connection refused")
NOTIFIED = Notified(SILENCE, T0 + MINUTE)


@pytest.mark.parametrize(
    ("silence", "notified", "at", "event"),
    [
        (None, None, T0, None),
        (SILENCE, None, T0 + MINUTE / 2, None),
        (SILENCE, None, T0 + MINUTE, Event.OPENED),
        (SILENCE, NOTIFIED, T0 + 2 * MINUTE, None),
        (SILENCE, NOTIFIED, T0 + 61 * MINUTE, Event.REPEATED),
        (None, NOTIFIED, T0 + 2 * MINUTE, Event.RESOLVED),
    ],
)
def test_a_silence_is_notified_once_repeated_and_ended(
    silence: Silence | None, notified: Notified | None, at: datetime, event: Event | None
) -> None:
    assert due_event(silence, notified, at, after=MINUTE, repeat=60 * MINUTE) == event


def test_without_repeat_a_silence_is_notified_once() -> None:
    assert due_event(SILENCE, NOTIFIED, T0 + timedelta(days=9), after=MINUTE, repeat=None) is None


def test_a_message_that_is_tried_again_keeps_its_id_and_each_step_has_its_own() -> None:
    first = outside_message(Event.OPENED, SILENCE, None, "ops", T0 + MINUTE)
    again = outside_message(Event.OPENED, Silence(T0, "now it times out"), None, "ops", T0 + 2 * MINUTE)
    end = outside_message(Event.RESOLVED, None, NOTIFIED, "ops", T0 + 3 * MINUTE)

    assert first.id == again.id != end.id
    assert first.incident is not None
    assert end.incident is not None
    assert first.incident.id == end.incident.id


def test_the_text_says_what_was_seen_and_offers_no_command_that_needs_a_node() -> None:
    text = describe(outside_message(Event.OPENED, SILENCE, None, "ops", T0 + MINUTE))

    assert text.title == "No node of Hourbell is ready"
    assert ("Error", "http://a:8080: connection refused") in text.fields
    assert text.commands == ()


def test_a_notification_survives_as_json() -> None:
    assert Notified.from_json(NOTIFIED.to_json()) == NOTIFIED


@pytest.mark.parametrize("value", [{}, {"since": "x", "at": "y"}, {"since": None, "at": None}])
def test_other_json_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Notified.from_json(value)
