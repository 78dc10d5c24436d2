"""Mutate one place of the code at a time, and list the mutants that the tests of the file do not notice.

python -m tests.mutants.sweep --only core/run/settle.py          # the mutants of the files whose path contains this
python -m tests.mutants.sweep --only engine/ --list          # show them, run nothing
python -m tests.mutants.sweep --only core/run/plan.py --at 'return old'  # those in lines that contain this

A mutant that survives for a good reason is in `survivors.toml`, by file, line and change, with the reason. Exit code 1
if another one survives, or if the list names one that is caught or that is not there any more.

A mutant whose tests do not end counts as caught, but is shown as endless. What ends it is the time on the processor, so
that a busy machine does not make a slow mutant an endless one.
"""

import argparse
import importlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NoReturn

import pytest

from tests.mutants.mutations import Mutation, mutations_of
from tests.server import remove_server, reserve_folder, server_url

ROOT = Path(__file__).parents[2]
SOURCE = "src/hourbell"
LIST = Path(__file__).with_name("survivors.toml")
COPIED = ("src", "tests", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "pyproject.toml")
LOADED = ("apsw", "asyncpg", "hypothesis", "prometheus_client", "structlog", "uvloop")  # once, for all mutants
_LEAST_CPU_SECONDS = 10
_LEAST_TIMEOUT_SECONDS = 60.0  # for a mutant that waits without end
# The quick tests that concern each file. Those of other files may notice more, but not within seconds.
_CONTRACT = "tests/contract"
_VERBS = (
    f"{_CONTRACT}/test_claiming.py",
    f"{_CONTRACT}/test_settling.py",
    f"{_CONTRACT}/test_reaping.py",
    f"{_CONTRACT}/test_nodes.py",
    f"{_CONTRACT}/test_retention.py",
    f"{_CONTRACT}/test_last_success.py",
    f"{_CONTRACT}/test_tzdata.py",
    f"{_CONTRACT}/test_secrets.py",
    f"{_CONTRACT}/test_cancelling.py",
    f"{_CONTRACT}/test_auditing.py",
    f"{_CONTRACT}/test_plain_sql.py",
    f"{_CONTRACT}/test_plain_sql_changes.py",
    f"{_CONTRACT}/test_planning.py",
)
TESTS: dict[str, tuple[str, ...]] = {
    "core/run/plan.py": ("tests/core/test_plan.py", "tests/core/test_plan_laws.py", "tests/core/test_scenarios.py"),
    "core/run/settle.py": ("tests/core/test_settle.py", "tests/core/test_scenarios.py"),
    "core/run/states.py": ("tests/core/test_states.py",),
    "core/run/policies.py": ("tests/core/test_policies.py", "tests/core/test_settle.py", "tests/core/test_plan.py"),
    "core/job/change.py": ("tests/core/test_change.py",),
    "core/run/refresh.py": ("tests/core/test_refresh.py",),
    "core/run/run.py": ("tests/core/test_run_identity.py", "tests/core/test_run_times.py", "tests/core/test_plan.py"),
    "engine/attempts.py": (
        "tests/engine/test_held_attempts.py",
        "tests/engine/test_attempts.py",
        "tests/engine/test_shutdown.py",
    ),
    "engine/heartbeat.py": ("tests/engine/test_heartbeat.py", "tests/engine/test_outage.py"),
    "engine/janitor.py": ("tests/engine/test_janitor.py",),
    "engine/lanes.py": ("tests/engine/test_known_lanes.py",),
    "engine/leases.py": ("tests/engine/test_leases.py",),
    "engine/loop.py": ("tests/engine/test_loop.py",),
    "engine/planner.py": (
        "tests/engine/test_planner.py",
        "tests/engine/test_planning_passes.py",
        "tests/engine/test_on_time.py",
    ),
    "engine/reaper.py": ("tests/engine/test_reaper.py",),
    "engine/runner.py": ("tests/engine/test_runner.py", "tests/engine/test_attempts.py", "tests/engine/test_shares.py"),
    "engine/settler.py": ("tests/engine/test_settler.py", "tests/engine/test_outage.py"),
    "engine/time.py": ("tests/engine/test_time.py",),
    "store/sqlite/claiming.py": (f"{_CONTRACT}/test_claiming.py",),
    "store/sqlite/planning.py": (
        f"{_CONTRACT}/test_planning.py",
        f"{_CONTRACT}/test_planning_errors.py",
        f"{_CONTRACT}/test_tzdata.py",
        f"{_CONTRACT}/test_plain_sql.py",
        f"{_CONTRACT}/test_plain_sql_changes.py",
        f"{_CONTRACT}/test_changes.py",
        f"{_CONTRACT}/test_sqlite_planning_ahead.py",
    ),
    "store/sqlite/planning_ahead.py": (
        f"{_CONTRACT}/test_planning_errors.py",
        f"{_CONTRACT}/test_planning.py",
        f"{_CONTRACT}/test_plain_sql_changes.py",
        f"{_CONTRACT}/test_sqlite_planning_ahead.py",
    ),
    "store/sqlite/settling.py": (
        f"{_CONTRACT}/test_settling.py",
        f"{_CONTRACT}/test_reaping.py",
        f"{_CONTRACT}/test_cancelling.py",
    ),
    "store/postgres/planning.py": (
        f"{_CONTRACT}/test_planning.py",
        f"{_CONTRACT}/test_planning_errors.py",
        f"{_CONTRACT}/test_tzdata.py",
        f"{_CONTRACT}/test_plain_sql.py",
        f"{_CONTRACT}/test_plain_sql_changes.py",
        f"{_CONTRACT}/test_changes.py",
    ),
    "store/postgres/settling.py": (f"{_CONTRACT}/test_settling.py",),
    "store/sqlite/engine.sql": (*_VERBS, f"{_CONTRACT}/test_sqlite_planning_ahead.py"),
    "store/postgres/engine.sql": _VERBS,
}


