"""The start-up cost of the command: CPU time of `hourbell --help` beyond that of the bare interpreter."""

import os
import sys
from collections.abc import Callable

from bench.measure import alternate
from bench.report import Benchmark, Cell, Column, Kind, Report, Table

_BARE = "python -c pass"
_COMMANDS = {
    _BARE: ("-c", "pass"),
    "import click": ("-c", "import click"),
    "import hourbell.core.schedule": ("-c", "import hourbell.core.schedule"),
    "hourbell --help": ("-m", "hourbell", "--help"),
}
_ROUNDS = 25


class CommandError(Exception):
    """A command that was to be measured did not succeed."""


def run() -> Report:
    commands, notes = {}, []
    for name, arguments in _COMMANDS.items():
        try:
            _cpu_seconds(arguments)  # compiles what it imports, so that no round has to
            commands[name] = _sampler(arguments)
        except CommandError as error:
            notes.append(f"{name}: not measured, {error}")
    timings = {name: timing.median for name, timing in alternate(commands, _ROUNDS).items()}
    rows: list[tuple[Cell, ...]] = [(name, timings.get(name), _beyond(timings, name)) for name in _COMMANDS]
    columns = (Column("command"), Column("CPU", Kind.MILLISECONDS), Column("beyond bare", Kind.MILLISECONDS))
    return Report([Table(f"CPU time, user and system, median of {_ROUNDS} rounds", columns, rows)], notes)


def _beyond(timings: dict[str, float], name: str) -> float | None:
    return timings[name] - timings[_BARE] if name in timings and name != _BARE else None


def _sampler(arguments: tuple[str, ...]) -> Callable[[], float]:
    return lambda: _cpu_seconds(arguments)


def _cpu_seconds(arguments: tuple[str, ...]) -> float:
    """CPU time of this interpreter with these arguments, its output thrown away."""
    silence = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    child = os.posix_spawn(sys.executable, [sys.executable, *arguments], os.environ, file_actions=silence)
    _, status, usage = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code:
        raise CommandError(f"it ended with status {code}")
    return usage.ru_utime + usage.ru_stime


BENCHMARK = Benchmark("CPU time of `hourbell --help` beyond the bare interpreter", ("hourbell", "click"), run)
