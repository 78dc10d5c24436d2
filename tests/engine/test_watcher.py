"""Watchers under virtual time: whatever dies between fact and message, every channel gets each message, once."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid5

import pytest

from hourbell.core.alerts.channel import ParsedChannel
from hourbell.core.alerts.message import Message
from hourbell.core.alerts.policy import parse_policy
from hourbell.core.run.settle import Failed, Outcome, Succeeded
from hourbell.store.alerts.verbs import AlertVerbs
from hourbell.store.control.actor import Actor
from hourbell.store.sqlite.session import SqliteSessions
from hourbell.targets.base import Call
from tests.engine.nodes import BY, DAY, HOUR, MINUTE, SECOND, Cluster, Node, virtually


class Alerted:
    """A cluster whose nodes deliver messages to a log, and its channels and policies."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.people = AlertVerbs(SqliteSessions(cluster.database.runner()))
        self.received: list[Message] = []
        self.is_broken: Callable[[], bool] = lambda: True
        cluster.has_alerts = True
        cluster.lanes = ("task:*", "channel:*")
        cluster.script["*"] = self._behave
        self.before_message: Callable[[Node], Awaitable[None]] | None = None

    async def _behave(self, node: Node, call: Call) -> Outcome:
        if not call.run.lane.startswith("channel:"):
            return Failed("HTTP 503", retryable=False) if self.is_broken() else Succeeded()
        if self.before_message is not None:
            await self.before_message(node)
        self.received.append(Message.from_json(call.payload))
        return Succeeded()

    async def add_channel(self, name: str = "ops") -> None:
        parsed = ParsedChannel("webhook", {"type": "webhook"}, {}, None)
        job_id = uuid5(UUID(int=5), name)
        await self.people.put_channel(name, parsed, job_id, lambda _: [], Actor(BY, self.cluster.now()))

    async def put_policy(self, name: str = "default", **body: Any) -> None:
        await self.people.put_policy(name, parse_policy(body), Actor(BY, self.cluster.now()))

    @property
    def events(self) -> list[str]:
        return [str(message.event).removeprefix("incident.") for message in self.received]


@virtually
async def test_two_failures_in_a_row_are_notified_within_seconds_and_their_end_too(cluster: Cluster) -> None:
    alerted = Alerted(cluster)
    await alerted.add_channel()
    await cluster.start()
    await cluster.add_job()
    await cluster.advance(MINUTE + 10 * SECOND)
    assert alerted.events == []
    await cluster.advance(MINUTE)
    assert alerted.events == ["opened"]

    alerted.is_broken = lambda: False
    await cluster.advance(2 * MINUTE)
    assert alerted.events == ["opened", "resolved"]
    await cluster.advance(HOUR)
    assert alerted.events == ["opened", "resolved"]


@virtually
async def test_three_nodes_send_each_message_once(cluster: Cluster) -> None:
    alerted = Alerted(cluster)
    for name in ("ops", "mail"):
        await alerted.add_channel(name)
    await cluster.start_many(3)
    for number in range(5):
        await cluster.add_job(f"job-{number}")
    await cluster.advance(3 * MINUTE)
    alerted.is_broken = lambda: False
    await cluster.advance(3 * MINUTE)

    counts = Counter(message.id for message in alerted.received)
    assert len(counts) == 5 * 2 * 2
    assert set(counts.values()) == {1}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", ["watch_jobs", "settle"])
@virtually
async def test_a_node_that_dies_between_fact_and_message_loses_none(cluster: Cluster, verb: str, when: str) -> None:
    alerted = Alerted(cluster)
    await alerted.add_channel()
    node, *_ = await cluster.start_many(2)
    await cluster.add_job()
    await cluster.advance(MINUTE + 10 * SECOND)

    died: list[int] = []

    async def die() -> None:
        if not died:
            died.append(node.number)
            node.crash()
            await cluster.advance(0)

    hook = node.store if verb == "settle" else node.alerts
    hook.hooks[when, verb] = die
    await cluster.advance(5 * MINUTE)

    failed = [each for each in alerted.received if each.incident is not None and each.incident.kind == "failed"]
    assert [str(each.event) for each in failed] == ["incident.opened"]


@virtually
async def test_a_message_that_a_dying_node_had_sent_is_repeated_under_its_id(cluster: Cluster) -> None:
    alerted = Alerted(cluster)
    await alerted.add_channel()
    dying = await cluster.start()
    ids: list[UUID] = []

    async def behave(node: Node, call: Call) -> Outcome:
        if not call.run.lane.startswith("channel:"):
            return Failed("HTTP 503", retryable=False)
        ids.append(call.run.id)
        if node is dying:
            node.crash()
            await cluster.advance(0)
        return Succeeded()

    cluster.script["*"] = behave
    await cluster.add_job()
    await cluster.advance(2 * MINUTE + 10 * SECOND)
    await cluster.start()
    await cluster.advance(5 * MINUTE)

    assert len(ids) >= 2
    assert len(set(ids[:2])) == 1


