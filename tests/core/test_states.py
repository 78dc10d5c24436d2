"""The table of moves: every state has a row, final states have no moves, and no run leaves one."""

import pytest

from hourbell.core.run.states import ENDS, MOVES, UNFINISHED, WAITING, Reason, RunState, SkipReason

PENDING, RUNNING, RETRYING = RunState.PENDING, RunState.RUNNING, RunState.RETRYING
SUCCEEDED, FAILED, CANCELLED = RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED


def reachable(state: RunState) -> set[RunState]:
    """Every state a run may still come to."""
    found: set[RunState] = set()
    ahead = {state}
    while ahead:
        ahead = {after for each in ahead for after in MOVES[each]} - found
        found |= ahead
    return found


def test_every_state_has_its_row() -> None:
    assert set(MOVES) == set(RunState)


@pytest.mark.parametrize(
    ("state", "following"),
    [
        (PENDING, {RUNNING, FAILED, CANCELLED}),
        (RUNNING, {PENDING, RETRYING, SUCCEEDED, FAILED, CANCELLED}),
        (RETRYING, {RUNNING, FAILED, CANCELLED}),
        (SUCCEEDED, set()),
        (FAILED, set()),
        (CANCELLED, set()),
    ],
    ids=lambda value: str(value) if isinstance(value, RunState) else "",
)
def test_the_moves_are_those_of_the_design(state: RunState, following: set[RunState]) -> None:
    assert MOVES[state] == following


def test_every_state_waits_or_runs_or_is_an_end() -> None:
    assert {PENDING, RETRYING} == WAITING
    assert WAITING | {RUNNING} == UNFINISHED
    assert set(RunState) - UNFINISHED == ENDS


@pytest.mark.parametrize("state", sorted(UNFINISHED))
def test_an_unfinished_run_can_come_to_every_end(state: RunState) -> None:
    assert reachable(state) >= ENDS


@pytest.mark.parametrize("state", sorted(ENDS))
def test_an_end_is_an_end(state: RunState) -> None:
    assert reachable(state) == set()


def test_no_state_moves_to_itself() -> None:
    assert all(state not in following for state, following in MOVES.items())


def test_reasons_are_written_as_the_design_names_them() -> None:
    assert set(Reason) == {"permanent", "exhausted", "expired", "poison", "lost"}
    assert set(SkipReason) == {"missed", "overlap", "paused", "edited", "window", "tzdata"}
