"""Schedule calculations for requests, in a thread if they may be slow.

A calculation on a cron expression takes microseconds. A recurrence rule is iterated, and one that never matches is
iterated through the whole calendar: on the event loop, a few such requests would delay every delivery.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

_RECURRENCE = "RRULE"  # in the text of every recurrence rule, and of no other schedule
_thread = ThreadPoolExecutor(1, "calculations")  # calculations queue up and delay nothing else
_conversions = ThreadPoolExecutor(1, "conversions")  # take seconds, for which no calculation waits


async def calculate(schedule: str, call: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Run a calculation on a schedule: directly, or in the thread for a recurrence rule."""
    if _RECURRENCE not in schedule:
        return call(*arguments)
    return await calculate_much(call, *arguments)


async def calculate_much(call: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Run a calculation in the thread, whatever the schedule."""
    return await asyncio.get_running_loop().run_in_executor(_thread, call, *arguments)


async def convert(call: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Run the conversion of a text in a thread of its own."""
    return await asyncio.get_running_loop().run_in_executor(_conversions, call, *arguments)
