"""A receiver that is down gets one attempt at a time, with growing pauses, and one that hangs gets a few; both get
everything again once they answer."""

from hourbell.targets.http.breaker import SILENT_SECONDS, SILENT_SLOTS, TRIP_AFTER, Breaker


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


def test_a_tripped_lane_pauses_and_then_gets_one_attempt_at_a_time() -> None:
    clock = Clock()
    breaker = tripped(clock)

    assert breaker.slots("a", 100) == 0
    clock.now = 1.0
    assert breaker.slots("a", 100) == 1


def test_other_lanes_are_not_affected() -> None:
    assert tripped(Clock()).slots("b", 100) == 100


def test_an_answer_closes_the_circuit_again() -> None:
    breaker = tripped(Clock())
    breaker.well("a")
    assert breaker.slots("a", 100) == 100


def test_each_failed_attempt_lengthens_the_pause_up_to_half_a_minute() -> None:
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


def test_attempts_in_progress_when_it_tripped_do_not_lengthen_the_pause() -> None:
    clock = Clock()
    breaker = tripped(clock, 100)

    clock.now = 1.0
    assert breaker.slots("a", 100) == 1


def test_an_open_circuit_is_logged_once() -> None:
    breaker = Breaker(Clock())
    assert [breaker.unwell("a") for _ in range(TRIP_AFTER + 2)].count(True) == 1


def silent(clock: Clock, seconds: float, *, answered_after: float | None = None) -> Breaker:
    """A lane with calls out and no answer for so long; before that, perhaps, one that took a while."""
    breaker = Breaker(clock)
    began = breaker.begin("a")
    for _ in range(99):
        breaker.begin("a")
    if answered_after is not None:
        clock.now += answered_after
        breaker.well("a", began)
        breaker.end("a")
    clock.now += seconds
    return breaker


def test_a_lane_whose_calls_hang_shrinks_to_a_few_slots_until_it_answers() -> None:
    clock = Clock()
    breaker = silent(clock, SILENT_SECONDS)
    assert breaker.slots("a", 100) == 100
    clock.now += 0.1
    assert (breaker.slots("a", 100), breaker.slots("a", 2), breaker.slots("b", 100)) == (SILENT_SLOTS, 2, 100)

    breaker.well("a", 0.0)
    assert breaker.slots("a", 100) == 100


def test_a_receiver_that_always_takes_twenty_seconds_keeps_its_slots() -> None:
    assert silent(Clock(), 30, answered_after=20).slots("a", 100) == 100
    assert silent(Clock(), 41, answered_after=20).slots("a", 100) == SILENT_SLOTS


def test_quick_answers_make_a_slow_one_forgotten() -> None:
    clock = Clock()
    breaker = silent(clock, 0, answered_after=20)
    for _ in range(40):
        breaker.well("a", clock.now)
    clock.now += SILENT_SECONDS + 0.1

    assert breaker.slots("a", 100) == SILENT_SLOTS


def test_a_lane_without_calls_is_not_silent() -> None:
    clock = Clock()
    breaker = silent(clock, 60)
    for _ in range(100):
        breaker.end("a")

    assert breaker.slots("a", 100) == 100
