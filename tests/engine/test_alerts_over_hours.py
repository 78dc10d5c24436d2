"""Alerts over hours and days of virtual time: no false alarm, few messages, an outage of a day as one thing."""

import logging
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hourbell.core.alerts.kinds import Event, IncidentKind
from hourbell.core.run.policies import RETRY_PRESETS, CatchUp
from hourbell.core.run.settle import Failed, Outcome, Succeeded
from hourbell.targets.base import Call
from tests.engine.nodes import DAY, HOUR, MINUTE, SECOND, Cluster, Node, virtually
from tests.engine.test_watcher import Alerted

ONCE = RETRY_PRESETS["none"]
BERLIN = "Europe/Berlin"
CHANGES = {  # of the clocks in Berlin, in UTC
    "spring": datetime(2040, 3, 25, 1, tzinfo=UTC),
    "autumn": datetime(2040, 10, 28, 1, tzinfo=UTC),
}
STRICT = {
    "on": ["failed", "missed", "late", "no_success", "slow", "losing_runs", "paused_too_long", "unserved"],
    "after": 1,
    "no_success_for": "65m",
    "slow_after": "1m",
    "losing_share": 0.5,
    "paused_for": "30m",
}


async def well(alerted: Alerted, lasting: timedelta = 20 * SECOND) -> None:
    """Let every run succeed after a while, so that nodes stop in the middle of some."""

    async def behave(node: Node, call: Call) -> Outcome:
        if not call.run.lane.startswith("channel:"):
            await node.cluster.advance(lasting)
        return await deliver(node, call)

    alerted.is_broken = lambda: False
    deliver = alerted.cluster.script["*"]
    alerted.cluster.script["*"] = behave


async def roll(cluster: Cluster, nodes: list[Node]) -> None:
    """Replace each node, new ones first."""
    for number, node in enumerate(nodes):
        nodes[number] = await cluster.start()
        await cluster.advance(5 * SECOND)
        await node.stop()


async def restart(cluster: Cluster, nodes: list[Node]) -> None:
    """Stop all nodes, and start them again after half a minute."""
    for node in nodes:
        await node.stop()
    await cluster.advance(30 * SECOND)
    nodes[:] = await cluster.start_many(len(nodes))


async def kill(cluster: Cluster, nodes: list[Node]) -> None:
    """Kill a node, which its supervisor starts again."""
    nodes[0].crash()
    await cluster.advance(10 * SECOND)
    nodes[0] = await cluster.start()


async def outlast(cluster: Cluster, nodes: list[Node]) -> None:
    """Lose the database for less than a minute."""
    del nodes
    with cluster.outage():
        await cluster.advance(40 * SECOND)


@pytest.mark.parametrize(
    ("change", "rounds"), [("spring", 1), *(pytest.param(each, 9, marks=pytest.mark.full) for each in CHANGES)]
)
@virtually
async def test_restarts_deploys_and_a_change_of_the_clocks_raise_no_alarm(
    cluster: Cluster, change: str, rounds: int
) -> None:
    """Nine rounds last six hours."""
    lasts = rounds * 40 * MINUTE
    await cluster.advance_to(CHANGES[change] - lasts / 2)
    alerted = Alerted(cluster)
    await alerted.add_channel()
    await alerted.put_policy(**STRICT)
    await alerted.put_policy("nightly", **STRICT | {"no_success_for": "26h"})
    await well(alerted)
    nodes = await cluster.start_many(3)
    for number in range(3):
        await cluster.add_job(f"minutely-{number}", late_after=2 * MINUTE)
    await cluster.add_job("hourly", "0 * * * *", timezone=BERLIN, late_after=2 * MINUTE)
    await cluster.add_job("half-past", "30 * * * *", timezone=BERLIN, late_after=2 * MINUTE)
    await cluster.add_job("nightly", "30 2 * * *", timezone=BERLIN, alert_policy="nightly")
    for _ in range(rounds):
        for disturb in (roll, restart, kill, outlast):
            await disturb(cluster, nodes)
            await cluster.advance(9 * MINUTE)

    assert [(str(each.event), each.incident and each.incident.error) for each in alerted.received] == []
    assert cluster.now() > CHANGES[change]
    assert len(cluster.calls) > rounds * 30 * 3


@pytest.mark.full
@virtually
async def test_a_thousand_jobs_of_a_dead_host_are_one_message_and_one_recovery(cluster: Cluster) -> None:
    """They fail one after the other, and are well again one after the other."""
    jobs = 1_000
    alerted = Alerted(cluster)
    await alerted.add_channel()
    cluster.lanes = ("task:*", "channel:*", "https:*")
    target = {"type": "http", "url": "https://dead.example/hook"}
    for number in range(jobs):
        await cluster.add_job(f"job-{number:04}", f"{number % 60} * * * * *", target=target, retry=ONCE)
    await cluster.start_many(2)
    await cluster.advance(6 * MINUTE)
    [opened] = alerted.received
    assert opened.incident is not None
    assert (opened.event, opened.incident.kind, opened.job) == (Event.OPENED, IncidentKind.FAILED, None)

    alerted.is_broken = lambda: False
    await cluster.advance(6 * MINUTE)
    [_, resolved] = alerted.received
    assert resolved.incident is not None
    assert (resolved.event, resolved.incident.group_size) == (Event.RESOLVED, jobs)


