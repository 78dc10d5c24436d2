"""Fair sharing of a node's slots among lanes, so that lanes whose calls hang leave room for lanes that respond.

A call in flight cannot be preempted, so slots must be reserved before they are needed. A lane is *proven* while its
calls end soon: its latest call did, and none has been in flight for long. Any other lane is on *probation*: it is new
to this node, or slow, or it hangs. `claimable_slots` applies three limits:

1. Calls claimed on probation take at most 16 slots and three quarters of the others: the rest is reserved for proven
   lanes.
2. A lane on probation takes slots while it holds less than half of the probation slots that are left. A few lanes get
   all they ask for, many lanes get few each, and some slots are left for one more lane, even if they ask in turn.
3. The last slots of a node go to lanes that hold few, so that proven lanes that begin to hang cannot take them all.

A node with at most 16 slots has none to reserve: there the first lanes to ask get them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

SMALL_NODE_SLOTS = 16
FEW_SLOTS = 4
SOON_SECONDS = 2.0  # a call that ends within them proves its lane
PROVEN_SECONDS = 600.0  # after its latest call, for which a lane stays proven
_MAX_PROVEN_LANES = 10_000  # before lanes that are no longer proven are removed


@dataclass(frozen=True, slots=True)
class SlotUse:
    """The slots of a node: how many there are, how many are free, and how many calls are in flight on probation."""

    slots: int
    free: int
    on_probation: int

    def after(self, taken: int, *, is_proven: bool) -> "SlotUse":
        """Return the slot use after a lane has taken so many slots."""
        return SlotUse(self.slots, self.free - taken, self.on_probation + (0 if is_proven else taken))


def claimable_slots(use: SlotUse, held: int, *, is_proven: bool) -> int:
    """Return how many more slots a lane may take that already holds `held`."""
    if use.slots <= SMALL_NODE_SLOTS:
        return max(0, use.free)
    last = last_slots(use.slots)
    if is_proven:
        return max(0, use.free - last, min(use.free, FEW_SLOTS - held))
    left = probation_slots(use.slots) - use.on_probation
    fair = max((left - 2 * held) // 3, int(held == 0))  # the lane then holds at most half of what is left
    return max(0, min(left, fair, max(use.free - last, min(use.free - last // 2, FEW_SLOTS - held))))


def probation_slots(slots: int) -> int:
    """Return the max number of a node's slots that calls on probation may take."""
    return slots - -(-max(0, slots - SMALL_NODE_SLOTS) // 4)


def last_slots(slots: int) -> int:
    """Return how many of a node's slots are reserved for lanes that hold few; half of them for proven lanes only."""
    return slots // 16 if slots > SMALL_NODE_SLOTS else 0


class Probation:
    """The record of proven lanes, and of the number of calls in flight on probation."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self.elapsed = elapsed
        self.calls = 0  # in flight on probation
        self._proven_at: dict[str, float] = {}
        self._slow: set[str] = set()  # lanes with a call that has been in flight for long

    def is_proven(self, lane: str) -> bool:
        proven_at = self._proven_at.get(lane)
        return proven_at is not None and lane not in self._slow and self.elapsed() - proven_at < PROVEN_SECONDS

    def ended(self, lane: str, taken_at: float) -> None:
        """Update the lane's status from a call that had begun and has ended."""
        now = self.elapsed()
        if now - taken_at <= SOON_SECONDS:
            self._proven_at[lane] = now
        else:
            self._proven_at.pop(lane, None)

    def observe(self, calls: Iterable[tuple[str, float]]) -> None:
        """Find slow lanes from the calls in flight, each with its lane and the time its slot was taken."""
        now = self.elapsed()
        self._slow = {lane for lane, taken_at in calls if now - taken_at > SOON_SECONDS}
        if len(self._proven_at) > _MAX_PROVEN_LANES:
            self._proven_at = {lane: at for lane, at in self._proven_at.items() if now - at < PROVEN_SECONDS}
