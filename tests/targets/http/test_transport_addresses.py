"""Every transport connects to addresses of this attempt's own look-up, and only if the egress policy allows
them.
"""

import asyncio
from ipaddress import ip_address

import pytest

from hourbell.targets.http.transport import Refused, Transport, TransportError
from tests.targets.http.receivers import OK, answers, receiving, until
from tests.targets.http.transports import LOOPBACK, OTHER_LOOPBACK, FakeEgressPolicy, a_request, yes

pytestmark = pytest.mark.anyio


async def test_the_next_address_is_tried_when_one_does_not_answer(
    transport: Transport, policy: FakeEgressPolicy
) -> None:
    policy.addresses = (OTHER_LOOPBACK, *policy.addresses)
    async with receiving(answers(OK)) as receiver:
        response = await transport.send(a_request(receiver.port), yes)

    assert response.status == 200


async def test_a_forbidden_address_is_never_connected_to(transport: Transport, policy: FakeEgressPolicy) -> None:
    policy.forbidden = set(policy.addresses)
    async with receiving(answers(OK)) as receiver:
        with pytest.raises(Refused) as refused:
            await transport.send(a_request(receiver.port), yes)
        await asyncio.sleep(0.05)

    assert str(refused.value) == f"127.0.0.1 port {receiver.port} is not allowed"
    assert (refused.value.begun, receiver.connections) == (False, 0)


async def test_one_forbidden_address_among_many_is_enough(transport: Transport, policy: FakeEgressPolicy) -> None:
    policy.forbidden = {OTHER_LOOPBACK}
    policy.addresses = (OTHER_LOOPBACK, *policy.addresses)
    async with receiving(answers(OK)) as receiver:
        with pytest.raises(Refused):
            await transport.send(a_request(receiver.port), yes)
        await asyncio.sleep(0.05)

    assert receiver.connections == 0


async def test_a_kept_connection_is_not_used_when_the_name_leads_elsewhere(
    transport: Transport, policy: FakeEgressPolicy
) -> None:
    async with (
        receiving(answers(OK)) as before,
        receiving(answers(OK), host=str(OTHER_LOOPBACK), port=before.port) as after,
    ):
        await transport.send(a_request(before.port), yes)
        policy.addresses = (OTHER_LOOPBACK,)
        await transport.send(a_request(before.port), yes)

    assert (len(before.requests), len(after.requests)) == (1, 1)


async def test_a_kept_connection_is_not_used_when_its_address_is_forbidden_meanwhile(
    transport: Transport, policy: FakeEgressPolicy
) -> None:
    async with receiving(answers(OK)) as receiver:
        await transport.send(a_request(receiver.port), yes)
        policy.forbidden = {LOOPBACK}
        with pytest.raises(Refused):
            await transport.send(a_request(receiver.port), yes)
        await until(lambda: receiver.open == 0)

    assert (receiver.connections, len(receiver.requests)) == (1, 1)


async def test_a_connection_that_ends_at_another_address_is_refused(
    transport: Transport, policy: FakeEgressPolicy
) -> None:
    policy.addresses = (ip_address("0.0.0.0"),)  # leads to 127.0.0.1
    async with receiving(answers(OK)) as receiver:
        with pytest.raises(Refused, match="ended at another address"):
            await transport.send(a_request(receiver.port), yes)
        await until(lambda: (receiver.connections, receiver.open) == (1, 0))

    assert receiver.bytes_read == 0


async def test_every_attempt_looks_the_name_up(transport: Transport, policy: FakeEgressPolicy) -> None:
    async with receiving(answers(OK)) as receiver:
        for _ in range(3):
            await transport.send(a_request(receiver.port), yes)

    assert (policy.look_ups, receiver.connections) == (3, 1)


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "127.1"])
async def test_an_address_in_the_url_is_checked_by_the_egress_policy_too(
    transport: Transport, policy: FakeEgressPolicy, host: str
) -> None:
    policy.addresses = (OTHER_LOOPBACK,)
    async with receiving(answers(OK)) as receiver:
        with pytest.raises(TransportError):
            await transport.send(a_request(receiver.port, host=host), yes)

    assert (policy.look_ups, receiver.connections) == (1, 0)


async def test_an_exception_from_the_egress_policy_is_the_attempts_error(
    transport: Transport, policy: FakeEgressPolicy
) -> None:
    policy.error = TransportError("the name is unknown", begun=False)
    with pytest.raises(TransportError) as failed:
        await transport.send(a_request(80), yes)

    assert (str(failed.value), list(failed.value.phases)) == ("the name is unknown", ["dns"])
