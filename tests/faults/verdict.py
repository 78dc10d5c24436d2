"""The promises of a campaign scenario, and the observations."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

Backend = Literal["postgres", "sqlite"]


@dataclass(frozen=True, slots=True)
class Setting:
    """The environment of a scenario: folder, seed and scale; 1.0 is the size of `make campaign`."""

    backend: Backend
    folder: Path
    random: Random
    scale: float = 1.0

    def sized(self, full: int, least: int = 1) -> int:
        return max(least, round(full * self.scale))


@dataclass(frozen=True, slots=True)
class Check:
    """A promise: the expected value, the observed one, and whether they match."""

    promise: str
    wanted: str
    seen: str
    holds: bool


@dataclass(slots=True)
class Verdict:
    """The end of a scenario. `figures` are reported and promise nothing."""

    scenario: str
    backend: Backend
    checks: list[Check] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        return bool(self.checks) and all(check.holds for check in self.checks)

    def equal(self, promise: str, wanted: object, seen: object) -> None:
        self.checks.append(Check(promise, str(wanted), str(seen), wanted == seen))

    def at_least(self, promise: str, wanted: float, seen: float) -> None:
        self.checks.append(Check(promise, f"≥ {wanted:g}", f"{seen:g}", seen >= wanted))

    def at_most(self, promise: str, wanted: float, seen: float) -> None:
        self.checks.append(Check(promise, f"≤ {wanted:g}", f"{seen:g}", seen <= wanted))

    def as_json(self) -> Mapping[str, Any]:
        return {
            "scenario": self.scenario,
            "backend": self.backend,
            "holds": self.holds,
            "seconds": round(self.seconds, 1),
            "checks": [
                {"promise": check.promise, "wanted": check.wanted, "seen": check.seen, "holds": check.holds}
                for check in self.checks
            ],
            "figures": self.figures,
        }


Scenario = Callable[[Setting], Awaitable[Verdict]]
