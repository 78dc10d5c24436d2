"""The output of a command in bounded memory: its first and last bytes, with the time of each line.

One thread adds; another may read meanwhile. Bytes become lines only when they are read, so that a flood costs little.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from threading import Lock
from typing import Any
from uuid import UUID

from hourbell.core.run.notes import MAX_TEXT_CHARACTERS, LogLine, Notes
from hourbell.core.values.sanitize import sanitize_text

MAX_PART_BYTES = 65_536  # of the first output, and of the last
MAX_PART_LINES = 500
_MAX_EXCERPT_CHARACTERS = 4_000
_MAX_PROGRESS_BYTES = 1_000
_PERCENT = re.compile(rb"\s*([0-9]{1,3}(?:\.[0-9]{1,6})?)\s?%\s*")

Chunk = tuple[datetime, bytearray]  # the time at which its first byte came


class Output:
    def __init__(self) -> None:
        self._lock = Lock()
        self._head: list[Chunk] = []
        self._head_bytes = 0
        self._tail: deque[Chunk] = deque()
        self._tail_bytes = 0
        self._dropped = 0
        self._remarks: list[LogLine] = []
        self._fraction: float | None = None
        self._message = ""

    def add(self, at: datetime, data: bytes) -> None:
        """Add output that has just come. A last line such as `42%`, or JSON with `progress`, sets the progress."""
        with self._lock:
            self._read_progress(data)
            free = MAX_PART_BYTES - self._head_bytes
            if free > 0:
                self._head_bytes += min(free, len(data))
                _append(self._head, at, data[:free])
            if len(data) > free:
                rest = data[max(free, 0) :]
                self._tail_bytes += len(rest)
                _append(self._tail, at, rest)
                self._trim()

    def remark(self, at: datetime, text: str) -> None:
        """Add a line of the node's own at the end."""
        with self._lock:
            self._remarks.append(LogLine(at, text))

    def notes(self, run_id: UUID, attempt: int) -> Notes:
        """Return the lines and the progress, as they are stored for an attempt."""
        return Notes(run_id, attempt, self._fraction, self._message, tuple(self.lines()))

    def lines(self) -> list[LogLine]:
        """Return the first and last lines, with a remark between them that says how much is left out."""
        with self._lock:
            head = [(at, bytes(data)) for at, data in self._head]
            tail = [(at, bytes(data)) for at, data in self._tail]
            dropped, remarks = self._dropped, list(self._remarks)
        if not dropped:
            lines = list(_lines([*head, *tail]))
            if len(lines) <= 2 * MAX_PART_LINES:
                return [*lines, *remarks]
            left_out = f"… {len(lines) - 2 * MAX_PART_LINES:,} lines left out …"
            first, last = lines[:MAX_PART_LINES], lines[-MAX_PART_LINES:]
        else:
            left_out = f"… about {dropped:,} bytes left out …"
            first, last = list(_lines(head))[:MAX_PART_LINES], list(_lines(tail))[-MAX_PART_LINES:]
        return [*first, LogLine(last[0].at, left_out), *last, *remarks]

    @property
    def excerpt(self) -> str:
        """The end of the output, for display."""
        text = "\n".join(line.text for line in self.lines())[-_MAX_EXCERPT_CHARACTERS:]
        return "".join(char if char in "\n\t" or char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)

    def last_lines(self, count: int) -> list[str]:
        """Return the last lines of the command that are not blank."""
        remarks = len(self._remarks)
        lines = self.lines()
        return [line.text for line in lines[: len(lines) - remarks] if line.text.strip()][-count:]

    def result(self) -> dict[str, Any] | None:
        """Return the JSON object on the last line of the output, if there is one."""
        with self._lock:
            data = b"".join(bytes(data) for _, data in (self._tail or self._head))
        line = data.rstrip().rpartition(b"\n")[2].strip()
        return _json_object(line)

    def _trim(self) -> None:
        """Drop the oldest of the last bytes, but never a part of the newest chunk."""
        while len(self._tail) > 1 and (
            self._tail_bytes - len(self._tail[0][1]) >= MAX_PART_BYTES or len(self._tail) > 2 * MAX_PART_LINES
        ):
            _, dropped = self._tail.popleft()
            self._tail_bytes -= len(dropped)
            self._dropped += len(dropped)

    def _read_progress(self, data: bytes) -> None:
        line = data.rstrip(b"\r\n").rpartition(b"\n")[2].rpartition(b"\r")[2]
        if len(line) > _MAX_PROGRESS_BYTES:
            return
        if (found := _PERCENT.fullmatch(line)) is not None and float(found[1]) <= 100:
            self._fraction, self._message = float(found[1]) / 100, ""
        elif (value := _json_object(line)) is not None:
            fraction = value.get("progress")
            if isinstance(fraction, (int, float)) and 0 <= fraction <= 1 and not isinstance(fraction, bool):
                self._fraction = float(fraction)
                self._message = sanitize_text(str(value.get("message") or "")[:MAX_TEXT_CHARACTERS])


def _append(chunks: "list[Chunk] | deque[Chunk]", at: datetime, data: bytes) -> None:
    """Append bytes; to the chunk before if its last line is not complete and it is not large."""
    if chunks and not chunks[-1][1].endswith(b"\n") and len(chunks[-1][1]) + len(data) <= MAX_PART_BYTES:
        chunks[-1][1].extend(data)
    else:
        chunks.append((at, bytearray(data)))


def _lines(chunks: Iterable[tuple[datetime, bytes]]) -> Iterator[LogLine]:
    """Split chunks into lines, each with the time at which its chunk came."""
    begun: tuple[datetime, bytes] | None = None
    for at, data in chunks:
        *whole, rest = data.split(b"\n")
        for line in whole:
            since, before = begun or (at, b"")
            yield _line(since, before + line)
            begun = None
        if rest:
            since, before = begun or (at, b"")
            begun = since, before + rest
    if begun is not None:
        yield _line(*begun)


def _line(at: datetime, data: bytes) -> LogLine:
    """Return a line as a terminal shows it: what comes after a carriage return overwrites what was before."""
    shown = data.rstrip(b"\r").rpartition(b"\r")[2][: 4 * MAX_TEXT_CHARACTERS]
    return LogLine(at, sanitize_text(shown.decode(errors="replace")[:MAX_TEXT_CHARACTERS]))


def _json_object(line: bytes) -> dict[str, Any] | None:
    if not (line.startswith(b"{") and line.endswith(b"}")):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
