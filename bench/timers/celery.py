"""Celery's beat on Redis, with a solo worker in a process of its own: crontab entries, which name whole minutes.

One process is asked for, and it starts the other two; their application is in this module, too.
"""

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import celery
from celery.schedules import crontab

from bench.timers.harness import Noter, read_asked, say_ready

_BROKER, _ENTRIES, _AT, _NOTES = (f"HOURBELL_BENCH_CELERY_{name}" for name in ("BROKER", "ENTRIES", "AT", "NOTES"))
_noter = Noter(os.environ[_NOTES]) if _NOTES in os.environ else None
_QUIET = ("--loglevel", "warning")


def _crontab() -> crontab:
    if not os.environ.get(_AT):
        return crontab()
    at = datetime.fromtimestamp(float(os.environ[_AT]), UTC)
    return crontab(minute=str(at.minute), hour=str(at.hour), day_of_month=str(at.day), month_of_year=str(at.month))


app = celery.Celery("bench", broker=os.environ.get(_BROKER))
app.conf.update(task_ignore_result=True, timezone="UTC", broker_connection_retry_on_startup=True)
if _ENTRIES in os.environ:
    entries = range(int(os.environ[_ENTRIES]))
    app.conf.beat_schedule = {f"note-{number}": {"task": "note", "schedule": _crontab()} for number in entries}


@app.task(name="note")  # type: ignore[untyped-decorator]
def note() -> None:
    if _noter is not None:
        _noter.call()


def _main() -> None:
    asked = read_asked()
    variables = {_BROKER: asked.url, _ENTRIES: str(asked.count), _AT: str(asked.at or ""), _NOTES: asked.notes}
    command = [sys.executable, "-m", "celery", "-A", "bench.timers.celery"]
    with TemporaryDirectory() as folder:
        schedule = str(Path(folder) / "beat")
        parts = (["worker", "--pool", "solo", *_QUIET], ["beat", "--schedule", schedule, *_QUIET])
        children = [
            subprocess.Popen([*command, *part], env={**os.environ, **variables}, stdout=subprocess.DEVNULL)
            for part in parts
        ]
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        try:
            time.sleep(5)
            say_ready()
            for child in children:
                child.wait()
        finally:
            for child in children:
                child.terminate()
            for child in children:
                _see_ended(child)


def _see_ended(child: "subprocess.Popen[bytes]") -> None:
    try:
        child.wait(3)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


if __name__ == "__main__":
    _main()
