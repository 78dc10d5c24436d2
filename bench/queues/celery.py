"""Celery on Redis: the solo pool, which has no process between the worker and its tasks, results ignored, many messages
fetched ahead, and no gossip between workers."""

import json
import os
from typing import Any
from uuid import uuid4

import celery
import redis

from bench.limits.processes import cpu_of
from bench.queues.harness import NOTES, Notes

_BROKER = "HOURBELL_BENCH_BROKER"
app = celery.Celery("bench", broker=os.environ.get(_BROKER))
app.conf.update(
    task_ignore_result=True, worker_prefetch_multiplier=128, broker_connection_retry_on_startup=True, timezone="UTC"
)
_notes = Notes() if NOTES in os.environ else None


@app.task(name="noop")  # type: ignore[untyped-decorator]
def noop() -> None:
    if _notes is not None:
        _notes.call()


class Queue:
    name = "Celery"
    storage = "Redis"
    how = "solo pool, results ignored, prefetch 128, without gossip, mingle and heartbeat"

    def __init__(self, interpreter: str, url: str, pid: int) -> None:
        self._interpreter = interpreter
        self._url = url
        self._pid = pid
        self._redis = redis.Redis.from_url(url)

    def command(self) -> tuple[list[str], dict[str, str]]:
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "warning")
        arguments = [self._interpreter, "-m", "celery", "-A", "bench.queues.celery", "worker", "--pool", "solo", *quiet]
        return [*arguments, "--hostname", f"{uuid4()}@bench"], {_BROKER: self._url}

    def hold(self, count: int) -> None:
        """Copy one message under other ids: sending them one by one takes longer than working them off."""
        with app.connection("memory://") as connection:
            noop.apply_async(connection=connection, queue="held")
            model = connection.default_channel._get("held")
        self._redis.lpush("held", *(json.dumps(_copy(model)) for _ in range(count)))

    def release(self) -> None:
        self._redis.rename("held", "celery")

    def is_empty(self) -> bool:
        return not self._redis.llen("celery") and not self._redis.hlen("unacked")

    def cpu(self) -> float:
        return cpu_of(self._pid)


def _copy(model: dict[str, Any]) -> dict[str, Any]:
    task = str(uuid4())
    properties = {**model["properties"], "correlation_id": task, "delivery_tag": str(uuid4())}
    properties["delivery_info"] = {"exchange": "", "routing_key": "celery"}
    return {**model, "headers": {**model["headers"], "id": task, "root_id": task}, "properties": properties}
