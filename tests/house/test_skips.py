"""On CI a missing component fails the tests that need it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEST = """
import pytest


@pytest.mark.skipif(True, reason="no such component")
def test_by_a_mark(): ...


def test_by_a_call():
    pytest.skip("no such component")


@pytest.mark.xfail(reason="known")
def test_expected_to_fail():
    assert False
"""
MODULE = """
import pytest

pytest.importorskip("no_such_component")
"""


@pytest.mark.parametrize(("ci", "reported"), [("1", "1 failed, 1 xfailed, 2 errors"), ("", "3 skipped, 1 xfailed")])
def test_a_skip_is_a_failure_on_ci_only(tmp_path: Path, ci: str, reported: str) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    (tmp_path / "test_module.py").write_text(MODULE)
    settings = {"CI": ci, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "tests.skips", "--continue-on-collection-errors"]

    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )

    assert reported in done.stdout
    assert done.returncode == (1 if ci else 0)
