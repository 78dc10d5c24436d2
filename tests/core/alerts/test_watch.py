"""Decisions about an incident, as a table of cases and as laws over whole histories."""

import itertools
from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.alerts.incident import Incident, WrongMove, check_move, incident_id, notification_id
from hourbell.core.alerts.kinds import MOVES, Event, IncidentKind, IncidentState
from hourbell.core.alerts.policy import AlertPolicy, Escalation, QuietHours
from hourbell.core.alerts.watch import (
    CALM,
    GROUP_WAIT,
    NOBODY,
    NOTHING,
    ONE_DAY,
    Audience,
    Before,
    Decision,
    Move,
    acknowledge,
    after_quiet_hours,
    mute,
    replaced,
    resolve_by_hand,
    watch,
)
from tests.core.alerts.values import KEY, OPS, opened, some_trouble
from tests.core.schedule.strategies import examples
from tests.core.values import DAY, HOUR, JOB, MINUTE, SECOND, T0

PAGER = replace(OPS, repeat=4 * HOUR, escalate=(Escalation(30 * MINUTE, ("pager",)),))
NIGHT = replace(OPS, quiet_hours=QuietHours(time(8), time(12)))  # T0 is at 09:00


EVERYBODY = AlertPolicy()
NOTIFIED = Audience(("ops", "pager"), notified=frozenset({"ops"}))
ALL_NOTIFIED = Audience(("ops", "pager"), notified=frozenset({"ops", "pager"}))


def decide(
    incident: Incident | None, now: datetime, policy: AlertPolicy = OPS, audience: Audience = NOTIFIED, **more: object
) -> Decision:
    return watch(some_trouble(), "default", policy, incident, now, audience=audience, **more)  # type: ignore[arg-type]


def end(incident: Incident, now: datetime, policy: AlertPolicy = OPS, audience: Audience = NOTIFIED) -> Decision:
    return watch(None, "default", policy, incident, now, audience=audience)


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

    assert (decision.move, decision.event, decision.notify) == (Move.OPEN, Event.OPENED, ("ops",))
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

    early, due = (decide(incident, T0 + wait, PAGER, ALL_NOTIFIED) for wait in (4 * HOUR - SECOND, 4 * HOUR))

    assert (early.event, due.move, due.event) == (None, Move.REPEAT, Event.REPEATED)
    assert due.notify == ("ops", "pager")
    assert due.incident is not None
    assert due.incident.next_at == T0 + 8 * HOUR


def test_it_is_escalated_once_and_its_end_is_notified_to_all() -> None:
    due = decide(opened(PAGER), T0 + 30 * MINUTE, PAGER)

    assert (due.move, due.event, due.notify) == (Move.ESCALATE, Event.ESCALATED, ("pager",))
    assert due.incident is not None
    assert decide(due.incident, T0 + 31 * MINUTE, PAGER, ALL_NOTIFIED).event is None
    assert end(due.incident, T0 + HOUR, PAGER, ALL_NOTIFIED).notify == ("ops", "pager")


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

    assert (decision.event, decision.incident.quiet_until) == (None, T0 + 3 * HOUR)
    assert decide(decision.incident, T0 + 3 * HOUR, NIGHT).event is None
    assert after_quiet_hours(decision.incident, NIGHT, T0 + 3 * HOUR, NOTIFIED).event is Event.OPENED


