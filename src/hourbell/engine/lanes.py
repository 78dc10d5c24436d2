"""What a runner knows of the lanes with work, who serves them, and how much it asks of them at once."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hourbell.store.base import Want
from hourbell.targets.base import Target

MOST_CLAIMED = 500  # at once; more of them would be sent, and then answered, all together
_LOOK_EVERY = 1.0
_BETWEEN_LOOKS = 0.1  # at least, also when hints come faster
_FIRST_PORTION = 100  # a few are under way soon; while there are more, each portion is twice as large
_LARGEST_SHARE = 25  # that a lane of many is asked for; where lanes give less, more of them are asked


@dataclass(slots=True)
class Lanes:
    """When the first run of each is ready, as far as it is known: by a look, and by hints since."""

    ready_at: dict[str, datetime] = field(default_factory=dict)
    looked_at: float = float("-inf")
    look_at: float = float("-inf")
    is_stale: bool = False  # something happened since the look, so that it hides what is ready next
    hinted: set[str] = field(default_factory=set)  # runs were added there since the last claim began

    def is_look_due(self, elapsed: float) -> bool:
        """What was hinted at goes first, and the look waits for it, but not long."""
        return elapsed >= self.look_at + (_BETWEEN_LOOKS if self.hinted else 0.0)

    def begin_look(self, elapsed: float) -> None:
        self.looked_at = elapsed
        self.look_at = elapsed + _LOOK_EVERY
        self.is_stale = False

    def look_failed(self) -> None:
        """Nothing was learned: the next look is due at once."""
        self.look_at = self.looked_at

    def look_again(self, elapsed: float) -> None:
        """Somebody added runs somewhere."""
        self.look_at = min(self.look_at, max(self.looked_at + _BETWEEN_LOOKS, elapsed))

    def seen(self, ready_at: dict[str, datetime]) -> None:
        """What a look found; lanes that are known keep their place in the line, and so do those hinted at since."""
        hinted = {lane: self.ready_at[lane] for lane in self.hinted if lane in self.ready_at}
        found = ready_at | hinted
        self.ready_at = {lane: found[lane] for lane in self.ready_at if lane in found} | found

    def hint(self, lanes: Iterable[str], now: datetime) -> None:
        """Runs were added to these."""
        self.is_stale = True
        for lane in lanes:
            self.hinted.add(lane)
            self.ready_at[lane] = now

    def ready(self, now: datetime) -> list[str]:
        """Lanes with a run that is ready, those first whose turn it is."""
        return [lane for lane, ready_at in self.ready_at.items() if ready_at <= now]

    def next_ready_at(self, now: datetime) -> datetime | None:
        return min((at for at in self.ready_at.values() if at > now), default=None)

    def begin_claim(self) -> None:
        self.hinted.clear()

    def answered(self, wants: Iterable[Want], claimed: Mapping[str, int]) -> None:
        """A lane that gave all that was wanted goes to the end of the line, and so does one to which runs were added
        meanwhile; any other has no more until the next look."""
        for want in wants:
            ready_at = self.ready_at.pop(want.lane, None)
            has_more = claimed.get(want.lane, 0) >= want.free or want.lane in self.hinted
            if ready_at is not None and has_more:
                self.ready_at[want.lane] = ready_at


class Served:
    """Which target serves a lane, as the targets say at this moment."""

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
        """Who names the lane goes before who serves all that begin like it."""
        by_name = self._by_name.get(lane)
        if by_name is not None:
            return by_name
        return next((target for prefix, target in self._by_prefix if lane.startswith(prefix)), None)


@dataclass(slots=True)
class Portion:
    """How many runs are claimed at once, and the most that one lane of many is asked for."""

    size: int = _FIRST_PORTION
    share: int = _LARGEST_SHARE

    def of_lane(self, lanes: int) -> int:
        """What each of so many lanes is asked for. Taken one by one, their connections would idle and be closed."""
        return max(-(-self.size // max(1, lanes)), self.share)

    def learn(self, wants: Iterable[Want], claimed: Counter[str]) -> None:
        """Ask for more while all that is wanted is given, else for little, and of more lanes."""
        has_more = claimed.total() >= sum(want.free for want in wants)
        self.size = min(2 * self.size, MOST_CLAIMED) if has_more else _FIRST_PORTION
        self.share = min(2 * self.share, _LARGEST_SHARE) if has_more else max(1, self.share // 2)
