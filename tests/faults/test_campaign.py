"""Every scenario of the campaign at a small size. `make campaign` runs them at theirs.

The tests take those that hurt most, each on one database; `make sweep` runs all the others.
"""

from typing import Any

import pytest

from tests.faults.campaign import chosen, run_one, table
from tests.faults.verdict import Backend

SCALE = 0.06
SEED = 1
ALWAYS = {
    ("kills", "postgres"),
    ("frozen", "sqlite"),
    ("edits", "sqlite"),
    ("disk_full", "sqlite"),
    ("database_crashes", "postgres"),
    ("outages", "postgres"),
    ("webhooks", "postgres"),
    ("functions", "postgres"),
}


def scenarios() -> list[Any]:
    return [pytest.param(*each, marks=[] if each in ALWAYS else [pytest.mark.sweep]) for each in chosen()]


def test_those_that_are_always_run_are_there() -> None:
    assert set(chosen()) >= ALWAYS


@pytest.mark.parametrize(("name", "backend"), scenarios())
@pytest.mark.anyio
async def test_every_promise_holds_under(name: str, backend: Backend) -> None:
    verdict = await run_one(name, backend, seed=SEED, scale=SCALE)

    print(table([verdict]), *verdict.figures.items(), sep="\n")
    assert verdict.holds
