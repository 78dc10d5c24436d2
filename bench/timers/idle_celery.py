"""Celery's beat with very many entries, of which none is due for months. It needs no broker until one is."""

import json
import sys

import celery
from celery.schedules import crontab


def main(entries: int, folder: str) -> None:
    app = celery.Celery("bench", broker="memory://")
    app.conf.timezone = "UTC"
    yearly = crontab(minute="0", hour="3", day_of_month="1", month_of_year="1")
    app.conf.beat_schedule = {f"job-{n:08}": {"task": "nobody.serves.this", "schedule": yearly} for n in range(entries)}
    print(json.dumps("ready"), flush=True)
    app.Beat(schedule=f"{folder}/beat-{entries}", quiet=True).run()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
