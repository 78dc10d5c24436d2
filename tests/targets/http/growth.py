"""Sends to some receivers and prints by how much the peak of its process's memory grew, in KiB.

Run as `python -m tests.targets.http.growth TRANSPORT GOOD_PORT PORT...`.
"""

import asyncio
import contextlib
import sys
from pathlib import Path

from hourbell.targets.http.transport import TransportError
from tests.targets.http.transports import FakeEgressPolicy, a_request, make_transport, yes


def peak() -> int:
    """Return the peak memory in KiB. `ru_maxrss` would begin with the peak of the parent process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


async def growth(name: str, good: int, others: list[int]) -> int:
    transport = make_transport(name, FakeEgressPolicy())
    await transport.send(a_request(good), yes)
    before = peak()
    for port in others * 3:
        with contextlib.suppress(TransportError):
            await transport.send(a_request(port, timeout=1), yes)
    await transport.close()
    return peak() - before


if __name__ == "__main__":
    ports = [int(port) for port in sys.argv[2:]]
    print(asyncio.run(growth(sys.argv[1], ports[0], ports[1:])))
