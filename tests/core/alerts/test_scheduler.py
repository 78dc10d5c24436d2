"""Troubles of Hourbell itself."""

from datetime import timedelta
from uuid import UUID

import pytest

from hourbell.core.alerts.scheduler import (
    GONE_AFTER,
    LateRuns,
    NodeFacts,
    RecoverySummary,
    failing_channel,
    recovery,
    silent_nodes,
    silent_planning,
    unserved_lanes,
)
from tests.core.values import HOUR, MINUTE, SECOND, T0

SILENT_AFTER = 90 * SECOND
MINE, OTHER = UUID(int=1), UUID(int=2)


def silent(*nodes: NodeFacts) -> list[str]:
    return [trouble.key for trouble in silent_nodes(nodes, T0, SILENT_AFTER)]


def a_node(node: UUID = OTHER, host: str = "b", beat: float = 0, started: float = 3_600) -> NodeFacts:
    """A node that started, and sent its last heartbeat, this many seconds ago."""
    return NodeFacts(node, host, T0 - started * SECOND, T0 - beat * SECOND)


def test_a_silent_node_is_reported_by_those_alive() -> None:
    mine = a_node(MINE, "a")

    assert silent(mine, a_node(beat=90)) == []
    assert silent(mine, a_node(beat=91)) == [f"node:{OTHER}"]
    assert silent(a_node(MINE, "a", beat=91), a_node(beat=91)) == []
    assert silent(mine, a_node(beat=GONE_AFTER.total_seconds())) == []


def test_a_node_that_was_restarted_is_not_silent() -> None:
    assert silent(a_node(MINE, "b", started=100), a_node(beat=120)) == []
    assert silent(a_node(MINE, "b", started=3_000), a_node(beat=120)) == [f"node:{OTHER}"]


def test_planning_is_silent_when_a_job_is_due_for_a_minute() -> None:
    assert silent_planning(None, T0) is None
    assert silent_planning(T0 - MINUTE, T0) is None
    assert silent_planning(T0 - MINUTE - SECOND, T0) is not None


def test_a_lane_is_unserved_when_its_runs_wait_for_a_minute() -> None:
    lanes = [("task:a", T0 - MINUTE), ("task:b", T0 - MINUTE + SECOND)]

    assert [trouble.lane for trouble in unserved_lanes(lanes, T0)] == ["task:a"]


@pytest.mark.parametrize(
    ("late", "active", "is_on", "is_trouble"),
    [
        (LateRuns(), 5, False, False),
        (LateRuns(), 5, True, False),
        (LateRuns(10, 5, T0), 5, False, False),
        (LateRuns(11, 5, T0), 5, False, True),
        (LateRuns(11, 5, T0), 50, False, True),
        (LateRuns(11, 5, T0), 51, False, False),
        (LateRuns(5_000, 1, T0), 1, False, False),
        (LateRuns(1, 1, T0), 1_000, True, True),
        (LateRuns(900, 499, T0), 100_000, False, False),
        (LateRuns(900, 500, T0), 100_000, False, True),  # no more are counted
    ],
)
def test_many_late_runs_of_a_share_of_all_jobs_are_recovery_mode(
    late: LateRuns, active: int, is_on: bool, is_trouble: bool
) -> None:
    trouble = recovery(late, active, T0 + 2 * HOUR, is_on=is_on)

    assert (trouble is not None) is is_trouble
    assert trouble is None or "the oldest by 2h" in trouble.error


def test_a_channel_fails_after_a_while_or_when_a_message_failed_for_good() -> None:
    since, run = T0 - 20 * SECOND, UUID(int=3)

    assert failing_channel("ops", None, "", None, T0) is None
    assert failing_channel("ops", since, "HTTP 503", None, T0) is None
    assert failing_channel("ops", since, "HTTP 404", run, T0) is not None
    trouble = failing_channel("ops", since, "HTTP 503\nmore", None, T0 + 10 * SECOND)
    assert trouble is not None
    assert trouble.error == "the channel ops cannot deliver: HTTP 503"


@pytest.mark.parametrize(
    ("lasted", "ago", "is_trouble"),
    [(59 * SECOND, SECOND, False), (MINUTE, SECOND, True), (HOUR, 30 * SECOND, True), (HOUR, 31 * SECOND, False)],
)
def test_an_outage_that_has_just_ended_is_recovery_mode(lasted: timedelta, ago: timedelta, is_trouble: bool) -> None:
    trouble = recovery(LateRuns(), 5, T0, is_on=False, outage=(T0 - ago - lasted, T0 - ago))

    assert (trouble is not None) is is_trouble
    assert trouble is None or trouble.error.startswith("the scheduler was down for 1")


def test_the_policies_of_late_jobs_are_in_the_text() -> None:
    late = LateRuns(15, 14, T0, {"latest": 12, "all": 1, "none": 1})
    found = recovery(late, 14, T0 + MINUTE, is_on=False)

    assert found is not None
    assert found.error == (
        "15 runs of 14 jobs are late, the oldest by 1m (12 jobs with a run of the newest missed time only, "
        "1 job with a run of every missed time, 1 job with no run of a missed time)"
    )


def test_the_summary_of_a_recovery_has_counts_duration_and_rate() -> None:
    summary = RecoverySummary(timedelta(seconds=130, microseconds=5), 1_204, 1_180, 24, 96)

    assert str(summary) == (
        "caught up in 2m10s: 1,204 runs ended (9.3 a second), 1,180 succeeded, 24 failed; "
        "96 scheduled times were skipped"
    )
