"""Sends to each of some receivers and tells by how much the memory of its process grew at most, in KiB.

Run as `python -m tests.targets.http.growth TRANSPORT PORT...`.
"""

import asyncio
import contextlib
import resource
import sys

from hourbell.targets.http.transport import TransportError
from tests.targets.http.transports import FakeGate, a_request, make_transport, yes


async def grow(name: str, good: int, bad: list[int]) -> int:
    transport = make_transport(name, FakeGate())
    for _ in range(3):
        await transport.send(a_request(good), yes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for port in bad * 3:
        with contextlib.suppress(TransportError):
            await transport.send(a_request(port, timeout=1), yes)
    await transport.close()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


if __name__ == "__main__":
    ports = [int(port) for port in sys.argv[2:]]
    print(asyncio.run(grow(sys.argv[1], ports[0], ports[1:])))
