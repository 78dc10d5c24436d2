"""Programs as real processes: a script in a folder, what it prints, and how it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_INHERITED_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR")  # of the environment; no setting of the developer's
_PATIENCE = 30.0  # seconds, on a busy machine
TICKING = """
import os, sys, time
from hourbell import Scheduler

scheduler = Scheduler()

@scheduler.job("* * * * * *")
def tick(run):
    print("tick", os.getpid(), flush=True)
"""


class Script:
    """A process that prints lines. Leaving the context ends it, whatever the test did."""

    def __init__(self, folder: Path, *arguments: str, text: str = "", **environment: str) -> None:
        if text:
            (folder / "program.py").write_text(text)
        kept = {variable: os.environ[variable] for variable in _INHERITED_VARIABLES if variable in os.environ}
        self._out, self._err = folder / f"{arguments[0]}.out", folder / f"{arguments[0]}.err"
        with self._out.open("w") as out, self._err.open("w") as err:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=folder,
                env={"HTTP_ADDR": "127.0.0.1:0", **kept, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(f"--- {self._out.name}\n{self._out.read_text()}--- {self._err.name}\n{self.log}")
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def lines(self) -> list[str]:
        return self._out.read_text().splitlines()

    @property
    def log(self) -> str:
        return self._err.read_text()

    def wait_for(self, line: str, times: int = 1) -> Self:
        """Wait until it has printed a line with this beginning, this many times."""
        end = time.monotonic() + _PATIENCE
        while len([each for each in self.lines if each.startswith(line)]) < times:
            assert time.monotonic() < end, f"no {line!r}"
            assert self._process.poll() is None, f"it ended without {line!r}"
            time.sleep(0.02)
        return self

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def wait(self) -> int:
        """Its exit code."""
        return self._process.wait(_PATIENCE)
