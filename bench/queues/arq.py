"""arq on Redis: a thousand jobs at once, the queue read a thousand at a time and every 10 ms, no results kept."""

import asyncio
import json
import sys
from typing import Any

import redis
from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func

from bench.limits.processes import cpu_of
from bench.queues.harness import Notes

_AT_ONCE = 1_000
_POLL = 0.01  # seconds


class Queue:
    name = "arq"
    storage = "Redis"
    how = f"max_jobs={_AT_ONCE:,}, queue_read_limit={_AT_ONCE:,}, poll_delay={_POLL}, keep_result=0"

    def __init__(self, url: str, pid: int) -> None:
        self._url = url
        self._pid = pid
        self._redis = redis.Redis.from_url(url)

    def command(self) -> tuple[list[str], dict[str, str]]:
        return [sys.executable, "-m", "bench.queues.arq", json.dumps({"url": self._url})], {}

    def hold(self, count: int) -> None:
        async def enqueue() -> None:
            pool = await create_pool(RedisSettings.from_dsn(self._url))
            for _ in range(count):
                await pool.enqueue_job("noop", _queue_name="held")
            await pool.aclose()

        asyncio.run(enqueue())

    def release(self) -> None:
        self._redis.rename("held", "arq:queue")

    def is_empty(self) -> bool:
        return not self._redis.zcard("arq:queue")

    def cpu(self) -> float:
        return cpu_of(self._pid)


def _main(url: str) -> None:
    notes = Notes()

    async def noop(_: Any) -> None:
        notes.call()

    worker = Worker(
        [func(noop, name="noop", keep_result=0)],
        redis_settings=RedisSettings.from_dsn(url),
        max_jobs=_AT_ONCE,
        queue_read_limit=_AT_ONCE,
        poll_delay=_POLL,
        keep_result=0,
    )
    worker.run()


if __name__ == "__main__":
    asyncio.set_event_loop(asyncio.new_event_loop())
    _main(**json.loads(sys.argv[1]))