def test_an_end_in_quiet_hours_is_notified_after_them() -> None:
    decision = end(opened(), T0 + HOUR, NIGHT)
    assert decision.incident is not None

    assert (decision.move, decision.event) == (Move.RESOLVE, None)
    assert (decision.incident.state, decision.incident.quiet_until) == (IncidentState.RESOLVED, T0 + 3 * HOUR)
    result = after_quiet_hours(decision.incident, NIGHT, T0 + 3 * HOUR, NOTIFIED)
    assert (result.event, result.notify) == (Event.RESOLVED, ("ops",))
    assert result.incident is not None
    assert result.incident.quiet_until is None


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

    assert watch(some_trouble(), "default", OPS, None, T0, before=Before(1)).event is Event.FLAPPING
    assert end(incident, T0 + HOUR).move is Move.KEEP
    seen = replace(incident, last_at=T0 + 23 * HOUR)
    late = watch(some_trouble(since=T0 + 23 * HOUR), "default", OPS, seen, T0 + ONE_DAY, audience=NOTIFIED)
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
        self.results: list[datetime] = []  # openings that were notified
        self.sent: list[tuple[datetime, Event, int]] = []
        self.notified: frozenset[str] = frozenset()

    def see(self, now: datetime, *, is_wrong: bool, since: datetime | None = None) -> None:
        until = None if self.incident is None else self.incident.quiet_until
        if self.incident is not None and until is not None and until <= now:
            self._take(after_quiet_hours(self.incident, self.policy, now, self.audience), now)
        recent = sum(now - at < ONE_DAY for at in self.results)
        trouble = some_trouble(since=since or now) if is_wrong else None
        before, audience = Before(recent), self.audience
        self._take(watch(trouble, "default", self.policy, self.incident, now, before=before, audience=audience), now)

    @property
    def audience(self) -> Audience:
        return Audience(("ops", "pager"), self.notified)

    def _take(self, decision: Decision, now: datetime) -> None:
        if decision.incident is not None:
            if self.incident is None or decision.incident.id != self.incident.id:
                self.notified = frozenset()
            self.incident = decision.incident
        if decision.event is not None:
            assert decision.incident is not None
            assert decision.notify is not None
            self.notified |= frozenset(decision.notify)
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
            assert is_open, "nothing is repeated or resolved that was not notified"
            is_open = event is not Event.RESOLVED
        assert policy.quiet_hours is None or policy.quiet_hours.until(at) is None
    steps = [step for _, event, step in history.sent]
    assert all(later == earlier + 1 or later == 1 for earlier, later in itertools.pairwise(steps))


def test_a_channel_that_knows_nothing_of_an_open_incident_gets_its_first_message_once() -> None:
    incident = opened(EVERYBODY)

    result = decide(incident, T0 + HOUR, EVERYBODY, NOTIFIED)

    assert (result.move, result.event, result.notify) == (Move.NOTIFY, Event.OPENED, ("pager",))
    assert result.incident is not None
    assert (result.incident.steps, result.incident.notified_at) == (2, T0)
    assert decide(result.incident, T0 + HOUR, EVERYBODY, ALL_NOTIFIED).event is None


@pytest.mark.parametrize(
    "incident",
    [acknowledge(opened(), "ann", T0), mute(opened(), T0 + DAY), opened(notified_at=None, next_at=T0 + 2 * HOUR)],
    ids=["acknowledged", "muted", "not announced yet"],
)
def test_another_channel_learns_of_it_only_if_people_would(incident: Incident) -> None:
    assert decide(incident, T0 + HOUR, EVERYBODY, NOTIFIED).event is None


def test_the_end_goes_to_those_who_know_of_the_incident_whatever_the_policy_says_now() -> None:
    moved = replace(OPS, notify=("pager",))

    assert end(opened(), T0 + HOUR, moved).notify == ("ops",)
    assert end(opened(), T0 + HOUR, OPS, Audience(("ops",))).event is None


@pytest.mark.parametrize(
    ("by", "people"),
    [
        (lambda incident, machine: end(mute(incident, T0 + DAY), T0 + HOUR, OPS, machine), False),
        (lambda incident, machine: end(incident, T0 + HOUR, NIGHT, machine), False),
        (lambda incident, machine: replaced(incident, T0 + HOUR, machine), False),
        (lambda incident, machine: end(incident, T0 + HOUR, OPS, machine), True),
    ],
    ids=["muted", "quiet hours", "replaced", "otherwise"],
)
def test_a_receiver_with_a_state_of_its_own_always_learns_of_the_end(by: Any, people: bool) -> None:
    machine = Audience(("ops", "pager"), frozenset({"ops", "pager"}), stateful=frozenset({"pager"}))

    decision = by(opened(), machine)

    assert decision.event is Event.RESOLVED
    assert decision.notify == (("ops", "pager") if people else ("pager",))


