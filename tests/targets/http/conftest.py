"""Shared fixtures of transport tests."""

from collections.abc import AsyncIterator

import pytest

from hourbell.targets.http.transport import Transport
from tests.targets.http.certificates import Authority
from tests.targets.http.transports import TRANSPORTS, FakeEgressPolicy, make_transport


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def policy() -> FakeEgressPolicy:
    return FakeEgressPolicy()


@pytest.fixture(params=TRANSPORTS)
async def transport(
    request: pytest.FixtureRequest, policy: FakeEgressPolicy, authority: Authority
) -> AsyncIterator[Transport]:
    """Every transport in turn, behind the egress policy and with the authority's certificates."""
    made = make_transport(request.param, policy, authority.ca_file)
    yield made
    await made.close()
