"""Real `hourbell serve` processes on one database, and what is done to them.

Every fault is written down as a `Cut`: the stretch of time in which a process, or every process, could not settle what
it had begun. A delivery may happen twice only if the first one lies in such a stretch.
"""

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from hourbell.clock import elapsed
from tests.faults.process import Server
from tests.faults.receiver import Line, Part, application, read_lines

LEASE, REAP = 3, 1  # seconds; whole ones, as settings are
SETTINGS = {
    "HOURBELL_LEASE": f"{LEASE}s",
    "HOURBELL_REAP_INTERVAL": f"{REAP}s",
    "HOURBELL_POISON_AFTER": "1000",  # out of the way: here it is the campaign that kills, not the run
}
START = 30.0  # seconds until a process serves, on a busy machine


@dataclass(slots=True)
class Cut:
    """A fault. `member` is the process it hit, or None for all of them."""

    kind: str
    member: str | None
    began_at: float
    ended_at: float = inf


@dataclass(frozen=True, slots=True)
class Life:
    """The interval in which a process served, in elapsed seconds."""

    member: str
    serving_at: float
    ended_at: float


@dataclass(slots=True)
class Member:
    """A process of the fleet. Its name is in every line it writes, and is never reused."""

    name: str
    server: Server
    stopped_at: float = inf  # when it was asked to stop

    @property
    def node(self) -> UUID | None:
        """Its node id, or None if it did not live long enough to have one."""
        for event in self.server.events:
            if event["event"] == "engine_started":
                return UUID(event["node"])
        return None

    @property
    def is_running(self) -> bool:
        return self.server.is_running

    @property
    def is_serving(self) -> bool:
        return self.is_running and "serving" in self.server.names

    async def ready(self, seconds: float = START) -> Self:
        """Once it serves."""
        await self.logged("serving", seconds)
        return self

    async def logged(self, event: str, seconds: float = START) -> None:
        """Once its log has this event; other tasks of the campaign go on meanwhile."""
        end = elapsed() + seconds
        while event not in self.server.names:
            assert self.is_running, f"{self.name} ended:\n{self.server.log[-4_000:]}"
            assert elapsed() < end, f"no {event} of {self.name}:\n{self.server.log[-4_000:]}"
            await asyncio.sleep(0.02)

    def logged_at(self, event: str) -> float | None:
        """Return when its log first has this event, in seconds since the epoch."""
        for found in self.server.events:
            if found["event"] == event:
                return datetime.fromisoformat(found["time"]).timestamp()
        return None

    async def stopped(self, seconds: float = 5) -> None:
        """Once SIGSTOP has taken hold of it."""
        stat = Path(f"/proc/{self.server.pid}/stat")
        await until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", seconds, f"{self.name} stopped")

    async def exit_code(self, seconds: float) -> int | None:
        """Its exit code, or None if it has not ended by then."""
        end = elapsed() + seconds
        while self.is_running:
            if elapsed() > end:
                return None
            await asyncio.sleep(0.01)
        return self.server.wait(1)


class Fleet:
    """Processes that run the same application on the same database. Leaving the context ends every one of them."""

    def __init__(self, folder: Path, database_url: str, *parts: Part, **environment: str) -> None:
        self.received = folder / "received"
        self.members: list[Member] = []
        self.cuts: list[Cut] = []
        self._folder = folder
        self._url = database_url
        self._environment = environment
        (folder / "app.py").write_text(application(*parts))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            shown = member.is_running
            member.server.__exit__(kind if shown else None, error if shown else None, trace if shown else None)

    def start(self, database_url: str | None = None, **environment: str) -> Member:
        """Start another process and do not wait for it; with a URL or settings of its own, if given."""
        name = f"node-{len(self.members):03}"
        own = {"DATABASE_URL": database_url or self._url, "RECEIVED": str(self.received), "MEMBER": name}
        own |= {"HOURBELL_CONTACT": name}  # in the User-Agent of its webhooks
        settings = SETTINGS | own | self._environment | environment
        self.members.append(Member(name, Server(self._folder, "--app", "app:scheduler", name=name, **settings)))
        return self.members[-1]

    async def start_all(self, number: int) -> list[Member]:
        """Start so many at once, and wait until all of them serve."""
        started = [self.start() for _ in range(number)]
        for member in started:
            await member.ready()
        return started

    @property
    def running(self) -> list[Member]:
        return [member for member in self.members if member.is_running]

    def kill(self, member: Member) -> Cut:
        """SIGKILL. What it had begun and not settled is lost with it."""
        cut = self.cut("kill", member)
        member.server.signal(signal.SIGKILL)
        member.server.wait(10)
        return cut

    def freeze(self, member: Member) -> Cut:
        """SIGSTOP, until `thaw`."""
        cut = self.cut("freeze", member)
        member.server.signal(signal.SIGSTOP)
        return cut

    def thaw(self, member: Member, cut: Cut) -> None:
        cut.ended_at = elapsed()
        member.server.signal(signal.SIGCONT)

    def stop(self, member: Member) -> None:
        """SIGTERM: an orderly stop, which explains no repeated delivery."""
        member.stopped_at = min(member.stopped_at, elapsed())
        member.server.signal(signal.SIGTERM)

    async def stop_all(self, seconds: float = 20) -> list[int | None]:
        """Stop every process that runs; their exit codes."""
        stopped = self.running
        for member in stopped:
            self.stop(member)
        return [await member.exit_code(seconds) for member in stopped]

    def cut(self, kind: str, member: Member | None = None) -> Cut:
        """Write down a fault that begins now; set its `ended_at` when it is over."""
        self.cuts.append(Cut(kind, member.name if member else None, elapsed()))
        return self.cuts[-1]

    def lines(self, offset: int = 0) -> list[Line]:
        return read_lines(self.received, offset)

    def delivered(self) -> int:
        """Count the runs that have begun, once or more often."""
        if not self.received.exists():
            return 0
        return len({line.split(b" ", 2)[1] for line in self.received.read_bytes().splitlines() if b" " in line})

    @property
    def size(self) -> int:
        """Bytes received so far: an offset for `lines`."""
        return self.received.stat().st_size if self.received.exists() else 0

    def lives(self) -> list[Life]:
        """The time each process served, until its stop or until now; faults are not taken into account."""
        now = elapsed()
        return [
            Life(member.name, serving_at + elapsed_at_epoch(), min(member.stopped_at, now))
            for member in self.members
            if (serving_at := member.logged_at("serving")) is not None
        ]

    def nodes(self) -> dict[UUID, Member]:
        return {node: member for member in self.members if (node := member.node) is not None}


def elapsed_at_epoch() -> float:
    """Return a function from the time of a log line or a row, as seconds since the epoch, to elapsed seconds."""
    return elapsed() - time.time()


async def all_deliver(fleet: Fleet, nodes: int, after: float, seconds: float) -> float:
    """Seconds from that moment until so many nodes have delivered."""

    def found() -> dict[str, float]:
        lines = [line for line in fleet.lines() if line.what == "begun" and line.at > after]
        return {line.member: line.at - after for line in reversed(lines)}

    await until(lambda: len(found()) == nodes, seconds, "a delivery of every node")
    return max(found().values())


async def end_sessions(boss: Any) -> None:
    """End every session of the nodes on the server of this connection."""
    await boss.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where application_name like 'hourbell%' and pid <> pg_backend_pid()"
    )


async def until(holds: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for something that must come to pass."""
    end = elapsed() + seconds
    while not holds():
        assert elapsed() < end, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.02)
