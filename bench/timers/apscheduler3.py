"""APScheduler 3 with its asyncio scheduler, in memory or with its SQLAlchemy job store on PostgreSQL by psycopg 3."""

import asyncio
from datetime import UTC, datetime

from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from bench.timers.harness import Asked, Noter, read_asked, say_ready


class Noting:
    noter: Noter


async def note() -> None:
    Noting.noter.call()


async def main(asked: Asked) -> None:
    Noting.noter = Noter(asked.notes)
    store = SQLAlchemyJobStore(url=asked.url) if asked.url else MemoryJobStore()
    defaults = {"misfire_grace_time": None}
    scheduler = AsyncIOScheduler(jobstores={"default": store}, job_defaults=defaults, timezone=UTC)
    scheduler.start(paused=True)
    scheduler.remove_all_jobs()
    for number in range(asked.count):
        if asked.at is None:
            scheduler.add_job("bench.timers.apscheduler3:note", "cron", second="*", id=str(number))
        else:
            at = datetime.fromtimestamp(asked.at, UTC)
            scheduler.add_job("bench.timers.apscheduler3:note", "date", run_date=at, id=str(number))
    scheduler.resume()
    say_ready()
    await asyncio.Event().wait()


if __name__ == "__main__":
    from bench.timers.apscheduler3 import main  # its store names a function by its module

    asyncio.run(main(read_asked()))
