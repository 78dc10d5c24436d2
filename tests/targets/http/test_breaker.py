"""A receiver that is down gets one attempt at a time, with growing rests, and everything again once it answers."""

from hourbell.targets.http.breaker import TRIP_AFTER, Breaker


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def tripped(clock: Clock, failures: int = TRIP_AFTER) -> Breaker:
    breaker = Breaker(clock)
    for _ in range(failures):
        breaker.unwell("a")
    return breaker


def test_a_few_failures_change_nothing() -> None:
    assert tripped(Clock(), TRIP_AFTER - 1).slots("a", 100) == 100


def test_a_lane_that_tripped_rests_then_gets_one_attempt_at_a_time() -> None:
    clock = Clock()
    breaker = tripped(clock)

    assert breaker.slots("a", 100) == 0
    clock.now = 1.0
    assert breaker.slots("a", 100) == 1


def test_other_lanes_go_on() -> None:
    assert tripped(Clock()).slots("b", 100) == 100


def test_an_answer_opens_the_lane_again() -> None:
    breaker = tripped(Clock())
    breaker.well("a")
    assert breaker.slots("a", 100) == 100


def test_each_failed_attempt_makes_the_rest_longer_up_to_half_a_minute() -> None:
    clock = Clock()
    breaker = tripped(clock)
    rests = []
    for _ in range(8):
        began = clock.now
        while breaker.slots("a", 100) == 0:
            clock.now += 0.5
        rests.append(clock.now - began)
        breaker.unwell("a")

    assert rests == [1, 2, 4, 8, 16, 30, 30, 30]


def test_attempts_under_way_when_it_tripped_do_not_make_the_rest_longer() -> None:
    clock = Clock()
    breaker = tripped(clock, 100)

    clock.now = 1.0
    assert breaker.slots("a", 100) == 1


def test_tripping_is_told_once() -> None:
    breaker = Breaker(Clock())
    assert [breaker.unwell("a") for _ in range(TRIP_AFTER + 2)].count(True) == 1
