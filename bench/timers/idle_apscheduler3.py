"""APScheduler 3 with very many jobs in its PostgreSQL job store, of which none is due for years.

One job is added by itself, and the table is filled with copies of it.
"""

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta

from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from sqlalchemy import text

_FAR = timedelta(days=3_650)
_COPY = """insert into apscheduler_jobs (id, next_run_time, job_state)
select 'job-' || n, next_run_time, job_state from apscheduler_jobs, generate_series(2, :jobs) n where id = 'job-1'"""


def noop() -> None:
    pass


async def main(url: str, jobs: int) -> None:
    store = SQLAlchemyJobStore(url=url)
    scheduler = AsyncIOScheduler(jobstores={"default": store}, timezone=UTC)
    scheduler.start(paused=True)
    first = datetime.now(UTC) + _FAR
    if jobs:
        scheduler.add_job("bench.timers.idle_apscheduler3:noop", "cron", hour=3, id="job-1", next_run_time=first)
        with store.engine.begin() as connection:
            connection.execute(text(_COPY), {"jobs": jobs})
    scheduler.resume()
    print(json.dumps("ready"), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
