"""Runs with and without a mutant, and what they prove.

A mutant is caught by a test only if the test fails with it and the same run passes without it. A run that breaks in
another way (it cannot be collected, its set-up fails, it takes too long) proves nothing.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tests.mutants.mutants import SIMULATION, Change, Mutant

SEEDS = 2_000
TIMEOUT_SECONDS = 1_800


class Status(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    BROKEN = "broken"  # neither: no test gave an answer


@dataclass(frozen=True)
class Outcome:
    status: Status
    detail: str = ""  # the test or seed that failed, or why there is no answer
    seed: int | None = None  # the seed that breaks a promise


@dataclass(frozen=True)
class Finished:
    """A process that ended by itself."""

    returncode: int
    stdout: str
    stderr: str = ""


@dataclass(frozen=True)
class Verdict:
    mutant: str
    test: str
    is_caught: bool
    reason: str
    seconds: float = 0.0


def read_pytest(done: Finished | None) -> Outcome:
    """Tell a failed test from a run that gave no answer; None is a run that was ended after the timeout."""
    if done is None:
        return Outcome(Status.BROKEN, "timed out")
    if done.returncode == 0:
        return Outcome(Status.PASSED)
    _, _, end = done.stdout.rpartition("short test summary info")  # before it, log lines begin with ERROR, too
    summary = [line for line in end.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    errors = [line for line in summary if line.startswith("ERROR ")]
    if done.returncode != 1 or errors or not summary:
        return Outcome(Status.BROKEN, (errors or [f"exit code {done.returncode}"])[0])
    return Outcome(Status.FAILED, summary[0].removeprefix("FAILED ").partition(" - ")[0])


def read_simulation(done: Finished | None) -> Outcome:
    """Find the seed that broke a promise; a simulation that stopped with an error gave no answer."""
    if done is None:
        return Outcome(Status.BROKEN, "timed out")
    if done.returncode == 0 and "violations 0" in done.stdout:
        return Outcome(Status.PASSED)
    found = re.search(r"^seed (\d+) breaks a promise$", done.stdout, re.MULTILINE)
    if done.returncode != 1 or found is None:
        return Outcome(Status.BROKEN, f"exit code {done.returncode}")
    return Outcome(Status.FAILED, f"seed {found[1]}", seed=int(found[1]))


def judge(with_mutant: Outcome, without: Outcome | None) -> tuple[bool, str]:
    """Decide whether the mutant is caught, and say why. `without` is None if that run was not needed."""
    match with_mutant.status, without and without.status:
        case Status.FAILED, Status.PASSED:
            return True, with_mutant.detail
        case Status.FAILED, Status.FAILED | Status.BROKEN:
            assert without is not None
            return False, f"{with_mutant.detail}; without the mutant it {without.status}, too: {without.detail}"
        case Status.PASSED, _:
            return False, "passes with the mutant"
        case _:
            return False, f"no answer: {with_mutant.detail}"


@dataclass
class Workshop:
    """A scratch copy of the repository in which mutants are tried, one at a time."""

    copy: Path
    _unchanged: dict[tuple[str, int], Outcome] = field(default_factory=dict)

    def try_mutant(self, mutant: Mutant) -> Iterator[Verdict]:
        """Run each test that is expected to notice, with the mutant and, if it fails, without."""
        for test in mutant.tests:
            started = time.monotonic()
            with applied(self.copy, mutant.changes):
                with_mutant = self._run(test, SEEDS)
            without = None
            if with_mutant.status is Status.FAILED:
                without = self._run_unchanged(test, SEEDS if with_mutant.seed is None else with_mutant.seed + 1)
            is_caught, reason = judge(with_mutant, without)
            yield Verdict(mutant.name, test, is_caught, reason, time.monotonic() - started)

    def _run_unchanged(self, test: str, seeds: int) -> Outcome:
        if (test, seeds) not in self._unchanged:
            self._unchanged[test, seeds] = self._run(test, seeds)
        return self._unchanged[test, seeds]

    def _run(self, test: str, seeds: int) -> Outcome:
        """Run one test, or the seeds from 0 on until one breaks a promise."""
        if test == SIMULATION:
            return read_simulation(self._start("tests.simulation", "--brief", "--seeds", str(seeds)))
        return read_pytest(self._start("pytest", "-q", "-x", "-rfE", "-p", "no:cacheprovider", test))

    def _start(self, module: str, *arguments: str) -> Finished | None:
        """Run a module of the copy to its end; None if it had to be ended after the timeout."""
        path = f"{self.copy / 'src'}{os.pathsep}{self.copy}"
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=self.copy,
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            stdout, stderr = process.communicate(timeout=TIMEOUT_SECONDS)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # with the servers that a scenario has started
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                return None
            raise
        return Finished(process.returncode, stdout, stderr)


@contextmanager
def applied(copy: Path, changes: Sequence[Change]) -> Iterator[None]:
    """The copy with the changes of a mutant."""
    originals = {copy / change.path: (copy / change.path).read_text() for change in changes}
    try:
        for change in changes:
            path = copy / change.path
            text = path.read_text()
            if text.count(change.old) != 1:
                raise SystemExit(f"{change.path} has {text.count(change.old)} of {change.old!r}, not one")
            path.write_text(text.replace(change.old, change.new))
        yield
    finally:
        for path, text in originals.items():
            path.write_text(text)


def table(verdicts: Sequence[Verdict]) -> str:
    """Report each mutant and test on one line."""
    rows = [
        (each.mutant, _short(each.test), "caught" if each.is_caught else "MISSED", f"{each.seconds:.0f} s", each.reason)
        for each in verdicts
    ]
    header = ("taken out", "test", "", "took", "how")
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(4)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in [header, *rows]
    )


def _short(test: str) -> str:
    """The file or scenario without its folders."""
    return test.rpartition("/")[2].replace("test_every_promise_holds_under", "")
