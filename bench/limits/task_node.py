"""A node as `hourbell serve --app` runs it, with tasks that do nothing but be counted.

It tells when it is ready, and then for each line it reads how many calls there were. With a file for notes, each call
adds a line with the instant it was for and the moment its first line ran. Without `watches`, nobody looks for
incidents.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.request
from typing import Any

from hourbell import Scheduler, wiring
from hourbell.engine.engine import Engine

_PATIENCE = 60.0  # seconds


class Calls:
    count = 0


async def noop(_: Any) -> None:
    Calls.count += 1


def _noting(path: str) -> Any:
    notes = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def note(run: Any) -> None:
        at = time.time()
        Calls.count += 1
        os.write(notes, f"{run.scheduled_at.timestamp()} {at}\n".encode())

    return note


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _answer(ready_url: str) -> None:
    """Say that the node is ready, then how many calls there were for each line; at the end of them stop the node."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            urllib.request.urlopen(ready_url, timeout=1).close()
            break
        except OSError:
            if time.monotonic() > end:
                os._exit(1)
            time.sleep(0.02)
    print(json.dumps("ready"), flush=True)
    while sys.stdin.readline():
        print(json.dumps(Calls.count), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


def _without_watcher(*arguments: Any, **named: Any) -> Engine:
    return Engine(*arguments, **named | {"alerts": None})


def main(url: str, tasks: int, notes: str | None, watches: bool) -> None:
    if not watches:
        wiring.Engine = _without_watcher  # type: ignore[misc, assignment, attr-defined]
    address = f"127.0.0.1:{_free_port()}"
    os.environ |= {"HOURBELL_HTTP_ADDR": address, "HOURBELL_LOG_LEVEL": "warning"}
    scheduler = Scheduler("bench", database_url=url)
    function = noop if notes is None else _noting(notes)
    for number in range(tasks):
        scheduler.task(function, name=f"bench.noop.{number}")
    threading.Thread(target=_answer, args=(f"http://{address}/health/ready",), daemon=True).start()
    scheduler.run()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
