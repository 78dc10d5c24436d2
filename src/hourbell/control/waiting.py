"""What a run waits for, in words: its time, a node that could run it, or a free place."""

from collections.abc import Iterable
from datetime import datetime

from hourbell.core.preview import rfc3339
from hourbell.core.states import WAITING
from hourbell.store.lists import NodeView, RunView
from hourbell.store.records import serves


def is_served(lane: str, nodes: Iterable[NodeView]) -> bool:
    """Whether one of the nodes could run what is in a lane."""
    return any(serves(node.lanes, lane) for node in nodes)


def nobody_serves(lane: str) -> str:
    """That no node could, as people call it."""
    kind, _, task = lane.partition(":")
    return f"no node has the task {task}" if kind == "task" else f"no live node serves the lane {lane}"


def waits_for(run: RunView, now: datetime, nodes: Iterable[NodeView]) -> str | None:
    """Why a run has not begun; None if it does not wait."""
    if run.state not in WAITING:
        return None
    if run.ready_at > now:
        return f"its time, {rfc3339(run.ready_at)}"
    if not is_served(run.lane, nodes):
        return f"{nobody_serves(run.lane)}; it waits until one does, at the longest until {rfc3339(run.expires_at)}"
    return "a free place, or the end of the run before it"
