from collections.abc import AsyncIterator

import pytest

from tests.api.house import House, open_house
from tests.backends import ONE
from tests.database import BACKENDS, Database


@pytest.fixture
async def house() -> AsyncIterator[House]:
    """A server for this machine alone, without any token yet."""
    async with open_house() as made:
        yield made


@pytest.fixture(params=ONE)
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    async with BACKENDS[request.param]() as made:
        yield made
