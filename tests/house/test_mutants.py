"""Every safeguard that `make mutants` takes out is still where it looks for it."""

from pathlib import Path

import pytest
from tests.mutants.mutants import MUTANTS, Change

ROOT = Path(__file__).parents[2]
CHANGES = [change for mutant in MUTANTS for change in mutant.changes]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.path)
def test_what_a_mutant_takes_out_stands_once_in_its_file(change: Change) -> None:
    assert (ROOT / change.path).read_text("utf-8").count(change.old) == 1
