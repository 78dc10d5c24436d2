"""A program whose job has another owner: log, doctor and status report it, and the command they name solves it."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from hourbell.client import Client
from tests.faults.process import Server

APP = """
from hourbell import Scheduler

scheduler = Scheduler("shop")

@scheduler.job("0 3 * * *")
def tick(run): ...
"""
TARGET = {"type": "http", "url": "https://example.com/tick"}
_PATIENCE = 30.0  # seconds, on a busy machine


def hourbell(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    command = [sys.executable, "-m", "hourbell", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_PATIENCE)


def test_the_command_that_is_named_gives_the_job_to_the_program(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with Server(tmp_path, name="first") as first, Client(first.wait_until_serving().url) as client:
        client.jobs.create({"name": "tick", "schedule": "0 4 * * *", "target": TARGET})
    with Server(tmp_path, "--app", "app:scheduler") as server, Client(server.wait_until_serving().url) as client:
        logged = server.wait_for("job_owned_by_another")
        status = hourbell(tmp_path, "status", "--server", server.url)
        doctor = hourbell(tmp_path, "doctor")
        commands = {
            found.group()
            for text in (str(logged["hint"]), status.stdout, doctor.stdout)
            for found in re.finditer(r"hourbell job delete tick --take-over", text)
        }
        assert (logged["level"], status.returncode, doctor.returncode, len(commands)) == ("error", 1, 1, 1)

        [command] = commands
        done = hourbell(tmp_path, *command.split()[1:], "--yes", "--server", server.url)
        assert done.returncode == 0, done.stderr
        end = time.monotonic() + _PATIENCE
        while not (found := list(client.jobs.list(managed_by="code"))) and time.monotonic() < end:
            time.sleep(0.2)
        assert hourbell(tmp_path, "status", "--server", server.url).returncode == 0

    assert [(job.name, job.source, job.schedule) for job in found] == [("tick", "shop", "0 3 * * *")]
