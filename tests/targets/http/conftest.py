"""What the tests of transports share."""

from collections.abc import AsyncIterator

import pytest

from hourbell.targets.http.transport import Transport
from tests.targets.http.certificates import Authority
from tests.targets.http.transports import TRANSPORTS, FakeGate, make_transport


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def gate() -> FakeGate:
    return FakeGate()


@pytest.fixture(params=TRANSPORTS)
async def transport(request: pytest.FixtureRequest, gate: FakeGate, authority: Authority) -> AsyncIterator[Transport]:
    """Every transport in turn, behind the gate and with the authority's certificates."""
    made = make_transport(request.param, gate, authority.ca_file)
    yield made
    await made.close()
