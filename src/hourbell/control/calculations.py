"""Arithmetic on schedules for callers, in a thread where it may take long.

Everything about a cron expression is answered in microseconds. A recurrence rule is walked, and one that never matches
is walked for the whole calendar: on the event loop, a few such requests would hold up every delivery.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

_RECURRENCE = "RRULE"  # is in every text of one, and in no other schedule
_thread = ThreadPoolExecutor(1, "calculations")  # calculations wait for each other, and nothing else for them


async def calculate(schedule: str, call: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Make a call that does arithmetic on a schedule."""
    if _RECURRENCE not in schedule:
        return call(*arguments)
    return await calculate_much(call, *arguments)


async def calculate_much(call: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Make a call that does much arithmetic, whatever the schedule."""
    return await asyncio.get_running_loop().run_in_executor(_thread, call, *arguments)
