"""How the lanes of a node share its slots, so that lanes whose calls hang leave room for lanes that answer.

A call that is out cannot be taken back, so slots must be kept free before they are needed. A lane is *proven* while its
calls end soon: its latest call did, and none has been out for long. Any other lane is on *probation*: it is new to this
node, or slow, or it hangs. Three limits follow, in `claimable_slots`:

1. Calls claimed on probation take at most three quarters of the slots: the rest is kept for proven lanes.
2. A lane on probation takes slots while it holds less than half of what is left free of those three quarters. A few
   lanes get all they ask for, many get little each, and some are left for one more lane, also if they come in turn.
3. The last slots of a node go to lanes that hold few, so that proven lanes that begin to hang cannot take them all.

A node with few slots has none to spare: there they go to whoever comes first.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

SMALL_NODE_SLOTS = 16
FEW_SLOTS = 4
SOON_SECONDS = 2.0  # a call that ends within them proves its lane
PROVEN_SECONDS = 600.0  # after its latest call
_MAX_PROVEN_LANES = 10_000  # before those proven too long ago are forgotten


@dataclass(frozen=True, slots=True)
class SlotUse:
    """The slots of a node: how many there are, how many are free, and how many calls are out on probation."""

    slots: int
    free: int
    on_probation: int

    def after(self, taken: int, *, is_proven: bool) -> "SlotUse":
        """The slots once a lane has taken so many of them."""
        return SlotUse(self.slots, self.free - taken, self.on_probation + (0 if is_proven else taken))


def claimable_slots(use: SlotUse, held: int, *, is_proven: bool) -> int:
    """Return how many more slots a lane may take that holds so many already."""
    if use.slots <= SMALL_NODE_SLOTS:
        return max(0, use.free)
    last = last_slots(use.slots)
    if is_proven:
        return max(0, use.free - last, min(use.free, FEW_SLOTS - held))
    left = probation_slots(use.slots) - use.on_probation
    fair = max((left - 2 * held) // 3, int(held == 0))  # it then holds half of what is left, at most
    return max(0, min(left, fair, max(use.free - last, min(use.free - last // 2, FEW_SLOTS - held))))


def probation_slots(slots: int) -> int:
    """Return how many of a node's slots calls on probation may take."""
    return slots - -(-max(0, slots - SMALL_NODE_SLOTS) // 4)


def last_slots(slots: int) -> int:
    """Return how many of a node's slots are kept for lanes that hold few; half of them for those that are proven."""
    return slots // 16 if slots > SMALL_NODE_SLOTS else 0


class Probation:
    """Which lanes are proven, and how many calls are out on probation."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self.elapsed = elapsed
        self.calls = 0  # out on probation
        self._proven_at: dict[str, float] = {}
        self._slow: set[str] = set()  # lanes with a call that has been out for long

    def is_proven(self, lane: str) -> bool:
        proven_at = self._proven_at.get(lane)
        return proven_at is not None and lane not in self._slow and self.elapsed() - proven_at < PROVEN_SECONDS

    def ended(self, lane: str, taken_at: float) -> None:
        """Learn from a call that had begun and has ended."""
        now = self.elapsed()
        if now - taken_at <= SOON_SECONDS:
            self._proven_at[lane] = now
        else:
            self._proven_at.pop(lane, None)

    def look(self, calls: Iterable[tuple[str, float]]) -> None:
        """Learn from the calls that are out, each with its lane and when it was taken."""
        now = self.elapsed()
        self._slow = {lane for lane, taken_at in calls if now - taken_at > SOON_SECONDS}
        if len(self._proven_at) > _MAX_PROVEN_LANES:
            self._proven_at = {lane: at for lane, at in self._proven_at.items() if now - at < PROVEN_SECONDS}
