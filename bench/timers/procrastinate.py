"""Procrastinate's periodic tasks, deferred and run by one worker on PostgreSQL; it tells a task its instant."""

import asyncio
from datetime import UTC, datetime

import procrastinate

from bench.timers.harness import Asked, Noter, read_asked, say_ready

_AT_ONCE = 20


async def _main(asked: Asked) -> None:
    connector = procrastinate.PsycopgConnector(conninfo=asked.url, min_size=_AT_ONCE, max_size=_AT_ONCE + 2)
    app, noter = procrastinate.App(connector=connector), Noter(asked.notes)
    cron = "* * * * * *"  # the sixth field is that of seconds
    if asked.at is not None:
        at = datetime.fromtimestamp(asked.at, UTC)
        cron = f"{at.minute} {at.hour} {at.day} {at.month} * {at.second}"

    async def note(timestamp: int) -> None:
        noter.call(float(timestamp))

    for number in range(asked.count):
        app.periodic(cron=cron)(app.task(note, name=f"note-{number}"))
    async with app.open_async():
        say_ready()
        await app.run_worker_async(concurrency=_AT_ONCE, listen_notify=True)


if __name__ == "__main__":
    asyncio.run(_main(read_asked()))
