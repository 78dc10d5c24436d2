"""Every scenario of the campaign at a small size. `make campaign` runs them at theirs.

A scenario for both databases is run on one of them, in turn; `make sweep` runs it on the other.
"""

from typing import Any

import pytest

from tests.faults.campaign import chosen, run_one, table
from tests.faults.verdict import Backend

pytestmark = pytest.mark.anyio

SCALE = 0.06
SEED = 1


def in_turn() -> list[Any]:
    """All of them, of which every second that has a twin on the other database is left to the sweep."""
    every = chosen()
    twins = [name for name in dict.fromkeys(name for name, _ in every) if [each for each, _ in every].count(name) > 1]
    later = {(name, ("sqlite", "postgres")[place % 2]) for place, name in enumerate(twins)}
    return [pytest.param(*each, marks=[pytest.mark.sweep] if each in later else []) for each in every]


@pytest.mark.parametrize(("name", "backend"), in_turn())
async def test_every_promise_holds_under(name: str, backend: Backend) -> None:
    verdict = await run_one(name, backend, seed=SEED, scale=SCALE)

    print(table([verdict]), *verdict.figures.items(), sep="\n")
    assert verdict.holds