class Ending(Enum):
    PASSED = "passed"
    FAILED = "failed"
    ENDLESS = "endless"


@dataclass(frozen=True)
class Survivor:
    """A mutant of the list. It is found by the text of its line, so that lines may move."""

    file: str
    line: str
    change: str
    reason: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.file, self.line, self.change


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.sweep", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", default="", help="the files whose path contains this")
    parser.add_argument("--at", default="", help="the lines that contain this")
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    given = parser.parse_args()
    files = [file for file in TESTS if given.only in file]
    if given.list:
        for file in files:
            for mutation in _wanted(file, given.at):
                print(f"{file}:{mutation.number}: {mutation.line}  [{mutation.change}]")
        return 0
    for module in LOADED:
        with suppress(ImportError):
            importlib.import_module(module)
    known = {survivor.key: survivor for survivor in survivors()}
    is_whole = not given.at
    with tempfile.TemporaryDirectory(prefix="hourbell-sweep-") as folder, _server_for(files):
        copy = _copy(Path(folder))
        results = [_sweep(copy, file, _wanted(file, given.at), known, is_whole=is_whole) for file in files]
    return 0 if all(results) else 1


def survivors() -> list[Survivor]:
    return [Survivor(**entry) for entry in tomllib.loads(LIST.read_text()).get("survivor", [])]


def unknown_survivors(entries: Iterable[Survivor]) -> list[tuple[str, str, str]]:
    """Entries of the list that stand for no mutant of today's code."""
    entries = list(entries)
    there = {
        (file, mutation.line, mutation.change)
        for file in {entry.file for entry in entries}
        for mutation in mutations_of(file, _text(file))
    }
    return [entry.key for entry in entries if entry.key not in there]


def _wanted(file: str, at: str) -> list[Mutation]:
    return [mutation for mutation in mutations_of(file, _text(file)) if at in mutation.line]


def _text(file: str) -> str:
    return (ROOT / SOURCE / file).read_text("utf-8")


