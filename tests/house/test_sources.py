"""Rules of the house that no other tool checks."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hourbell

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
# `Schedule.warnings()` without an argument is for people at a prompt.
# The supervisor of a command is a process of its own that imports nothing of Hourbell.
MAY_READ_A_CLOCK = {
    "clock.py", "core/schedule/schedule.py", "receiver/signature.py", "targets/command/supervisor.py",
}  # fmt: skip
CLOCKS = {"now", "today", "utcnow", "time", "time_ns", "monotonic", "perf_counter"}
HEAVY = ["hourbell.core", "tzdata", "asyncio", "dataclasses", "email", "hashlib", "json", "rich", "zoneinfo"]


def clock_readings(source: Path) -> list[int]:
    """Lines that call `datetime.now()` and its like."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CLOCKS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in ("datetime", "date", "time")
    ]


def test_only_the_clock_reads_a_clock() -> None:
    readers = {str(path.relative_to(ROOT / "src/hourbell")) for path in SOURCES if clock_readings(path)}

    assert readers == MAY_READ_A_CLOCK


def test_every_exported_name_is_there() -> None:
    assert [name for name in hourbell.__all__ if not hasattr(hourbell, name)] == []


@pytest.mark.parametrize("module", HEAVY)
def test_help_does_not_load(module: str) -> None:
    code = (
        "import sys; sys.argv = ['hourbell', '--help']\n"
        "from hourbell.cli.main import main\n"
        "try: main()\n"
        f"finally: assert {module!r} not in sys.modules, 'loaded'"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_lock_files_carry_hashes_and_no_addresses() -> None:
    for lock in (ROOT / "requirements").glob("*.txt"):
        text = lock.read_text()
        pins = [line for line in text.splitlines() if "==" in line and not line.startswith((" ", "#"))]

        assert pins
        assert all(line.endswith("\\") for line in pins), lock
        assert "://" not in text, lock
        assert "--find-links" not in text, lock
