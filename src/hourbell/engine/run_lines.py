"""Log lines of ended runs: one line each while they are few, a summary each second while they are many."""

import logging
from collections import Counter
from collections.abc import Callable

from hourbell.core.run.states import RunState

log = logging.getLogger("hourbell.engine")

MAX_LINES_PER_SECOND = 50  # for each final state, so that successes do not hide failures


class RunLines:
    """Counts the lines of the current second. What gets no line is counted, and logged when the second is over."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._second = int(elapsed())
        self._lines: Counter[RunState] = Counter()
        self._counted: Counter[RunState] = Counter()

    @property
    def has_summary(self) -> bool:
        return bool(self._counted)

    def room(self, state: RunState) -> int:
        """Return how many lines a state may still have in this second."""
        if int(self._elapsed()) != self._second:
            self.flush()
        return MAX_LINES_PER_SECOND - self._lines[state]

    def write(self, state: RunState) -> bool:
        """Return True if a run that ended so gets a line; else it is counted."""
        if self.room(state) > 0:
            self._lines[state] += 1
            return True
        self._counted[state] += 1
        return False

    def count(self, state: RunState, runs: int) -> None:
        """Count runs without a line."""
        if runs:
            self._counted[state] += runs

    def flush(self) -> None:
        """Begin a new second, and log the summary of the last one, if any run had no line."""
        if failed := self._counted.pop(RunState.FAILED, 0):
            log.error("runs_failed", extra={"count": failed, "hint": "`hourbell run failed` lists them"})
        if self._counted:
            counts = {state.value: count for state, count in sorted(self._counted.items())}
            log.info("runs_ended", extra=counts)
        self._second = int(self._elapsed())
        self._lines.clear()
        self._counted.clear()
