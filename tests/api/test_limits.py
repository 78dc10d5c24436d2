"""Rate limits, by arithmetic alone."""

import pytest

from hourbell.api.limits import Limits, LoginLimits, Repeats, address_group, stream_limits, too_many
from tests.api.house import Time


def test_a_burst_of_five_seconds_may_come_at_once_and_then_the_rate() -> None:
    time = Time()
    limits = Limits(10, elapsed=time.elapsed)

    assert [limits.take("a") for _ in range(50)] == [0.0] * 50
    assert limits.take("a") == pytest.approx(0.1)
    time.seconds += 0.1
    assert limits.take("a") == 0
    assert limits.take("a") > 0


def test_over_a_long_time_the_rate_holds() -> None:
    time = Time()
    limits = Limits(10, elapsed=time.elapsed)
    taken = 0
    for _ in range(10_000):
        taken += limits.take("a") == 0
        time.seconds += 0.01

    assert 1_049 <= taken <= 1_050  # 100 s of ten each, and the burst


def test_waiting_as_long_as_told_is_enough() -> None:
    time = Time()
    limits = Limits(3, elapsed=time.elapsed)
    while not (wait := limits.take("a")):
        pass
    time.seconds += wait

    assert limits.take("a") == 0


def test_callers_do_not_meet() -> None:
    limits = Limits(1, elapsed=Time().elapsed)
    while not limits.take("a"):
        pass

    assert limits.take("b") == 0


def test_a_rate_of_zero_is_no_limit() -> None:
    limits = Limits(0, elapsed=Time().elapsed)

    assert {limits.take("a") for _ in range(10_000)} == {0.0}


def test_only_so_many_callers_are_remembered() -> None:
    limits = Limits(1, elapsed=Time().elapsed, max_callers=100)
    for number in range(1_000):
        limits.take(str(number))

    assert len(limits._buckets) == 100


def test_a_clock_that_stands_still_gives_nothing_back() -> None:
    limits = Limits(1, elapsed=lambda: 0.0)

    assert sum(limits.take("a") == 0 for _ in range(100)) == 5


def test_wrong_logins_wait_twice_as_long_each_time_up_to_an_hour() -> None:
    time = Time()
    logins, waits = LoginLimits(elapsed=time.elapsed), []
    for _ in range(8):
        while not (wait := logins.begin("a")):
            pass
        waits.append(wait)
        time.seconds += wait

    assert waits == [60, 120, 240, 480, 960, 1_920, 3_600, 3_600]


def test_ten_logins_a_minute_are_looked_at_without_end() -> None:
    time = Time()
    logins = LoginLimits(elapsed=time.elapsed)
    for _ in range(100):
        assert logins.begin("a") == 0
        time.seconds += 6.1


def test_asking_again_does_not_make_the_wait_longer() -> None:
    time = Time()
    logins = LoginLimits(elapsed=time.elapsed)
    for _ in range(11):
        logins.begin("a")
    time.seconds += 59

    assert [logins.begin("a") for _ in range(50)] == [1.0] * 50


def test_many_logins_at_once_count_before_their_answers_are_known() -> None:
    logins = LoginLimits(elapsed=Time().elapsed)

    assert sum(logins.begin("a") == 0 for _ in range(1_000)) == 10


def test_a_right_login_does_not_forgive_the_wrong_ones() -> None:
    logins = LoginLimits(elapsed=Time().elapsed)
    for _ in range(9):
        logins.begin("a")
    for _ in range(5):
        assert logins.begin("a") == 0
        logins.succeeded("a")

    assert logins.begin("a") == 0
    assert logins.begin("a") == 60


def test_after_a_quiet_time_all_is_forgiven() -> None:
    time = Time()
    logins = LoginLimits(elapsed=time.elapsed)
    for _ in range(11):
        logins.begin("a")
    time.seconds += 60 + 7_201
    while not (wait := logins.begin("a")):
        pass

    assert wait == 60


def test_only_so_many_places_are_remembered() -> None:
    logins = LoginLimits(elapsed=Time().elapsed, max_callers=100)
    for number in range(1_000):
        logins.begin(str(number))

    assert len(logins._tries) == 100


@pytest.mark.parametrize(
    ("ip", "group"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("", ""),
        ("somewhere", "somewhere"),
    ],
)
def test_the_hosts_of_one_ipv6_network_are_one_group(ip: str, group: str) -> None:
    assert address_group(ip) == group


@pytest.mark.parametrize(("wait", "seconds"), [(0.01, "1"), (1.0, "1"), (1.2, "2"), (60.0, "60")])
def test_who_comes_too_often_is_told_whole_seconds(wait: float, seconds: str) -> None:
    assert too_many(wait).headers == {"Retry-After": seconds}


def test_a_caller_has_so_many_streams_and_the_process_so_many() -> None:
    streams = stream_limits(2, 3)
    begun = [streams.begin(caller) for caller in ("a", "a", "a", "b", "c")]

    assert [each and each.status for each in begun] == [None, None, 429, None, 503]
    streams.end("a")
    assert streams.begin("a") is None


def test_equal_log_lines_are_written_once_a_minute_with_the_number_left_out() -> None:
    time = Time()
    repeats = Repeats(elapsed=time.elapsed)
    written = [repeats.admit("a") for _ in range(3)] + [repeats.admit("b")]
    time.seconds += 60

    assert written == [0, None, None, 0]
    assert repeats.admit("a") == 2


def test_only_so_many_kinds_of_lines_are_remembered() -> None:
    repeats = Repeats(elapsed=Time().elapsed, max_keys=100)
    for number in range(1_000):
        repeats.admit(str(number))

    assert len(repeats._seen) == 100
