"""`make mutants` finds every safeguard it takes out, and calls a mutant caught only on proof."""

from pathlib import Path

import pytest
from tests.mutants.mutants import MUTANTS, Change, Mutant
from tests.mutants.runs import Finished, Outcome, Status, Workshop, judge, read_pytest, read_simulation

ROOT = Path(__file__).parents[2]
CHANGES = [change for mutant in MUTANTS for change in mutant.changes]
FAILED, PASSED = Outcome(Status.FAILED, "t::a"), Outcome(Status.PASSED)
TESTS = """
from safeguard import limit


def test_notices():
    assert limit == 1


def test_passes_anyway():
    assert limit


def test_fails_anyway():
    assert limit == 3
"""


SUMMARY = "== short test summary info =="


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.path)
def test_the_text_that_a_mutant_replaces_occurs_once_in_its_file(change: Change) -> None:
    assert (ROOT / change.path).read_text("utf-8").count(change.old) == 1


@pytest.mark.parametrize(
    ("done", "status"),
    [
        (Finished(0, "3 passed"), Status.PASSED),
        (Finished(1, "FAILED t.py::a - assert 1 == 2\n1 failed"), Status.FAILED),
        (Finished(1, f"ERROR    hourbell.engine:1 run_failed\n{SUMMARY}\nFAILED t.py::a"), Status.FAILED),  # a log line
        (Finished(1, "ERROR t.py::a - RuntimeError\n1 error"), Status.BROKEN),  # its set-up failed
        (Finished(1, ""), Status.BROKEN),
        (Finished(2, "ERROR t.py - ImportError"), Status.BROKEN),  # not collected
        (Finished(4, "ERROR: not found: t.py::b"), Status.BROKEN),
        (Finished(5, "no tests ran"), Status.BROKEN),
        (None, Status.BROKEN),
    ],
)
def test_only_a_failed_test_counts_as_failed(done: Finished | None, status: Status) -> None:
    assert read_pytest(done).status is status


@pytest.mark.parametrize(
    ("done", "status", "seed"),
    [
        (Finished(0, "seeds 2000, violations 0, runs 9"), Status.PASSED, None),
        (Finished(1, "seeds 26, violations 1, runs 9\nseed 25 breaks a promise"), Status.FAILED, 25),
        (Finished(1, "", "Traceback"), Status.BROKEN, None),
        (None, Status.BROKEN, None),
    ],
)
def test_only_a_seed_that_breaks_a_promise_counts_as_failed(
    done: Finished | None, status: Status, seed: int | None
) -> None:
    found = read_simulation(done)

    assert (found.status, found.seed) == (status, seed)


@pytest.mark.parametrize(
    ("with_mutant", "without", "is_caught"),
    [
        (FAILED, PASSED, True),
        (FAILED, FAILED, False),
        (FAILED, Outcome(Status.BROKEN, "timed out"), False),
        (PASSED, None, False),
        (Outcome(Status.BROKEN, "timed out"), None, False),
    ],
)
def test_a_mutant_is_caught_if_the_same_run_passes_without_it(
    with_mutant: Outcome, without: Outcome | None, is_caught: bool
) -> None:
    assert judge(with_mutant, without)[0] is is_caught


def test_a_mutant_is_tried_with_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "safeguard.py").write_text("limit = 1\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    names = ("test_notices", "test_passes_anyway", "test_fails_anyway")
    mutant = Mutant(
        "the limit", (Change("src/safeguard.py", "1", "2"),), tuple(f"test_it.py::{name}" for name in names)
    )

    verdicts = list(Workshop(tmp_path).try_mutant(mutant))

    assert [verdict.is_caught for verdict in verdicts] == [True, False, False]
    assert (tmp_path / "src" / "safeguard.py").read_text() == "limit = 1\n"


def test_a_mutant_that_cannot_be_imported_is_not_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "safeguard.py").write_text("limit = 1\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    mutant = Mutant("the limit", (Change("src/safeguard.py", "limit = 1", "limit ="),), ("test_it.py",))

    [verdict] = Workshop(tmp_path).try_mutant(mutant)

    assert not verdict.is_caught
    assert "no answer" in verdict.reason
