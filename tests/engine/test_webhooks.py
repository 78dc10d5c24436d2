"""Webhooks under virtual time: the default retry plan, dead letters, 410, and at most once."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from hourbell.core.run.policies import Delivery, RetryPolicy
from hourbell.store.control.actor import Actor
from hourbell.targets.http.target import HttpTarget
from hourbell.targets.http.transport import Request, Response, TransportError
from tests.engine.nodes import BY, HOUR, MINUTE, Cluster, Node, virtually
from tests.engine.virtual import START
from tests.targets.http.steps import ScriptedTransport, answer

ONCE = f"at {START + MINUTE:%Y-%m-%dT%H:%M:%S}"
TARGET = {"type": "http", "url": "https://example.com/hook"}
DEFAULT_PLAN = [0, 30, 150, 750]
_PATIENT = RetryPolicy(100, (10 * MINUTE, 30 * MINUTE))


class TimedTransport(ScriptedTransport):
    """A scripted transport that notes when each request began."""

    def __init__(self, cluster: Cluster, *script: Response | Exception) -> None:
        super().__init__(*script)
        self._cluster = cluster
        self.at: list[datetime] = []

    async def send(self, request: Request, begin: Callable[[], Awaitable[bool]]) -> Response:
        async def began() -> bool:
            self.at.append(self._cluster.now())
            return await begin()

        return await super().send(request, began)

    @property
    def seconds(self) -> list[float]:
        return [round((at - self.at[0]).total_seconds(), 1) for at in self.at]

    def said(self, name: str) -> list[str]:
        return [request.headers[name] for request in self.requests]


async def start(cluster: Cluster, transport: ScriptedTransport) -> Node:
    target = HttpTarget(transport, keys=None, user_agent="x", slots=100, elapsed=cluster.time.elapsed)
    return await cluster.start([target])


async def the_run(cluster: Cluster) -> dict[str, Any]:
    [run] = await cluster.database.rows("runs")
    return run


@virtually
async def test_the_default_plan_ends_as_a_dead_letter_that_is_replayed_with_success(cluster: Cluster) -> None:
    transport = TimedTransport(cluster, *[answer(500)] * 4, answer(200))
    await cluster.add_job(schedule=ONCE, target=TARGET, payload={"n": 1})
    await start(cluster, transport)
    await cluster.advance(HOUR)

    assert transport.seconds == DEFAULT_PLAN
    run = await the_run(cluster)
    assert (run["state"], run["reason"], run["failures"]) == ("failed", "exhausted", 4)
    errors = [row["error"] for row in await cluster.database.rows("attempts", "number")]
    assert (run["cleared_at"], errors[-1]) == (None, "HTTP 500 Internal Server Error")

    replay = await cluster.control.replay_run(run["id"], UUID(int=9), Actor(BY, cluster.now()))
    await cluster.advance(MINUTE)
    assert [row["state"] for row in await cluster.database.rows("runs") if row["id"] == replay.id] == ["succeeded"]
    assert set(transport.said("webhook-id")[:4]) == {str(run["id"])}
    assert transport.said("webhook-id")[4] == str(replay.id)


@virtually
async def test_every_attempt_says_the_same_but_for_its_number_and_its_time(cluster: Cluster) -> None:
    transport = TimedTransport(cluster, answer(503))
    await cluster.add_job(schedule=ONCE, target=TARGET, payload={"n": 1})
    await start(cluster, transport)
    await cluster.advance(HOUR)

    assert len({request.body for request in transport.requests}) == 1
    assert transport.said("hourbell-attempt") == ["1", "2", "3", "4"]
    assert len(set(transport.said("webhook-timestamp"))) == 4


@virtually
async def test_a_crash_between_two_attempts_changes_nothing_of_the_plan(cluster: Cluster) -> None:
    transport = TimedTransport(cluster, answer(500))
    await cluster.add_job(schedule=ONCE, target=TARGET)
    node = await start(cluster, transport)
    await cluster.advance(MINUTE + MINUTE / 2 + MINUTE / 4)  # after the second attempt
    node.crash()
    await cluster.advance(MINUTE)
    await start(cluster, transport)
    await cluster.advance(HOUR)

    assert transport.seconds == DEFAULT_PLAN
    assert (await the_run(cluster))["reason"] == "exhausted"


@virtually
async def test_410_fails_the_run_and_pauses_the_job_with_a_note(cluster: Cluster) -> None:
    transport = TimedTransport(cluster, answer(410))
    await cluster.add_job(target=TARGET)  # every minute
    await start(cluster, transport)
    await cluster.advance(HOUR)

    assert len(transport.requests) == 1
    [job] = await cluster.database.rows("jobs")
    assert not job["enabled"]
    assert "410 Gone" in job["paused_note"]
    assert (await the_run(cluster))["reason"] == "permanent"


@virtually
async def test_retry_after_moves_the_next_attempt(cluster: Cluster) -> None:
    transport = TimedTransport(cluster, answer(429, Retry_After="300"), answer(200))
    await cluster.add_job(schedule=ONCE, target=TARGET)
    await start(cluster, transport)
    await cluster.advance(HOUR)

    assert transport.seconds == [0, 300]


@pytest.mark.parametrize(
    ("error", "requests", "state"),
    [
        (TransportError("refused", begun=False), 2, "succeeded"),
        (TransportError("no answer within 30 s", begun=True), 1, "failed"),
    ],
)
def test_at_most_once_tries_again_only_what_cannot_have_happened(
    error: TransportError, requests: int, state: str
) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        transport = TimedTransport(cluster, error, answer(200))
        await cluster.add_job(schedule=ONCE, target=TARGET, delivery=Delivery.AT_MOST_ONCE)
        await start(cluster, transport)
        await cluster.advance(HOUR)

        assert (len(transport.requests), (await the_run(cluster))["state"]) == (requests, state)

    test()


@virtually
async def test_a_receiver_that_was_down_for_hours_gets_everything_afterwards(cluster: Cluster) -> None:
    class Down(TimedTransport):
        async def send(self, request: Request, begin: Callable[[], Awaitable[bool]]) -> Response:
            if cluster.now() < START + 2 * HOUR:
                self.at.append(cluster.now())
                raise TransportError("refused", begun=False)
            return await super().send(request, begin)

    transport = Down(cluster)
    target = TARGET | {"timeout": "5s"}
    await cluster.add_job(schedule="*/10 * * * *", target=target, retry=_PATIENT)
    await start(cluster, transport)
    await cluster.advance(3 * HOUR + MINUTE)

    runs = await cluster.database.rows("runs")
    assert {run["state"] for run in runs} == {"succeeded"}
    assert len(set(transport.said("webhook-id"))) == len(runs) >= 18
