"""Every scenario of the campaign at a small size. `make campaign` runs them at theirs.

`make test` takes the shortest, `make test-all` those that hurt most, each on one database, and `make sweep` the others.
"""

from typing import Any

import pytest

from tests.faults.campaign import chosen, run_one, table
from tests.faults.verdict import Backend

SCALE = 0.06
SEED = 1
ALWAYS = {("edits", "sqlite")}
HURTS_MOST = {
    ("kills", "postgres"),
    ("frozen", "sqlite"),
    ("disk_full", "sqlite"),
    ("database_crashes", "postgres"),
    ("outages", "postgres"),
    ("webhooks", "postgres"),
    ("functions", "postgres"),
    ("alerts", "postgres"),
    ("alerts", "sqlite"),
    ("silence", "postgres"),
}


def scenarios() -> list[Any]:
    return [pytest.param(*each, marks=tier_of(each)) for each in chosen()]


def tier_of(scenario: tuple[str, Backend]) -> list[pytest.MarkDecorator]:
    if scenario in ALWAYS:
        return []
    return [pytest.mark.full if scenario in HURTS_MOST else pytest.mark.sweep]


def test_every_scenario_with_a_tier_exists() -> None:
    assert set(chosen()) >= ALWAYS | HURTS_MOST


@pytest.mark.parametrize(("name", "backend"), scenarios())
@pytest.mark.anyio
async def test_every_promise_holds_under(name: str, backend: Backend) -> None:
    verdict = await run_one(name, backend, seed=SEED, scale=SCALE)

    print(table([verdict]), *verdict.figures.items(), sep="\n")
    assert verdict.holds
