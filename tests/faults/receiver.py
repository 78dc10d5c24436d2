"""The effect of a run in the campaign: lines in a file that only grows and is synced line by line.

`Load` says what the application of every node does. The file is written by many processes at once and read by nobody
but the campaign, so it shows what really happened, independent of the database.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple, Protocol
from uuid import UUID

RETRY = {"attempts": 20, "backoff": [0]}  # out of the way: what fails for good here is a fault of ours

_APP = """
import asyncio, os, time
from hourbell import Scheduler
from hourbell.clock import elapsed

scheduler = Scheduler()
received = os.open(os.environ["RECEIVED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
member = os.environ["MEMBER"]

def note(what, run):
    facts = (what, run.id, run.job_id, run.scheduled_at.isoformat(), run.attempt, run.job_version, member, elapsed())
    os.write(received, (" ".join(map(str, facts)) + "\\n").encode())
    os.fdatasync(received)

async def receive(run, seconds):
    note("begun", run)
    await asyncio.sleep(seconds)
    note("ended", run)

async def work(run, seconds):
    note("begun", run)
    time.sleep(0.005)
    await asyncio.sleep(seconds)
    note("ended", run)

async def block(run, seconds):
    note("begun", run)
    if run.attempt == 1:
        time.sleep(seconds)
    note("ended", run)

"""


@dataclass(frozen=True, slots=True)
class Load:
    """The application of every node: the number of jobs, when they fire, and how long a delivery lasts.

    `options` go to `Scheduler.job`. A delivery may `receive` and wait; `work`, which keeps the event loop for 5 ms at
    its beginning, so that of many claims some wait for their turn; or `block` the loop all the time the first time.
    """

    jobs: int = 100
    schedule: str = "* * * * * *"
    seconds: float = 0.1
    options: Mapping[str, object] = field(default_factory=dict)
    prefix: str = "job"
    way: Literal["receive", "work", "block"] = "receive"

    @property
    def source(self) -> str:
        options = {"catch_up": "all", "retry": RETRY, "args": {"seconds": self.seconds}, **self.options}
        return (
            f"for number in range({self.jobs}):\n"
            f"    scheduler.job({self.schedule!r}, name=f'{self.prefix}-{{number:03}}', **{options!r})({self.way})\n"
        )


class Part(Protocol):
    """A part of the application, as source text that uses its `scheduler`."""

    @property
    def source(self) -> str: ...


def application(*parts: Part) -> str:
    """The text of the module `app` with its `scheduler`."""
    return _APP + "".join(part.source for part in parts)


class Line(NamedTuple):
    """The record of a delivery. `at` is in elapsed seconds of this machine, the same for every process."""

    what: Literal["begun", "ended"]
    run_id: UUID
    job_id: UUID
    scheduled_at: datetime
    attempt: int
    version: int
    member: str
    at: float

    @property
    def key(self) -> tuple[UUID, int]:
        return self.run_id, self.attempt


def read_lines(received: Path, offset: int = 0) -> list[Line]:
    """Every whole line from this byte on. A process that is killed while it writes leaves a piece of one, behind which
    the next goes on."""
    if not received.exists():
        return []
    with received.open("rb") as file:
        file.seek(offset)
        text = file.read().decode()
    return [_line(row[_last_start(row) :]) for row in text.rpartition("\n")[0].splitlines()]


def _last_start(row: str) -> int:
    return max(row.rfind("begun "), row.rfind("ended "), 0)


def _line(text: str) -> Line:
    what, run_id, job_id, scheduled_at, attempt, version, member, at = text.split()
    assert what in ("begun", "ended")
    when = datetime.fromisoformat(scheduled_at)
    return Line(what, UUID(run_id), UUID(job_id), when, int(attempt), int(version), member, float(at))  # type: ignore[arg-type]
