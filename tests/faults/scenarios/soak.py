"""Webhooks drained at full speed by two processes, without any fault: each attempt reaches its receiver once.

`SCALE` sets how long it lasts: `make campaign ONLY=soak SCALE=100` takes hours.
"""

import asyncio

from tests.faults.verdict import Setting, Verdict


async def run(setting: Setting) -> Verdict:
    from tests.faults.soaking import soak  # a copy of the tests alone has no benchmark

    return await asyncio.to_thread(soak, setting)
