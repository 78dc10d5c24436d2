"""The built-in task of the demo jobs, which every server has. It touches nothing outside of its run."""

import asyncio
from typing import Any

from hourbell.targets.task import Task

NAME = "hourbell.demo"


async def _demo(run: Any, seconds: float = 1.0, fails: bool = False) -> str:
    run.progress(0.5, "half done")
    await asyncio.sleep(min(seconds, 60.0))
    if fails:
        raise RuntimeError("this demo job always fails")
    return f"ran for {seconds:g} s"


DEMO_TASK = Task(NAME, _demo)
