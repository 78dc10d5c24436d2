"""A `hourbell serve` of its own on a database, called over loopback."""

import json
import os
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from secrets import token_hex
from typing import IO
from urllib.parse import urlsplit

_START_LIMIT = 60.0  # seconds
_ANSWER_LIMIT = 3_600.0
_BLOCK = 64 * 1024


class Server:
    def __init__(self, url: str, folder: Path, *arguments: str) -> None:
        self._log = folder / f"{token_hex(4)}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hourbell", "serve", *arguments],
                cwd=folder,
                env={**os.environ, "DATABASE_URL": url, "HTTP_ADDR": "127.0.0.1:0"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.pid = self._process.pid
        self.netloc = self._wait_until_serving()

    def connection(self) -> HTTPConnection:
        return HTTPConnection(self.netloc, timeout=_ANSWER_LIMIT, blocksize=_BLOCK)

    def import_jobs(self, lines: IO[bytes], size: int) -> int:
        """Send lines of JSON as they are read; how many jobs were created."""
        connection = self.connection()
        headers = {"Content-Type": "application/x-ndjson", "Content-Length": str(size)}
        connection.request("POST", "/api/v1/jobs/import", body=lines, headers=headers)
        answer = connection.getresponse()
        created = sum(b'"created"' in line for line in answer)
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"the import was answered with {answer.status}")
        return created

    @property
    def peak_mib(self) -> float:
        """Return the peak of the resident memory."""
        lines = Path(f"/proc/{self.pid}/status").read_text("utf-8").splitlines()
        [kib] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
        return int(kib) / 1_024

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait_until_serving(self) -> str:
        end = time.monotonic() + _START_LIMIT
        while time.monotonic() < end and self._process.poll() is None:
            for line in self._log.read_bytes().splitlines():
                if b'"serving"' in line:
                    return str(urlsplit(json.loads(line)["http"]).netloc)
            time.sleep(0.02)
        self.stop()
        raise RuntimeError(f"the server did not start:\n{self._log.read_text()[-2_000:]}")
