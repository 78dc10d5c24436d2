"""The event loop's own timer, and nothing else: asyncio's, or uvloop's if the URL says so."""

import asyncio
import time

import uvloop

from bench.timers.harness import Asked, Noter, read_asked, say_ready


async def _main(asked: Asked) -> None:
    loop, noter = asyncio.get_running_loop(), Noter(asked.notes)

    def arrange(instant: float) -> None:
        loop.call_later(instant - time.time(), fire, instant)

    def fire(instant: float) -> None:
        noter.call(instant)
        if asked.at is None:
            arrange(instant + asked.period)

    for _ in range(asked.count):
        arrange(asked.at or float(int(time.time()) + 1))
    say_ready()
    await asyncio.Event().wait()


if __name__ == "__main__":
    given = read_asked()
    (uvloop.run if given.url == "uvloop" else asyncio.run)(_main(given))
