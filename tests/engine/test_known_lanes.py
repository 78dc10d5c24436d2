"""What a runner knows of lanes between its looks at them."""

from collections import Counter

from hourbell.engine.lanes import MOST_CLAIMED, Lanes, Portion
from hourbell.store.base import Want
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


def test_a_portion_grows_while_there_is_more_and_asks_more_lanes_where_they_give_little() -> None:
    portion = Portion()
    first, share = portion.size, portion.of_lane(1_000)
    for _ in range(10):
        portion.learn(WANTS, Counter(a=5, b=5))
    assert (portion.size, portion.of_lane(1_000)) == (MOST_CLAIMED, share)

    for _ in range(10):
        portion.learn(WANTS, Counter(a=1))
    assert (portion.size, portion.of_lane(1_000)) == (first, 1)
