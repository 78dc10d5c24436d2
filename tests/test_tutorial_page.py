"""The steps of docs/tutorial.md work in their order, with a real server that is killed by SIGKILL."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.api.shown import Step, is_as_shown, steps_of
from tests.faults.process import Server

pytestmark = pytest.mark.full

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
PATIENCE_SECONDS = 40.0  # for a list to show what the page shows
SERVE = "HOURBELL_LEASE=5s hourbell serve "
KILL = "kill -9 "


def test_every_step_of_the_tutorial_works(tmp_path: Path) -> None:
    [program] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "jobs.py").write_text(program)
    servers: list[Server] = []
    try:
        for step in steps_of(PAGE):
            if step.command.startswith(SERVE):
                arguments = step.command.removeprefix(SERVE).split()
                server = Server(tmp_path, *arguments, name=f"server-{len(servers)}", HOURBELL_LEASE="5s")
                servers.append(server)
                server.wait_until_serving()
            elif step.command.startswith(KILL):
                servers[-1].signal(signal.SIGKILL)
                assert servers[-1].wait(10) == -signal.SIGKILL
            else:
                follow(step, servers[-1].url, tmp_path)
    finally:
        for server in servers:
            server.__exit__(None, None, None)

    assert len(servers) == 2
    assert "lease_lost" in servers[1].names


def follow(step: Step, url: str, folder: Path) -> None:
    """Run a command; repeat one that only lists until it prints what the page shows."""
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOURBELL_URL": url}
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        done = subprocess.run(
            ["sh", "-c", step.command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        is_so = done.returncode == 0 and (
            not step.shown or is_as_shown(narrow(done.stdout), [*map(narrow, step.shown)])
        )
        if is_so or " list " not in step.command or time.monotonic() > end:
            break
        time.sleep(0.2)
    assert is_so, f"{step.command}\n{done.returncode}\n{done.stderr}{done.stdout}"


def narrow(text: str) -> str:
    """Remove the alignment of columns."""
    return re.sub("(?m)^ +", "", re.sub(" +", " ", text))