@pytest.mark.full
@virtually
async def test_a_job_that_alternates_for_a_day_sends_at_most_three_messages(cluster: Cluster) -> None:
    alerted = Alerted(cluster)
    await alerted.add_channel()
    await alerted.put_policy(after=1)
    alerted.is_broken = lambda: cluster.now().minute // 10 % 2 == 0
    await cluster.start()
    await cluster.add_job(schedule="*/10 * * * *")
    await cluster.advance(DAY)

    assert alerted.events == ["opened", "resolved", "flapping"]


@virtually
async def test_a_channel_that_is_created_later_learns_of_what_is_open_once(cluster: Cluster) -> None:
    alerted = Alerted(cluster)
    await cluster.start_many(3)
    await cluster.add_job()
    await cluster.advance(3 * MINUTE)
    assert alerted.events == []

    await alerted.add_channel()
    await cluster.advance(10 * SECOND)
    assert alerted.events == ["opened"]
    await alerted.add_channel("mail")
    await cluster.advance(2 * MINUTE)
    assert [(message.channel, str(message.event)) for message in alerted.received] == [
        ("ops", "incident.opened"),
        ("mail", "incident.opened"),
    ]
    alerted.is_broken = lambda: False
    await cluster.advance(2 * MINUTE)
    assert sorted(alerted.events) == ["opened", "opened", "resolved", "resolved"]


@pytest.mark.parametrize("when", [None, "before", "after"])
@virtually
async def test_quiet_hours_end_with_one_message_whoever_dies(cluster: Cluster, when: str | None) -> None:
    alerted = Alerted(cluster)
    await alerted.add_channel()
    end = cluster.now().replace(second=0, microsecond=0) + 10 * MINUTE
    quiet = {"from": f"{end - HOUR:%H:%M}", "until": f"{end:%H:%M}", "timezone": "UTC"}
    await alerted.put_policy(quiet_hours=quiet)
    nodes = await cluster.start_many(3)
    for number in range(4):
        await cluster.add_job(f"job-{number}")

    async def die() -> None:
        if not nodes[0].is_dead:
            nodes[0].crash()
            await cluster.advance(0)

    if when is not None:
        nodes[0].alerts.hooks[when, "end_quiet_hours"] = die
    await cluster.advance(end - cluster.now() - SECOND)
    assert alerted.events == []
    await cluster.advance(5 * SECOND)

    [digest] = alerted.received
    assert (str(digest.event), digest.total) == ("incidents.digest", 4)


@virtually
async def test_a_killed_node_is_reported_by_another_and_a_restart_is_not(cluster: Cluster) -> None:
    alerted = Alerted(cluster)
    await alerted.add_channel()
    alerted.is_broken = lambda: False
    first, second = await cluster.start_many(2)
    await cluster.advance(5 * MINUTE)
    await first.stop()
    await cluster.advance(5 * MINUTE)
    assert alerted.events == []

    await cluster.start()
    await cluster.advance(2 * MINUTE)
    second.crash()
    await cluster.advance(2 * MINUTE)
    [message] = alerted.received
    assert message.incident is not None
    assert message.incident.kind == "scheduler_silent"


@pytest.mark.parametrize("rounds", [1, pytest.param(36, marks=pytest.mark.full)])
@virtually
async def test_restarts_and_deploys_raise_no_alarm(cluster: Cluster, rounds: int) -> None:
    alerted = Alerted(cluster)
    await alerted.add_channel()
    alerted.is_broken = lambda: False
    nodes = await cluster.start_many(3)
    for number in range(3):
        await cluster.add_job(f"job-{number}")
    for _ in range(rounds):
        await cluster.advance(6 * MINUTE)
        for number, node in enumerate(nodes):
            await node.stop()
            await cluster.advance(5 * SECOND)
            nodes[number] = await cluster.start()
            await cluster.advance(MINUTE)

    assert alerted.events == []


@virtually
async def test_after_an_outage_one_incident_speaks_for_all_late_jobs(cluster: Cluster) -> None:
    alerted = Alerted(cluster)
    await alerted.add_channel()
    alerted.is_broken = lambda: False
    cluster.lane_slots = {"task:shared": 1}
    for number in range(20):
        await cluster.add_job(f"job-{number:02}", lane="shared", catch_up="latest", late_after=MINUTE)
    cluster.script["*"] = slow_then(alerted)
    await cluster.start()
    await cluster.advance(25 * MINUTE)

    kinds = [str(message.incident.kind) for message in alerted.received if message.incident]
    assert kinds[0] == "recovery"
    assert set(kinds) == {"recovery"}


def slow_then(alerted: Alerted) -> Any:
    """Runs take so long that twenty jobs in one slot are late; messages go out."""

    async def behave(node: Node, call: Call) -> Outcome:
        if call.run.lane.startswith("channel:"):
            alerted.received.append(Message.from_json(call.payload))
            return Succeeded()
        await node.cluster.advance(30 * SECOND)
        return Succeeded()

    return behave
