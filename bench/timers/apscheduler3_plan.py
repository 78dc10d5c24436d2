"""APScheduler 3 on PostgreSQL with due jobs among others: one pass over them, with an executor that calls a function
which does nothing. It tells the seconds of the pass."""

import json
import sys
import time
from datetime import UTC, datetime, timedelta

from apscheduler.executors.debug import DebugExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_PAUSED, STATE_RUNNING

_FAR = timedelta(days=3_650)


def noop() -> None:
    pass


def main(url: str, due: int, others: int) -> None:
    store = SQLAlchemyJobStore(url=url)
    defaults = {"misfire_grace_time": None, "coalesce": True}
    executors = {"default": DebugExecutor()}
    scheduler = BackgroundScheduler(
        jobstores={"default": store}, executors=executors, job_defaults=defaults, timezone=UTC
    )
    scheduler.start(paused=True)
    scheduler.remove_all_jobs()
    now = datetime.now(UTC)
    for number in range(due + others):
        first = now if number < due else now + _FAR
        scheduler.add_job("bench.timers.apscheduler3_plan:noop", "cron", hour=3, id=str(number), next_run_time=first)
    print(json.dumps("ready"), flush=True)
    sys.stdin.readline()
    scheduler.state = STATE_RUNNING  # running; its own thread was told to pause, and this one makes the pass
    start = time.perf_counter()
    scheduler._process_jobs()
    seconds = time.perf_counter() - start
    left = len(store.get_due_jobs(datetime.now(UTC)))
    print(json.dumps([seconds, due - left]), flush=True)
    sys.stdin.readline()
    scheduler.state = STATE_PAUSED
    scheduler.shutdown(wait=False)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
