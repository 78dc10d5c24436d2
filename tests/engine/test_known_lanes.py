"""What a runner knows of lanes between its looks at them."""

from collections import Counter
from typing import cast

from hourbell.engine.lanes import MOST_CLAIMED, Lanes, Portion, Served
from hourbell.store.base import Want
from hourbell.targets.base import Target
from tests.engine.virtual import START

WANTS = [Want("a", 5), Want("b", 5)]


def test_a_lane_that_gave_less_than_wanted_is_not_asked_again_and_one_that_gave_all_goes_to_the_end() -> None:
    lanes = Lanes()
    lanes.seen({"a": START, "b": START, "c": START})
    lanes.begin_claim()
    lanes.answered(WANTS, Counter(a=5, b=4))

    assert lanes.ready(START) == ["c", "a"]


def test_runs_that_are_added_while_a_claim_is_under_way_are_not_forgotten() -> None:
    lanes = Lanes()
    lanes.hint(["a", "b"], START)
    lanes.begin_claim()
    lanes.hint(["b"], START)
    lanes.answered(WANTS, Counter(a=2, b=2))

    assert lanes.ready(START) == ["b"]


def test_a_look_leaves_known_lanes_in_their_turn() -> None:
    lanes = Lanes()
    lanes.seen({"a": START, "b": START})
    lanes.answered([Want("a", 1)], Counter(a=1))
    lanes.seen({"a": START, "b": START, "c": START})

    assert lanes.ready(START) == ["b", "a", "c"]


def test_a_lane_that_is_hinted_at_during_a_look_is_not_forgotten() -> None:
    lanes = Lanes()
    lanes.begin_look(0.0)
    lanes.hint(["b"], START)

    lanes.seen({"a": START})

    assert set(lanes.ready(START)) == {"a", "b"}


def test_a_portion_grows_while_there_is_more_and_asks_more_lanes_where_they_give_little() -> None:
    portion = Portion()
    first, share = portion.size, portion.of_lane(1_000)
    for _ in range(10):
        portion.learn(WANTS, Counter(a=5, b=5))
    assert (portion.size, portion.of_lane(1_000)) == (MOST_CLAIMED, share)

    for _ in range(10):
        portion.learn(WANTS, Counter(a=1))
    assert (portion.size, portion.of_lane(1_000)) == (first, 1)


class Serving:
    """Says which lanes it serves, and counts how often it is asked."""

    def __init__(self, *lanes: str) -> None:
        self.asked = 0
        self._lanes = lanes

    def lanes(self) -> tuple[str, ...]:
        self.asked += 1
        return self._lanes


def test_a_target_serves_the_lanes_it_names_and_those_that_begin_as_it_says() -> None:
    tasks, all_of_them = Serving("task:a", "task:b"), Serving("task:*", "https://*")
    served = Served(cast(Target, target) for target in (all_of_them, tasks))

    assert [served.target(lane) for lane in ("task:a", "task:c", "https://example.com:443")] == [
        tasks,
        all_of_them,
        all_of_them,
    ]
    assert served.target("sql:default") is None


def test_targets_are_asked_once_however_many_lanes_there_are() -> None:
    tasks = Serving(*(f"task:{number}" for number in range(1_000)))
    served = Served([cast(Target, tasks)])

    assert all(served.target(f"task:{number}") is tasks for number in range(1_000))
    assert tasks.asked == 1
