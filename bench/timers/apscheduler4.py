"""APScheduler 4 with its SQLAlchemy data store on PostgreSQL by asyncpg, and its broker for events of one process."""

import asyncio
from datetime import UTC, datetime

from apscheduler import AsyncScheduler
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from sqlalchemy.ext.asyncio import create_async_engine

from bench.timers.harness import Asked, Noter, read_asked, say_ready


class Noting:
    noter: Noter


async def note() -> None:
    Noting.noter.call()


async def main(asked: Asked) -> None:
    Noting.noter = Noter(asked.notes)
    engine = create_async_engine(asked.url.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncScheduler(SQLAlchemyDataStore(engine), max_concurrent_jobs=1_000) as scheduler:
        for schedule in await scheduler.get_schedules():
            await scheduler.remove_schedule(schedule.id)
        for _ in range(asked.count):
            if asked.at is None:
                trigger = CronTrigger(second="*", start_time=datetime.now(UTC).replace(microsecond=0), timezone=UTC)
            else:
                trigger = DateTrigger(datetime.fromtimestamp(asked.at, UTC))
            await scheduler.add_schedule(note, trigger, misfire_grace_time=None)
        await scheduler.start_in_background()
        say_ready()
        await asyncio.Event().wait()


if __name__ == "__main__":
    from bench.timers.apscheduler4 import main  # its store names a function by its module

    asyncio.run(main(read_asked()))
