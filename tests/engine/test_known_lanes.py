"""The runner's knowledge of lanes between two polls."""

from collections import Counter
from datetime import timedelta
from typing import cast

import pytest

from hourbell.engine.lanes import MAX_CLAIM_RUNS, Lanes, Portion, Served
from hourbell.store.base import LaneDemand
from hourbell.targets.base import Target
from tests.engine.virtual import START

SECOND = timedelta(seconds=1)
WANTS = [LaneDemand("a", 5), LaneDemand("b", 5)]


def test_a_lane_that_gave_less_than_wanted_is_not_asked_again_and_one_that_gave_all_goes_to_the_end() -> None:
    lanes = Lanes()
    lanes.seen({"a": START, "b": START, "c": START})
    lanes.begin_claim()
    lanes.answered(WANTS, Counter(a=5, b=4))

    assert lanes.ready(START) == ["c", "a"]


def test_a_lane_that_gave_nothing_has_no_more() -> None:
    lanes = Lanes()
    lanes.seen({"a": START})
    lanes.answered([LaneDemand("a", 1)], Counter())

    assert lanes.ready(START) == []


def test_runs_that_are_added_while_a_claim_is_under_way_are_not_forgotten() -> None:
    lanes = Lanes()
    lanes.hint(["a", "b"], START)
    lanes.begin_claim()
    lanes.hint(["b"], START)
    lanes.answered(WANTS, Counter(a=2, b=2))

    assert lanes.ready(START) == ["b"]


def test_a_scan_keeps_the_order_of_known_lanes() -> None:
    lanes = Lanes()
    lanes.seen({"a": START, "b": START})
    lanes.answered([LaneDemand("a", 1)], Counter(a=1))
    lanes.seen({"a": START, "b": START, "c": START})

    assert lanes.ready(START) == ["b", "a", "c"]


def test_a_lane_hinted_at_during_a_scan_is_not_forgotten() -> None:
    lanes = Lanes()
    lanes.begin_poll(0.0)
    lanes.hint(["b"], START)

    lanes.seen({"a": START})

    assert set(lanes.ready(START)) == {"a", "b"}


def test_a_portion_grows_while_there_is_more_and_asks_more_lanes_where_they_give_little() -> None:
    portion = Portion()
    first, share = portion.size, portion.of_lane(1_000)
    for _ in range(10):
        portion.learn(WANTS, Counter(a=5, b=5))
    assert (portion.size, portion.of_lane(1_000)) == (MAX_CLAIM_RUNS, share)

    for _ in range(10):
        portion.learn(WANTS, Counter(a=1))
    assert (portion.size, portion.of_lane(1_000)) == (first, 1)


class Serving:
    """A target that lists its lanes and counts the queries."""

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
    assert [served.target(lane) for lane in ("sql:default", "tasks", "https:/")] == [None, None, None]


def test_targets_are_asked_once_however_many_lanes_there_are() -> None:
    tasks = Serving(*(f"task:{number}" for number in range(1_000)))
    served = Served([cast(Target, tasks)])

    assert all(served.target(f"task:{number}") is tasks for number in range(1_000))
    assert tasks.asked == 1


def test_lanes_are_scanned_once_a_second_and_the_first_time_at_once() -> None:
    lanes = Lanes()
    assert (lanes.is_poll_due(-1e9), lanes.is_stale) == (True, False)
    lanes.is_stale = True

    lanes.begin_poll(10.0)

    assert [lanes.is_poll_due(at) for at in (10.0, 10.999, 11.0)] == [False, False, True]
    assert not lanes.is_stale


def test_hinted_lanes_go_before_a_scan_but_not_for_long() -> None:
    lanes = Lanes()
    lanes.begin_poll(10.0)
    lanes.hint(["a"], START)

    assert [lanes.is_poll_due(at) for at in (11.0, 11.099, 11.1)] == [False, False, True]
    assert lanes.is_stale
    lanes.begin_claim()
    assert lanes.is_poll_due(11.0)


def test_a_failed_scan_is_due_at_once() -> None:
    lanes = Lanes()
    lanes.begin_poll(10.0)
    lanes.poll_failed()

    assert [lanes.is_poll_due(at) for at in (9.999, 10.0)] == [False, True]


@pytest.mark.parametrize(
    ("elapsed", "due"),
    [(10.0, 10.1), (10.05, 10.1), (10.1, 10.1), (10.5, 10.5), (10.99, 10.99), (11.5, 11.0)],
)
def test_a_requested_scan_comes_a_tenth_of_a_second_after_the_last_one(elapsed: float, due: float) -> None:
    lanes = Lanes()
    lanes.begin_poll(10.0)

    lanes.rescan(elapsed)

    assert lanes.poll_at == pytest.approx(due)


def test_lanes_without_ready_runs_carry_the_time_of_the_first() -> None:
    lanes = Lanes()
    lanes.seen({"now": START, "soon": START + SECOND, "later": START + 2 * SECOND})

    assert lanes.ready(START) == ["now"]
    assert lanes.next_ready_at(START) == START + SECOND
    assert lanes.next_ready_at(START + 2 * SECOND) is None


def test_claims_double_in_size_while_everything_is_given_and_restart_small_otherwise() -> None:
    portion = Portion()
    sizes = [portion.size]
    for given in (100, 200, 400, 500, 499):
        portion.learn([LaneDemand("a", sizes[-1])], Counter(a=given))
        sizes.append(portion.size)

    assert sizes == [100, 200, 400, 500, 500, 100]


def test_a_lane_of_many_is_asked_for_its_part_and_at_least_a_share() -> None:
    portion = Portion()
    assert [portion.of_lane(lanes) for lanes in (0, 1, 3, 4, 50)] == [100, 100, 34, 25, 25]

    shares = []
    for given in (0, 0, 0, 0, 0, 0, 5, 5, 5, 5, 5):
        portion.learn([LaneDemand("a", 5)], Counter(a=given))
        shares.append(portion.share)
    assert shares == [12, 6, 3, 1, 1, 1, 2, 4, 8, 16, 25]
