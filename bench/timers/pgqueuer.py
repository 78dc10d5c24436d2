"""PGQueuer's schedules on PostgreSQL by asyncpg: cron expressions, which name whole minutes."""

from datetime import UTC, datetime
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver

from bench.timers.harness import Asked, Noter, read_asked, say_ready


async def _main(asked: Asked) -> None:
    connection = await asyncpg.connect(asked.url)
    queuer, noter = PgQueuer(AsyncpgDriver(connection)), Noter(asked.notes)
    cron = "* * * * *"
    if asked.at is not None:
        at = datetime.fromtimestamp(asked.at, UTC)
        cron = f"{at.minute} {at.hour} {at.day} {at.month} *"

    async def note(_: Any) -> None:
        noter.call()

    for number in range(asked.count):
        queuer.schedule(f"note-{number}", cron)(note)
    say_ready()
    await queuer.run()


if __name__ == "__main__":
    uvloop.run(_main(read_asked()))
