from collections.abc import AsyncIterator

import pytest

from tests.backends import ONE
from tests.database import BACKENDS, Database


@pytest.fixture(params=ONE)
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    async with BACKENDS[request.param]() as made:
        yield made
