"""A monitor outside hears from one node in each interval, while one works, and of a failure only if none does."""

from datetime import datetime, timedelta

import pytest

from hourbell.engine.outside_ping import OutsidePing
from hourbell.store.errors import StoreUnavailable
from tests.core.values import T0

pytestmark = pytest.mark.anyio
MINUTE = timedelta(minutes=1)


class Monitor:
    """The monitor, the turns that nodes share, and the time."""

    def __init__(self) -> None:
        self.now = T0
        self.pings: list[str] = []
        self.turns: dict[str, datetime] = {}
        self.error: str | None = None
        self.is_database_away = False

    async def take_turn(self, name: str, now: datetime, before: datetime) -> bool:
        if self.is_database_away:
            raise StoreUnavailable("away")
        if name in self.turns and self.turns[name] > before:
            return False
        self.turns[name] = now
        return True

    async def last_turn(self, name: str) -> datetime | None:
        return self.turns.get(name)

    async def send(self, url: str, text: str) -> str | None:
        self.pings.append(f"{url.removeprefix('https://monitor')} {text}".strip())
        return self.error

    def node(self, *problems: str) -> "MonitoredNode":
        return MonitoredNode(self, list(problems))


class MonitoredNode:
    def __init__(self, monitor: Monitor, problems: list[str]) -> None:
        self.problems = problems
        self.error: Exception | None = None
        self.ping = OutsidePing(
            "https://monitor/x",
            monitor,
            interval=MINUTE,
            now=lambda: monitor.now,
            problems=self._problems,
            send=monitor.send,
        )

    async def _problems(self) -> list[str]:
        if self.error is not None:
            raise self.error
        return self.problems


async def look(monitor: Monitor, minutes: int, *nodes: MonitoredNode) -> None:
    for _ in range(minutes):
        for node in nodes:
            await node.ping.look()
        monitor.now += MINUTE


async def test_one_of_several_nodes_pings_in_each_interval() -> None:
    monitor = Monitor()
    await look(monitor, 3, monitor.node(), monitor.node())

    assert monitor.pings == ["/x/start", "/x", "/x", "/x"]


async def test_a_node_that_does_not_work_is_silent_while_another_one_works() -> None:
    monitor = Monitor()
    await look(monitor, 10, monitor.node("the planner is stuck"), monitor.node())

    assert {ping for ping in monitor.pings if "fail" in ping} == set()
    assert monitor.pings.count("/x") == 10


async def test_without_a_working_node_the_monitor_gets_the_reasons() -> None:
    monitor = Monitor()
    node = monitor.node()
    await look(monitor, 1, node)
    node.problems = ["the planner is stuck", "the database is read-only"]
    await look(monitor, 4, node)

    assert monitor.pings[-1] == "/x/fail the planner is stuck; the database is read-only"
    assert monitor.pings.count("/x") == 1


async def test_without_the_database_nothing_is_sent_and_pings_go_on_later() -> None:
    monitor = Monitor()
    node = monitor.node()
    monitor.is_database_away = True
    await look(monitor, 2, node)
    monitor.is_database_away = False
    await look(monitor, 1, node)

    assert monitor.pings == ["/x"]


async def test_a_monitor_that_is_away_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "hourbell.engine")
    monitor = Monitor()
    node = monitor.node()
    monitor.error = "connection refused"
    await look(monitor, 3, node)
    monitor.error = None
    await look(monitor, 2, node)

    assert caplog.messages == ["outside_ping_failed", "outside_ping_recovered"]


async def test_an_unexpected_error_is_logged_and_pings_go_on(caplog: pytest.LogCaptureFixture) -> None:
    monitor = Monitor()
    node = monitor.node()
    node.error = RuntimeError("a bug")
    await look(monitor, 2, node)
    node.error = None
    await look(monitor, 1, node)

    assert caplog.messages == ["outside_ping_failed"]
    assert monitor.pings == ["/x/start", "/x"]
