"""The runner's record of lanes with ready runs, the targets that serve them, and the size of its claims."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hourbell.store.base import LaneDemand
from hourbell.targets.base import Target

MAX_CLAIM_RUNS = 500  # at once; larger claims would be sent, and then answered, in bursts
_POLL_SECONDS = 1.0
_MIN_POLL_SECONDS = 0.1  # at least, also when hints come faster
_FIRST_PORTION = 100  # small, so that runs start soon; while there are more, each portion is twice as large
_MAX_LANE_RUNS = 25  # max runs per lane when there are many lanes; halved while lanes have fewer ready runs


@dataclass(slots=True)
class Lanes:
    """The known ready time of each lane's first run, from the last scan of the database and from hints since."""

    ready_at: dict[str, datetime] = field(default_factory=dict)
    polled_at: float = float("-inf")
    poll_at: float = float("-inf")
    is_stale: bool = False  # runs were added or claimed since the scan, so that it does not show what is ready next
    hinted: set[str] = field(default_factory=set)  # lanes that got runs since the last claim began

    def is_poll_due(self, elapsed: float) -> bool:
        """Return True if a scan is due; while there are hinted lanes, it is delayed a little to claim those first."""
        return elapsed >= self.poll_at + (_MIN_POLL_SECONDS if self.hinted else 0.0)

    def begin_poll(self, elapsed: float) -> None:
        self.polled_at = elapsed
        self.poll_at = elapsed + _POLL_SECONDS
        self.is_stale = False

    def poll_failed(self) -> None:
        """Record a failed scan: the next scan is due at once."""
        self.poll_at = self.polled_at

    def rescan(self, elapsed: float) -> None:
        """Schedule a scan soon, because runs were added to unknown lanes."""
        self.poll_at = min(self.poll_at, max(self.polled_at + _MIN_POLL_SECONDS, elapsed))

    def seen(self, ready_at: dict[str, datetime]) -> None:
        """Record the result of a scan; known lanes and those hinted since keep their position in the order of turns."""
        hinted = {lane: self.ready_at[lane] for lane in self.hinted if lane in self.ready_at}
        found = ready_at | hinted
        self.ready_at = {lane: found[lane] for lane in self.ready_at if lane in found} | found

    def hint(self, lanes: Iterable[str], now: datetime) -> None:
        """Record that runs were added to these lanes."""
        self.is_stale = True
        for lane in lanes:
            self.hinted.add(lane)
            self.ready_at[lane] = now

    def ready(self, now: datetime) -> list[str]:
        """Return the lanes with a ready run, in the order of their turns."""
        return [lane for lane, ready_at in self.ready_at.items() if ready_at <= now]

    def next_ready_at(self, now: datetime) -> datetime | None:
        return min((at for at in self.ready_at.values() if at > now), default=None)

    def begin_claim(self) -> None:
        self.hinted.clear()

    def answered(self, demands: Iterable[LaneDemand], claimed: Mapping[str, int]) -> None:
        """Update the lanes after a claim.

        A lane that gave all requested runs moves to the end of the order, and so does one to which runs were added
        meanwhile; any other lane has no more ready runs until the next scan.
        """
        for demand in demands:
            ready_at = self.ready_at.pop(demand.lane, None)
            has_more = claimed.get(demand.lane, 0) >= demand.free or demand.lane in self.hinted
            if ready_at is not None and has_more:
                self.ready_at[demand.lane] = ready_at


class Served:
    """The mapping from lanes to the targets that serve them, at the time of its creation."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self._by_name: dict[str, Target] = {}
        self._by_prefix: list[tuple[str, Target]] = []
        for target in targets:
            for lane in target.lanes():
                if lane.endswith("*"):
                    self._by_prefix.append((lane[:-1], target))
                else:
                    self._by_name.setdefault(lane, target)

    def target(self, lane: str) -> Target | None:
        """Return the target of a lane; an exact name takes precedence over a prefix."""
        by_name = self._by_name.get(lane)
        if by_name is not None:
            return by_name
        return next((target for prefix, target in self._by_prefix if lane.startswith(prefix)), None)


@dataclass(slots=True)
class Portion:
    """The number of runs to claim at once, and the share of a lane when there are many lanes."""

    size: int = _FIRST_PORTION
    share: int = _MAX_LANE_RUNS

    def of_lane(self, lanes: int) -> int:
        """Return how many runs to request from each of so many lanes.

        Claims of one run per lane would let the connections of a lane idle and be closed between its turns.
        """
        return max(-(-self.size // max(1, lanes)), self.share)

    def learn(self, demands: Iterable[LaneDemand], claimed: Counter[str]) -> None:
        """Grow the portion while claims return all that was requested; else reset it and request less per lane."""
        has_more = claimed.total() >= sum(demand.free for demand in demands)
        self.size = min(2 * self.size, MAX_CLAIM_RUNS) if has_more else _FIRST_PORTION
        self.share = min(2 * self.share, _MAX_LANE_RUNS) if has_more else max(1, self.share // 2)
