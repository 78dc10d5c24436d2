"""A node of our own in a process: a scheduler with tasks that do nothing but be counted, in the way a program has it.

It tells when it is ready, and then for each line it reads how many calls there were. With a file for notes, each call
adds a line with the instant it was for and the moment its first line ran.
"""

import asyncio
import json
import os
import sys
import time
from typing import Any

import uvloop

from hourbell import Scheduler


class Calls:
    count = 0


async def noop(_: Any) -> None:
    Calls.count += 1


def _noting(path: str) -> Any:
    notes = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def note(run: Any) -> None:
        at = time.time()
        Calls.count += 1
        os.write(notes, f"{run.scheduled_at.timestamp()} {at}\n".encode())

    return note


async def _main(url: str, tasks: int, notes: str | None) -> None:
    scheduler = Scheduler("bench", database_url=url)
    function = noop if notes is None else _noting(notes)
    for number in range(tasks):
        scheduler.task(function, name=f"bench.noop.{number}")
    ended = asyncio.Event()

    def tell() -> None:
        if os.read(sys.stdin.fileno(), 1_024):
            print(json.dumps(Calls.count), flush=True)
        else:
            ended.set()

    async with scheduler:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), tell)
        print(json.dumps("ready"), flush=True)
        await ended.wait()


if __name__ == "__main__":
    uvloop.run(_main(**json.loads(sys.argv[1])))