@virtually
async def test_jobs_of_a_host_that_fail_at_one_time_are_counted_in_the_first_message(cluster: Cluster) -> None:
    alerted = Alerted(cluster)
    await alerted.add_channel()
    cluster.lanes = ("task:*", "channel:*", "https:*")
    for number in range(300):
        await cluster.add_job(f"job-{number:04}", target={"type": "http", "url": f"https://dead.example/{number}"})
    await cluster.start()
    await cluster.advance(2 * MINUTE + 30 * SECOND)

    [opened] = alerted.received
    assert opened.incident is not None
    assert (opened.incident.group_size, len(opened.incident.jobs)) == (300, 10)

    alerted.is_broken = lambda: False
    await cluster.advance(MINUTE)
    assert alerted.events == ["opened", "resolved"]


@pytest.mark.full
@virtually
async def test_a_job_that_fails_every_other_minute_sends_at_most_three_messages_a_day(cluster: Cluster) -> None:
    alerted = Alerted(cluster)
    await alerted.add_channel()
    await alerted.put_policy(after=1)
    count = iter(range(10**9))
    alerted.is_broken = lambda: next(count) % 2 == 0
    await cluster.start()
    await cluster.add_job()
    await cluster.advance(DAY)

    assert alerted.events == ["opened", "resolved", "flapping"]


class _Log:
    """The log lines of the nodes, by event."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._records = caplog.records

    def facts(self, event: str) -> list[dict[str, Any]]:
        return [vars(record) for record in self._records if record.getMessage() == event]


POLICIES = (CatchUp.ALL, CatchUp.LATEST, CatchUp.EARLIEST, CatchUp.NONE)


def test_an_outage_of_a_day_is_one_incident_with_a_summary(caplog: pytest.LogCaptureFixture) -> None:
    """A day away, of jobs with every policy; the backlog takes minutes, and some of its runs fail."""
    caplog.set_level(logging.INFO, "hourbell")
    virtually(outage_of_a_day)(log=_Log(caplog))


async def outage_of_a_day(cluster: Cluster, log: _Log) -> None:
    alerted = Alerted(cluster)
    await alerted.add_channel()
    cluster.lane_slots = {"task:shared": 4}
    cluster.script["*"] = slow_and_sometimes_failing(alerted)
    for number in range(40):
        policy = POLICIES[number % len(POLICIES)]
        await cluster.add_job(f"job-{number:02}", "*/10 * * * *", lane="shared", catch_up=policy, retry=ONCE)
    node = await cluster.start()
    await cluster.advance(15 * MINUTE)
    node.crash()
    went_at = cluster.now()
    await cluster.advance(DAY)
    came_at, before = cluster.now(), Counter(await cluster.states())
    returned = await cluster.start()
    await cluster.advance(10 * SECOND)
    assert returned.metrics.recovery_mode._value.get() == 1
    await cluster.advance(HOUR)
    assert returned.metrics.recovery_mode._value.get() == 0

    [opened, resolved] = [each for each in alerted.received if each.incident and each.incident.kind == "recovery"]
    assert opened.incident is not None
    assert resolved.incident is not None
    assert (opened.event, resolved.event) == (Event.OPENED, Event.RESOLVED)
    assert opened.at - came_at <= 20 * SECOND
    for text in (
        "the scheduler was down for 1d",
        " late, the oldest by 23h",
        "10 jobs with a run of every missed time",
    ):
        assert text in opened.incident.error
    [outage] = log.facts("outage_recorded")
    assert abs(outage["seconds"] - (came_at - went_at).total_seconds()) <= 15
    [entered] = log.facts("recovery_mode_entered")
    assert entered["late_runs"] > 10
    very_late = log.facts("run_very_late")
    assert {"job", "run", "scheduled_at", "started_at", "late_minutes", "late_hours"} <= set(very_late[0])
    assert {each["reason"] for each in very_late} == {"recovery from downtime"}
    assert max(each["late_hours"] for each in very_late) > 23

    [summary] = log.facts("recovery_finished")
    made_up = [row for row in await cluster.runs() if row["lane"] == "task:shared" and row["finished_at"] >= came_at]
    ended = Counter(row["state"] for row in made_up if row["finished_at"] <= resolved.at)
    skipped = sum(row["count"] for row in await cluster.rows("skips") if row["last_at"] >= went_at)
    assert before.keys() <= {"succeeded", "failed"}
    counts = {"succeeded": ended["succeeded"], "failed": ended["failed"], "skipped": skipped}
    assert {name: summary[name] for name in counts} == counts
    assert summary["ended"] == ended.total() > 1_000
    assert abs(summary["runs_per_second"] - ended.total() / (summary["duration_ms"] / 1_000)) < 0.01
    for text in (
        f"{counts['succeeded']:,} succeeded, {counts['failed']:,} failed",
        f"{skipped:,} scheduled times were",
    ):
        assert text in resolved.incident.error
    of = {name: returned.metrics.recovered.labels(name)._value.get() for name in counts}
    assert of == counts
    failed_alone = [each for each in alerted.received if each.incident and each.incident.kind != "recovery"]
    assert [each for each in failed_alone if each.at < resolved.at] == []


def slow_and_sometimes_failing(alerted: Alerted) -> Any:
    deliver = alerted.cluster.script["*"]
    count = iter(range(10**9))

    async def behave(node: Node, call: Call) -> Outcome:
        if call.run.lane.startswith("channel:"):
            return await deliver(node, call)
        await node.cluster.advance(SECOND)
        return Failed("HTTP 500", retryable=False) if next(count) % 20 == 0 else Succeeded()

    return behave
