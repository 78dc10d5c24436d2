from collections.abc import AsyncIterator

import pytest

from tests.api.house import House, open_house


@pytest.fixture
async def house() -> AsyncIterator[House]:
    """A server for this machine alone, without any token yet."""
    async with open_house() as made:
        yield made
