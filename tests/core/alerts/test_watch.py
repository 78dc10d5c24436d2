"""Decisions about an incident, as a table of cases and as laws over whole histories."""

import itertools
from dataclasses import replace
from datetime import datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.alerts.incident import Incident, WrongMove, check_move, incident_id, notification_id
from hourbell.core.alerts.kinds import MOVES, Event, IncidentState
from hourbell.core.alerts.policy import AlertPolicy, Escalation, QuietHours
from hourbell.core.alerts.watch import (
    CALM,
    GROUP_WAIT,
    NOTHING,
    ONE_DAY,
    Decision,
    Move,
    acknowledge,
    mute,
    resolve_by_hand,
    watch,
)
from tests.core.alerts.values import KEY, OPS, opened, some_trouble
from tests.core.schedule.strategies import examples
from tests.core.values import DAY, HOUR, JOB, MINUTE, SECOND, T0

PAGER = replace(OPS, repeat=4 * HOUR, escalate=(Escalation(30 * MINUTE, ("pager",)),))
NIGHT = replace(OPS, quiet_hours=QuietHours(time(8), time(12)))  # T0 is at 09:00


def decide(incident: Incident | None, now: datetime, policy: AlertPolicy = OPS, **more: object) -> Decision:
    return watch(some_trouble(), "default", policy, incident, now, **more)  # type: ignore[arg-type]


def end(incident: Incident, now: datetime, policy: AlertPolicy = OPS) -> Decision:
    return watch(None, "default", policy, incident, now)


def test_every_state_is_in_the_table_and_ends_have_no_moves() -> None:
    assert set(MOVES) == set(IncidentState)
    assert [state for state, following in MOVES.items() if not following] == [IncidentState.RESOLVED]


@pytest.mark.parametrize("start", list(IncidentState))
@pytest.mark.parametrize("to", list(IncidentState))
def test_only_the_moves_of_the_table_are_allowed(start: IncidentState, to: IncidentState) -> None:
    incident = opened(state=start)

    if to in MOVES[start]:
        check_move(incident, to)
    else:
        with pytest.raises(WrongMove, match="already"):
            check_move(incident, to)


def test_nothing_wrong_and_nothing_open_is_nothing_to_do() -> None:
    assert watch(None, "default", OPS, None, T0) is NOTHING
    assert watch(None, "default", OPS, opened(state=IncidentState.RESOLVED), T0) is NOTHING


def test_a_trouble_opens_an_incident_and_is_notified_at_once() -> None:
    decision = decide(None, T0)

    assert (decision.move, decision.event, decision.notify, decision.send_at) == (Move.OPEN, Event.OPENED, ("ops",), T0)
    assert decision.incident is not None
    assert (decision.incident.steps, decision.incident.notified_at, decision.incident.next_at) == (1, T0, None)


def test_the_first_message_about_a_host_waits_for_its_other_jobs() -> None:
    grouped = some_trouble(lane="https://example.com:443")

    decision = watch(grouped, "default", OPS, None, T0)

    assert (decision.move, decision.event) == (Move.OPEN, None)
    assert decision.incident is not None
    assert decision.incident.next_at == T0 + GROUP_WAIT
    later = watch(replace(grouped, group_size=9), "default", OPS, decision.incident, T0 + GROUP_WAIT)
    assert (later.move, later.event) == (Move.NOTIFY, Event.OPENED)
    assert later.incident is not None
    assert later.incident.group_size == 9


def test_a_trouble_that_ends_before_its_first_message_is_never_notified() -> None:
    decision = watch(some_trouble(lane="https://example.com:443"), "default", OPS, None, T0)
    assert decision.incident is not None

    ended = end(decision.incident, T0 + SECOND)

    assert (ended.move, ended.event) == (Move.RESOLVE, None)


def test_an_incident_goes_on_without_another_message() -> None:
    decision = decide(opened(), T0 + DAY)

    assert (decision.move, decision.event) == (Move.KEEP, None)
    assert decision.incident is not None
    assert decision.incident.last_at == T0 + DAY


def test_it_is_repeated_until_it_ends() -> None:
    incident = opened(PAGER, escalated=1)

    early, due = (decide(incident, T0 + wait, PAGER) for wait in (4 * HOUR - SECOND, 4 * HOUR))

    assert (early.event, due.move, due.event) == (None, Move.REPEAT, Event.REPEATED)
    assert due.notify == ("ops", "pager")
    assert due.incident is not None
    assert due.incident.next_at == T0 + 8 * HOUR


def test_it_is_escalated_once_and_its_end_is_notified_to_all() -> None:
    due = decide(opened(PAGER), T0 + 30 * MINUTE, PAGER)

    assert (due.move, due.event, due.notify) == (Move.ESCALATE, Event.ESCALATED, ("pager",))
    assert due.incident is not None
    assert decide(due.incident, T0 + 31 * MINUTE, PAGER).event is None
    assert end(due.incident, T0 + HOUR, PAGER).notify == ("ops", "pager")


@pytest.mark.parametrize("minutes", [30, 240, 600])
def test_acknowledged_it_is_neither_escalated_nor_repeated(minutes: int) -> None:
    incident = acknowledge(opened(PAGER), "ann", T0 + MINUTE)

    assert decide(incident, T0 + minutes * MINUTE, PAGER).event is None
    assert end(incident, T0 + minutes * MINUTE, PAGER).event is Event.RESOLVED


