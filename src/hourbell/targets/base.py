"""The one method of a target."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from hourbell.core.job import Definition
from hourbell.core.run import Run
from hourbell.core.settle import Outcome


async def _may_begin() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Call:
    """One attempt to make.

    `begin` is awaited just before the first thing happens that cannot be taken back; if it answers False, the attempt
    is no longer this node's, nothing may happen, and the outcome is `Unstarted`.
    """

    run: Run
    definition: Definition
    now: datetime
    begin: Callable[[], Awaitable[bool]] = field(default=_may_begin)

    @property
    def payload(self) -> object:
        return self.definition.payload if self.run.payload is None else self.run.payload

    @property
    def lateness(self) -> timedelta:
        return self.now - self.run.scheduled_at


class Target(Protocol):
    def lanes(self) -> tuple[str, ...]:
        """The lanes it serves: names, or prefixes that end in `*`."""

    def slots(self, lane: str) -> int | None:
        """How many attempts a node may make at once in a lane; None for as many as it has slots."""

    async def deliver(self, call: Call) -> Outcome:
        """Make one attempt. Cancelling it stops the attempt as far as that is possible."""

    async def close(self) -> None:
        """Give back what it holds."""
