"""The fixed and the new seeds keep every promise, and a seed always has the same history."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.seeds import FIXED, NEW, digest_sources, new_seeds, parts, source_files


def simulation(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a seed in a process of its own, because the order of sets depends on the hash seed of the process."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.parametrize("seeds", parts(), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_every_promise_is_kept(seeds: range) -> None:
    done = simulation("--first", str(seeds[0]), "--seeds", str(len(seeds)), "--processes", "1")

    assert done.returncode == 0, done.stdout + done.stderr  # ends with the command that replays the seed
    assert f"seeds {len(seeds)}, violations 0" in done.stdout


def test_a_backlog_that_drains_is_not_called_stuck() -> None:
    done = simulation("--seed", "1035")  # 300 runs after a step of the clock, and two nodes with a thread each

    assert done.returncode == 0, done.stdout[-2_000:]


@pytest.mark.parametrize("seed", [57, 88])
def test_a_seed_has_one_history(seed: int) -> None:
    first, second = (simulation("--seed", str(seed)).stdout for _ in range(2))

    assert first == second
    assert len(first.splitlines()) > 50


def test_every_seed_is_simulated_once() -> None:
    assert [seed for seeds in parts() for seed in seeds] == [*FIXED, *NEW]


def test_the_new_seeds_follow_from_core_engine_and_store() -> None:
    hashed = {path.relative_to(path.parents[1]).as_posix() for path in source_files()}

    assert hashed >= {"run/plan.py", "engine/loop.py", "store/base.py", "postgres/engine.sql", "sqlite/engine.sql"}


def test_a_changed_or_renamed_source_file_gives_other_seeds(tmp_path: Path) -> None:
    first, second = tmp_path / "plan.py", tmp_path / "settle.py"
    first.write_text("limit = 1\n")
    before = digest_sources([first], tmp_path)
    second.write_text("limit = 1\n")
    renamed = digest_sources([second], tmp_path)
    first.write_text("limit = 2\n")
    changed = digest_sources([first], tmp_path)

    assert len({new_seeds(each) for each in (before, renamed, changed)}) == 3
    assert new_seeds(before) == new_seeds(before)
