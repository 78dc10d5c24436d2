"""Two hundred seeds keep every promise, and a seed always has the same history."""

import os
import subprocess
import sys

import pytest

SEEDS, PARTS = 200, 8


def simulation(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, because the order of sets of names depends on how it was started."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_promise_is_kept(part: int) -> None:
    each = SEEDS // PARTS
    done = simulation("--first", str(part * each), "--seeds", str(each), "--processes", "1")

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"seeds {each}, violations 0" in done.stdout


@pytest.mark.parametrize("seed", [3, 57, 88])
def test_a_seed_has_one_history(seed: int) -> None:
    first, second = (simulation("--seed", str(seed)).stdout for _ in range(2))

    assert first == second
    assert len(first.splitlines()) > 50