def test_a_mute_that_runs_out_is_followed_by_one_message_if_the_trouble_goes_on() -> None:
    muted = mute(opened(), T0 + HOUR)

    again = decide(muted, T0 + HOUR)

    assert (again.move, again.event) == (Move.REPEAT, Event.REPEATED)
    assert again.incident is not None
    assert again.incident.next_at is None
    assert decide(mute(acknowledge(opened(), "ann", T0), T0 + HOUR), T0 + HOUR).event is None


def test_an_incident_resolved_by_hand_opens_again_with_the_next_failure_and_is_not_flapping() -> None:
    before = Before(openings=0, closed_at=T0 + HOUR)

    same = watch(some_trouble(since=T0), "default", OPS, None, T0 + 2 * HOUR, before=before)
    failed = some_trouble(since=T0, news_at=T0 + 2 * HOUR)
    again = watch(failed, "default", OPS, None, T0 + 2 * HOUR, before=before)

    assert same is NOTHING
    assert (again.move, again.event) == (Move.OPEN, Event.OPENED)


def test_people_have_the_time_of_a_step_to_acknowledge_after_the_first_message() -> None:
    night = replace(PAGER, quiet_hours=QuietHours(time(8), time(12)))
    held = decide(None, T0, night)
    assert held.incident is not None
    first = after_quiet_hours(held.incident, night, T0 + 3 * HOUR, NOBODY)
    assert first.incident is not None

    assert (first.event, first.incident.announced_at) == (Event.OPENED, T0 + 3 * HOUR)
    assert decide(first.incident, T0 + 3 * HOUR + 29 * MINUTE, night).event is None
    assert decide(first.incident, T0 + 3 * HOUR + 30 * MINUTE, night).event is Event.ESCALATED


def test_a_silent_scheduler_is_notified_in_quiet_hours_too() -> None:
    silent = some_trouble(kind=IncidentKind.SCHEDULER_SILENT)

    assert watch(silent, "default", NIGHT, None, T0).event is Event.OPENED


def test_a_trouble_that_is_over_before_quiet_hours_end_is_never_notified() -> None:
    held = decide(None, T0, NIGHT).incident
    assert held is not None

    ended = end(held, T0 + HOUR, NIGHT, NOBODY)

    assert (ended.move, ended.event) == (Move.RESOLVE, None)
    assert ended.incident is not None
    assert ended.incident.quiet_until is None


def test_a_policy_without_quiet_hours_ends_the_wait() -> None:
    held = decide(None, T0, NIGHT).incident
    assert held is not None

    released = decide(held, T0 + HOUR).incident
    later = decide(held, T0 + HOUR, replace(NIGHT, quiet_hours=QuietHours(time(8), time(14)))).incident

    assert released is not None
    assert later is not None
    assert (released.quiet_until, later.quiet_until) == (T0 + HOUR, T0 + 5 * HOUR)


def test_repeats_that_fall_into_quiet_hours_come_at_their_end() -> None:
    policy = replace(NIGHT, repeat=4 * HOUR, quiet_hours=QuietHours(time(12), time(15)))
    due = decide(opened(policy), T0 + 4 * HOUR, policy)
    assert due.incident is not None

    assert (due.event, due.incident.quiet_until) == (None, T0 + 6 * HOUR)
    again = after_quiet_hours(due.incident, policy, T0 + 6 * HOUR, NOTIFIED)
    assert (again.event, again.notify) == (Event.REPEATED, ("ops",))


@pytest.mark.parametrize("minutes", [1, 7, 60, 61, 180, 300, 360, 361, 400, 719, 720, 721, 1439])
def test_a_job_that_alternates_in_any_period_sends_at_most_three_messages_a_day(minutes: int) -> None:
    history = History(replace(OPS, after=1))

    for minute in range(24 * 60):
        history.see(T0 + minute * MINUTE, is_wrong=minute // minutes % 2 == 0)

    assert len(history.sent) <= 3, history.sent
