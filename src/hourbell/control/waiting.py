"""Reasons why a run waits: its time, a node that serves its lane, another run of its job, or a free slot."""

from collections.abc import Iterable
from datetime import datetime

from hourbell.core.run.settle import SUSPECT_AFTER
from hourbell.core.run.states import WAITING, RunState
from hourbell.core.schedule.preview import rfc3339
from hourbell.store.engine.records import serves
from hourbell.store.lists.query import NodeView, RunView


def is_served(lane: str, nodes: Iterable[NodeView]) -> bool:
    """Return True if one of the nodes serves the lane."""
    return any(serves(node.lanes, lane) for node in nodes)


def nobody_serves(lane: str) -> str:
    """Return a message that no node serves the lane, with the task name for a task lane."""
    kind, _, task = lane.partition(":")
    return f"no node has the task {task}" if kind == "task" else f"no live node serves the lane {lane}"


def waits_for(run: RunView, now: datetime, nodes: Iterable[NodeView]) -> str | None:
    """Explain why a run has not started, given the live nodes; None if it does not wait."""
    if run.state not in WAITING:
        return None
    if run.ready_at > now:
        what = "its next attempt" if run.state is RunState.RETRYING else "its time"
        return f"{what}, {_second(run.ready_at)}"
    if not is_served(run.lane, nodes):
        return f"{nobody_serves(run.lane)}; it waits until one does, at the longest until {_second(run.expires_at)}"
    if run.blocked_by is not None:
        return f"run {run.blocked_by} of the same job to end"
    if run.crashes >= SUSPECT_AFTER:
        return f"its turn alone: {run.crashes} nodes died while they ran it"
    return f"a free slot in the lane {run.lane}"


def _second(instant: datetime) -> str:
    return rfc3339(instant.replace(microsecond=0))