def test_another_error_after_the_acknowledgement_is_another_incident() -> None:
    incident = acknowledge(opened(), "ann", T0 + MINUTE)

    decision = watch(some_trouble(fingerprint="b"), "default", OPS, incident, T0 + HOUR)

    assert (decision.move, decision.event) == (Move.REPLACE, None)
    assert decision.incident is not None
    assert decision.incident.state is IncidentState.RESOLVED


def test_before_that_another_error_is_the_same_incident() -> None:
    decision = watch(some_trouble(fingerprint="b", error="HTTP 500"), "default", OPS, opened(), T0 + HOUR)

    assert decision.move is Move.KEEP
    assert decision.incident is not None
    assert decision.incident.error == "HTTP 500"


def test_muted_it_is_silent_until_that_time() -> None:
    incident = mute(opened(PAGER), T0 + 10 * HOUR)

    assert decide(incident, T0 + 5 * HOUR, PAGER).event is None
    assert decide(incident, T0 + 10 * HOUR, PAGER).event is Event.ESCALATED
    assert end(incident, T0 + 5 * HOUR, PAGER).event is None


def test_in_quiet_hours_the_first_message_waits_for_their_end() -> None:
    decision = decide(None, T0, NIGHT)
    assert decision.incident is not None

    assert (decision.event, decision.incident.next_at) == (None, T0 + 3 * HOUR)
    assert decide(decision.incident, T0 + 3 * HOUR, NIGHT).event is Event.OPENED


def test_an_end_in_quiet_hours_is_notified_after_them() -> None:
    decision = end(opened(), T0 + HOUR, NIGHT)

    assert (decision.event, decision.send_at) == (Event.RESOLVED, T0 + 3 * HOUR)


def test_in_recovery_mode_messages_wait() -> None:
    decision = decide(None, T0, held=True)
    assert decision.incident is not None
    assert decision.incident.next_at is not None

    assert decision.event is None
    assert decide(decision.incident, decision.incident.next_at, held=True).event is None
    assert decide(decision.incident, decision.incident.next_at).event is Event.OPENED


def test_without_resolve_its_end_is_not_notified() -> None:
    assert end(opened(), T0 + HOUR, replace(OPS, resolve=False)).event is None


def test_one_that_came_back_is_notified_once_and_then_once_a_day() -> None:
    incident = opened(opened_before=1)

    assert watch(some_trouble(), "default", OPS, None, T0, opened_before=1).event is Event.FLAPPING
    assert end(incident, T0 + HOUR).move is Move.KEEP
    late = watch(
        some_trouble(since=T0 + 23 * HOUR), "default", OPS, replace(incident, last_at=T0 + 23 * HOUR), T0 + ONE_DAY
    )
    assert late.event is Event.DIGEST


def test_one_that_came_back_is_resolved_when_it_stays_calm() -> None:
    incident = opened(opened_before=1)

    assert end(incident, T0 + CALM).event is Event.RESOLVED


def test_resolved_by_hand_it_says_by_whom() -> None:
    assert resolve_by_hand(opened(), "ann", T0 + HOUR).resolved_by == "ann"


def test_ids_follow_from_what_they_name() -> None:
    assert incident_id(KEY, T0) == incident_id(KEY, T0) != incident_id(KEY, T0 + SECOND)
    first, second = (notification_id(JOB, incident_id(KEY, T0), step) for step in (1, 2))
    assert first == notification_id(JOB, incident_id(KEY, T0), 1) != second


class History:
    """A trouble that comes and goes, watched every few seconds as a watcher does, with the messages that came of it."""

    def __init__(self, policy: AlertPolicy) -> None:
        self.policy = policy
        self.incident: Incident | None = None
        self.results: list[datetime] = []  # openings that were told
        self.sent: list[tuple[datetime, Event, int]] = []

    def see(self, now: datetime, *, is_wrong: bool, since: datetime | None = None) -> None:
        recent = sum(now - at < ONE_DAY for at in self.results)
        trouble = some_trouble(since=since or now) if is_wrong else None
        decision = watch(trouble, "default", self.policy, self.incident, now, opened_before=recent)
        if decision.incident is not None:
            self.incident = decision.incident
        if decision.event is not None:
            assert decision.incident is not None
            self.sent.append((now, decision.event, decision.incident.steps))
            if decision.event in (Event.OPENED, Event.FLAPPING):
                self.results.append(decision.incident.opened_at)


def test_a_job_that_alternates_for_a_day_sends_at_most_three_messages() -> None:
    history = History(replace(OPS, after=1))

    for minute in range(24 * 60):
        history.see(T0 + minute * MINUTE, is_wrong=minute % 2 == 0)

    assert [event for _, event, _ in history.sent] == [Event.OPENED, Event.RESOLVED, Event.FLAPPING]


@examples(200)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 600)), max_size=60), st.sampled_from([OPS, PAGER, NIGHT]))
def test_messages_follow_the_state_whatever_happens(changes: list[tuple[bool, int]], policy: AlertPolicy) -> None:
    history, now = History(policy), T0
    for is_wrong, minutes in changes:
        now += timedelta(minutes=minutes)
        history.see(now, is_wrong=is_wrong)

    events = [event for _, event, _ in history.sent]
    is_open = False
    for (at, event, _), before in zip(history.sent, [None, *events], strict=False):
        del before
        if event in (Event.OPENED, Event.FLAPPING):
            assert not is_open
            is_open = True
        else:
            assert is_open, "nothing is repeated or resolved that was not told"
            is_open = event is not Event.RESOLVED
        assert policy.quiet_hours is None or event is Event.RESOLVED or policy.quiet_hours.until(at) is None
    steps = [step for _, event, step in history.sent]
    assert all(later == earlier + 1 or later == 1 for earlier, later in itertools.pairwise(steps))
