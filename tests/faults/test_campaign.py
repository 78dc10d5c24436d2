"""Every scenario of the campaign at a small size. `make campaign` runs them at theirs."""

import pytest

from tests.faults.campaign import chosen, run_one, table
from tests.faults.verdict import Backend

pytestmark = pytest.mark.anyio

SCALE = 0.06
SEED = 1


@pytest.mark.parametrize(("name", "backend"), chosen())
async def test_every_promise_holds_under(name: str, backend: Backend) -> None:
    verdict = await run_one(name, backend, seed=SEED, scale=SCALE)

    print(table([verdict]), *verdict.figures.items(), sep="\n")
    assert verdict.holds
