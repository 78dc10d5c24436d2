"""Rate limits, by arithmetic alone."""

import asyncio

import pytest

from hourbell.api.limits import Limits, LoginLimits, Repeats, Turns, address_group, stream_limits, too_many
from hourbell.api.problems import Problem
from tests.api.house import Time


def test_a_burst_of_five_seconds_passes_at_once_and_then_the_rate_applies() -> None:
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


def test_a_caller_that_waits_for_retry_after_is_accepted() -> None:
    time = Time()
    limits = Limits(3, elapsed=time.elapsed)
    while not (wait := limits.take("a")):
        pass
    time.seconds += wait

    assert limits.take("a") == 0


def test_callers_do_not_share_a_limit() -> None:
    limits = Limits(1, elapsed=Time().elapsed)
    while not limits.take("a"):
        pass

    assert limits.take("b") == 0


def test_a_rate_of_zero_is_unlimited() -> None:
    limits = Limits(0, elapsed=Time().elapsed)

    assert {limits.take("a") for _ in range(10_000)} == {0.0}


def test_the_number_of_remembered_callers_is_limited() -> None:
    limits = Limits(1, elapsed=Time().elapsed, max_callers=100)
    for number in range(1_000):
        limits.take(str(number))

    assert len(limits._buckets) == 100


def test_no_tokens_are_refilled_while_the_clock_stands_still() -> None:
    limits = Limits(1, elapsed=lambda: 0.0)

    assert sum(limits.take("a") == 0 for _ in range(100)) == 5


def test_the_delay_after_wrong_logins_doubles_up_to_an_hour() -> None:
    time = Time()
    logins, waits = LoginLimits(elapsed=time.elapsed), []
    for _ in range(8):
        while not (wait := logins.begin("a")):
            pass
        waits.append(wait)
        time.seconds += wait

    assert waits == [60, 120, 240, 480, 960, 1_920, 3_600, 3_600]


def test_ten_logins_a_minute_are_always_checked() -> None:
    time = Time()
    logins = LoginLimits(elapsed=time.elapsed)
    for _ in range(100):
        assert logins.begin("a") == 0
        time.seconds += 6.1


def test_a_refused_attempt_does_not_extend_the_delay() -> None:
    time = Time()
    logins = LoginLimits(elapsed=time.elapsed)
    for _ in range(11):
        logins.begin("a")
    time.seconds += 59

    assert [logins.begin("a") for _ in range(50)] == [1.0] * 50


def test_simultaneous_logins_count_before_their_answers_are_known() -> None:
    logins = LoginLimits(elapsed=Time().elapsed)

    assert sum(logins.begin("a") == 0 for _ in range(1_000)) == 10


def test_a_correct_login_does_not_reset_the_wrong_ones() -> None:
    logins = LoginLimits(elapsed=Time().elapsed)
    for _ in range(9):
        logins.begin("a")
    for _ in range(5):
        assert logins.begin("a") == 0
        logins.succeeded("a")

    assert logins.begin("a") == 0
    assert logins.begin("a") == 60


def test_wrong_logins_are_forgotten_after_a_quiet_time() -> None:
    time = Time()
    logins = LoginLimits(elapsed=time.elapsed)
    for _ in range(11):
        logins.begin("a")
    time.seconds += 60 + 7_201
    while not (wait := logins.begin("a")):
        pass

    assert wait == 60


def test_the_number_of_remembered_addresses_is_limited() -> None:
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
def test_retry_after_is_rounded_up_to_whole_seconds(wait: float, seconds: str) -> None:
    assert too_many(wait).headers == {"Retry-After": seconds}


def test_streams_are_limited_per_caller_and_per_process() -> None:
    streams = stream_limits(2, 3)
    begun = [streams.begin(caller) for caller in ("a", "a", "a", "b", "c")]

    assert [each and each.status for each in begun] == [None, None, 429, None, 503]
    streams.end("a")
    assert streams.begin("a") is None


def test_repeated_log_lines_are_written_once_a_minute_with_the_number_suppressed() -> None:
    time = Time()
    repeats = Repeats(elapsed=time.elapsed)
    written = [repeats.admit("a") for _ in range(3)] + [repeats.admit("b")]
    time.seconds += 60

    assert written == [0, None, None, 0]
    assert repeats.admit("a") == 2


def test_the_number_of_remembered_log_keys_is_limited() -> None:
    repeats = Repeats(elapsed=Time().elapsed, max_keys=100)
    for number in range(1_000):
        repeats.admit(str(number))

    assert len(repeats._seen) == 100


@pytest.mark.anyio
async def test_only_some_requests_of_a_caller_wait_for_their_turn() -> None:
    turns, begun, go_on = Turns(2, waiting=3), [], asyncio.Event()

    async def ask(number: int, caller: str = "a") -> None:
        async with turns.turn(caller):
            begun.append(number)
            await go_on.wait()

    asked = [asyncio.create_task(ask(number)) for number in range(5)]
    await asyncio.sleep(0)
    with pytest.raises(Problem) as refused:
        await ask(5)
    other = asyncio.create_task(ask(6, "b"))
    await asyncio.sleep(0)
    assert (begun, refused.value.status) == ([0, 1, 6], 429)

    asked[3].cancel()
    go_on.set()
    await asyncio.wait([*asked, other])
    assert begun == [0, 1, 6, 2, 4]
    assert turns._callers == {}
