"""Measurement of lateness: a process schedules its jobs, reports that it is ready, and records the time of every call.

Either one job fires in every second (or minute), or many fire at one instant.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from bench.queues.harness import end

_LEAD, _LEAD_OF_ONE = 6.0, 0.02  # seconds between the start of a process and the instant
_AFTER = 30.0  # seconds that a call at one instant may take
_EARLY = 0.05  # of a period: a call that seems to be so late was early


@dataclass(frozen=True, slots=True)
class Asked:
    """The jobs of a process. With no `at` it is one job per period, else `count` jobs at that time."""

    url: str
    notes: str
    count: int = 1
    at: float | None = None
    period: int = 1


class Noter:
    """The side of the process: a call leaves its moment in a file, with the instant it was for if that is known."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def call(self, instant: float | None = None) -> None:
        at = time.time()
        os.write(self._file, f"{'?' if instant is None else instant} {at}\n".encode())


def read_asked() -> Asked:
    return Asked(**json.loads(sys.argv[1]))


def say_ready() -> None:
    print(json.dumps("ready"), flush=True)


@dataclass(frozen=True, slots=True)
class Timer:
    """A peer: `command` starts it, up to the settings; some see whole minutes only."""

    name: str
    storage: str
    command: tuple[str, ...]
    url: str = ""
    period: int = 1
    environment: tuple[tuple[str, str], ...] = ()

    def each(self, folder: Path, samples: int) -> list[float]:
        """Return the lateness of this many calls, one per period."""
        asked = Asked(self.url, str(folder / f"{token_hex(4)}.notes"), period=self.period)
        with self._process(asked, folder):
            time.sleep(2.0)  # what a start costs is not counted
            after = time.time()
            time.sleep(samples * self.period + 1)
        return latenesses(Path(asked.notes), self.period, after)

    def burst(self, folder: Path, count: int) -> list[float]:
        """Return the lateness of this many calls at one time."""
        at = float(int(time.time() + _LEAD + _LEAD_OF_ONE * count)) + 1
        at += -at % self.period
        asked = Asked(self.url, str(folder / f"{token_hex(4)}.notes"), count, at, self.period)
        with self._process(asked, folder):
            if time.time() > at:
                raise RuntimeError(f"{self.name} was not ready in time for {count:,} jobs")
            wait_for_lines(Path(asked.notes), count, at + _AFTER)
        return sorted(moment - at for _, moment in read_notes(Path(asked.notes)))[:count]

    @contextmanager
    def _process(self, asked: Asked, folder: Path) -> Iterator[None]:
        path = folder / f"{token_hex(4)}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                [*self.command, json.dumps(asdict(asked))],
                env={**os.environ, **dict(self.environment)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError(f"{self.name} did not start:\n{path.read_text(errors='replace')[-2_000:]}")
            yield
        finally:
            end(process)
            process.stdout.close()  # type: ignore[union-attr]


def read_notes(path: Path) -> list[tuple[float | None, float]]:
    if not path.exists():
        return []
    lines = (line.split() for line in path.read_text("utf-8").splitlines())
    return [(None if instant == "?" else float(instant), float(moment)) for instant, moment in lines]


def latenesses(path: Path, period: int, after: float = 0.0) -> list[float]:
    """Return the lateness of calls for times after a moment; if the scheduled time is unknown, it is the last one."""
    found = []
    for instant, moment in read_notes(path):
        late = moment % period if instant is None else moment - instant
        late -= period if instant is None and late > period * (1 - _EARLY) else 0
        if moment - late > after:
            found.append(late)
    return sorted(found)


def wait_for_lines(path: Path, count: int, until: float, is_alive: Callable[[], Any] = lambda: True) -> None:
    """Wait until this many calls were recorded, or the time is over."""
    while len(read_notes(path)) < count and time.time() < until and is_alive():
        time.sleep(0.1)