def _sweep(
    copy: Path,
    file: str,
    mutations: Sequence[Mutation],
    known: dict[tuple[str, str, str], Survivor],
    *,
    is_whole: bool,
) -> bool:
    """Try every mutant of a file. Whether those that survive are exactly those of the list."""
    tests = [test for test in TESTS[file] if (copy / test).exists()]
    databases = _databases_of(file)
    started = time.monotonic()
    sys.dont_write_bytecode = False  # what is compiled now is compiled for all mutants
    ending, cpu_seconds = _run(copy, tests, databases, cpu_seconds=1_800, timeout=1_800)
    sys.dont_write_bytecode = True
    if ending is not Ending.PASSED:
        print(f"{file}: its tests do not pass as they are; fix that first")
        return False
    max_cpu_seconds = max(_LEAST_CPU_SECONDS, int(4 * cpu_seconds))
    timeout = max(_LEAST_TIMEOUT_SECONDS, 6 * (time.monotonic() - started))
    path = copy / SOURCE / file
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
        compiled.unlink()
    original = path.read_text("utf-8")
    alive: Counter[tuple[str, str, str]] = Counter()
    for mutation in mutations:
        path.write_text(mutation.applied_to(original), "utf-8")
        try:
            ending, _ = _run(copy, tests, databases, cpu_seconds=max_cpu_seconds, timeout=timeout)
        finally:
            path.write_text(original, "utf-8")
        if ending is Ending.FAILED:
            continue
        label, key = "endless", (file, mutation.line, mutation.change)
        if ending is Ending.PASSED:
            alive[key] += 1
            label = "known" if key in known else "SURVIVED"
        print(f"    {label} {file}:{mutation.number}: {mutation.line}  [{mutation.change}]", flush=True)
    new = sum(count for key, count in alive.items() if key not in known)
    caught = [key for key in known if key[0] == file and key not in alive] if is_whole else []
    for _, line, change in caught:
        print(f"    on the list, but caught or gone: {line}  [{change}]")
    seconds = time.monotonic() - started
    print(f"{file}: {len(mutations)} mutants, {alive.total()} survive, {new} of them new, {seconds:.0f} s", flush=True)
    return not new and not caught


@contextmanager
def _server_for(files: Iterable[str]) -> Iterator[None]:
    """Start one PostgreSQL server for all mutants, if any of the files needs one."""
    if "TEST_DATABASE_URL" in os.environ or not any(file.startswith("store/postgres/") for file in files):
        yield
        return
    reserve_folder()
    os.environ["TEST_DATABASE_URL"] = server_url()
    try:
        yield
    finally:
        remove_server()


def _databases_of(file: str) -> str:
    """Choose the tests on the file's own database, in the words of pytest; SQLite in memory is the same code."""
    match file.split("/"):
        case ["store", "sqlite", _]:
            return "not postgres and not [sqlite"
        case ["store", "postgres", _]:
            return "postgres"
    return ""


def _run(copy: Path, tests: Sequence[str], databases: str, *, cpu_seconds: int, timeout: float) -> tuple[Ending, float]:
    """Run the tests in a fork of this process, which has loaded pytest and what else takes long.

    Returns the seconds that the run took on the processor, too.
    """
    child = os.fork()
    if child == 0:
        _run_tests(copy, tests, databases, cpu_seconds=cpu_seconds)
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            ending = Ending.PASSED if code == 0 else Ending.ENDLESS if code == -signal.SIGXCPU else Ending.FAILED
            return ending, usage.ru_utime + usage.ru_stime
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return Ending.ENDLESS, timeout


def _run_tests(copy: Path, tests: Sequence[str], databases: str, *, cpu_seconds: int) -> NoReturn:
    code = 70
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
        os.chdir(copy)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        for name in [name for name in sys.modules if name.partition(".")[0] in ("hourbell", "tests")]:
            del sys.modules[name]
        sys.path[:0] = [str(copy / "src"), str(copy)]
        os.environ |= {"PYTHONPATH": os.pathsep.join(sys.path[:2]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        code = int(pytest.main(["-q", "-x", "-p", "anyio", "-p", "no:cacheprovider", "-k", databases, *tests]))
    finally:
        os._exit(code)


def _copy(folder: Path) -> Path:
    for name in _present(COPIED):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def _present(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if (ROOT / name).exists())


if __name__ == "__main__":
    sys.exit(main())
