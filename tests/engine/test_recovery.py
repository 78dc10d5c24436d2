"""Recovery after a stop: the scenarios of failure-recovery.md, and state that survives every process."""

import pytest

from hourbell.core.run.policies import RETRY_PRESETS, CatchUp
from tests.engine.nodes import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    TAKEN_OVER,
    WARM_UP,
    Cluster,
    Fails,
    fail,
    hang,
    takes,
    virtually,
)
from tests.engine.virtual import START


async def add_birthday(cluster: Cluster, name: str, minutes: float) -> None:
    """A job that fires once, so many minutes from now."""
    at = (cluster.now() + minutes * MINUTE).replace(microsecond=0)
    await cluster.add_job(name, f"at {at:%Y-%m-%dT%H:%M:%S}", lane="birthday", catch_up=CatchUp.ALL)


@virtually
async def test_after_five_minutes_both_events_are_late_by_what_they_missed(cluster: Cluster) -> None:
    await add_birthday(cluster, "A", 2)
    await add_birthday(cluster, "B", 3)
    await cluster.advance(5 * MINUTE)
    await cluster.start()
    await cluster.advance(SECOND)

    assert {called.job: round(called.lateness / MINUTE) for called in cluster.calls} == {"A": 3, "B": 2}
    assert await cluster.states() == ["succeeded"] * 2
    await cluster.assert_accounted()


@virtually
async def test_seventy_events_missed_in_a_day_are_done_within_a_minute(cluster: Cluster) -> None:
    cluster.script["*"] = takes(SECOND / 2)
    for number in range(50):
        await add_birthday(cluster, f"first-{number}", 1 + number * 17)
    for number in range(20):
        await add_birthday(cluster, f"second-{number}", 15 * 60 + number * 27)
    await cluster.advance(DAY)
    await cluster.start(slots=1)
    await cluster.advance(MINUTE)

    assert await cluster.states() == ["succeeded"] * 70
    assert len(cluster.calls) == 70
    await cluster.assert_accounted()


@virtually
async def test_after_a_crash_in_the_middle_what_was_done_is_not_done_again(cluster: Cluster) -> None:
    cluster.script["*"] = takes(SECOND)
    for name in "ABCDE":
        await add_birthday(cluster, name, 1)
    first = await cluster.start(slots=1)
    await cluster.advance(MINUTE + 2.5 * SECOND)
    done = {called.job for called in cluster.calls if called.ended_at}
    first.crash()
    await cluster.advance(5 * MINUTE)
    second = await cluster.start()
    await cluster.advance(WARM_UP + REAP_AND_RUN)

    assert len(done) == 2
    again = {called.job for called in cluster.calls if called.node == second.number}
    assert again == set("ABCDE") - done
    assert await cluster.states() == ["succeeded"] * 5


REAP_AND_RUN = 8 * SECOND


@virtually
async def test_three_failures_a_minute_apart_and_then_a_dead_letter(cluster: Cluster) -> None:
    cluster.script["A"] = fail
    at = f"at {START + MINUTE:%Y-%m-%dT%H:%M:%S}"
    job = await cluster.add_job("A", at, retry=RETRY_PRESETS["fixed"], catch_up=CatchUp.ALL)
    await cluster.start()
    await cluster.advance(10 * MINUTE)

    began = cluster.started("A")
    assert [round((later - began[0]) / SECOND, 1) for later in began] == [0, 60, 120]
    [run] = await cluster.runs(job)
    assert (run["state"], run["reason"], run["failures"]) == ("failed", "exhausted", 3)
    assert [attempt["error"] for attempt in await cluster.attempts(run["id"])] == ["no"] * 3


@virtually
async def test_a_hundred_events_of_a_day_all_complete_after_it(cluster: Cluster) -> None:
    for number in range(100):
        await add_birthday(cluster, f"event-{number}", 1 + number * 14)
    await cluster.advance(DAY)
    await cluster.start()
    await cluster.advance(SECOND)

    assert await cluster.states() == ["succeeded"] * 100
    assert len({called.run_id for called in cluster.calls}) == len(cluster.calls) == 100
    await cluster.assert_accounted()


@virtually
async def test_an_event_that_was_done_is_never_done_again(cluster: Cluster) -> None:
    await add_birthday(cluster, "A", 1)
    for _ in range(3):
        node = await cluster.start()
        await cluster.advance(2 * MINUTE)
        await node.stop()
        await cluster.advance(HOUR)

    assert len(cluster.calls) == 1


@virtually
async def test_a_weekly_job_runs_although_no_process_lives_that_long(cluster: Cluster) -> None:
    job = await cluster.add_job(schedule="0 9 * * 3")
    for _ in range(4 * 28):
        node = await cluster.start()
        await cluster.advance(2 * SECOND)
        await node.stop()
        await cluster.advance(6 * HOUR - 2 * SECOND)

    runs = await cluster.runs(job)
    assert [run["scheduled_at"].isoweekday() for run in runs] == [3] * 4
    assert {run["state"] for run in runs} == {"succeeded"}
    await cluster.assert_accounted()


@virtually
async def test_a_retry_outlives_the_process_and_comes_when_it_was_due(cluster: Cluster) -> None:
    cluster.script["job"] = Fails(1)
    job = await cluster.add_job(schedule="0 * * * *")
    await cluster.advance_to(START + HOUR - SECOND)
    first = await cluster.start()
    await cluster.advance(3 * SECOND)
    await first.stop()
    await cluster.advance(10 * SECOND)
    await cluster.start()
    await cluster.advance(MINUTE)

    failed, succeeded = cluster.started()
    assert abs(succeeded - failed - 30 * SECOND) < SECOND / 10
    [run] = await cluster.runs(job)
    assert (run["state"], run["attempt"], run["failures"]) == ("succeeded", 2, 1)


@virtually
async def test_a_retry_missed_while_nobody_ran_comes_at_once(cluster: Cluster) -> None:
    cluster.script["job"] = Fails(1)
    await cluster.add_job(schedule="0 * * * *")
    await cluster.advance_to(START + HOUR - SECOND)
    first = await cluster.start()
    await cluster.advance(3 * SECOND)
    first.crash()
    await cluster.advance(10 * MINUTE)
    restarted_at = cluster.now()
    await cluster.start()
    await cluster.advance(SECOND)

    assert cluster.started()[1] - restarted_at < SECOND


@virtually
async def test_many_schedules_each_keep_their_own_time(cluster: Cluster) -> None:
    for number in range(100):
        await cluster.add_job(f"job-{number}", f"{number % 60} {number // 60} * * *", lane="shared")
    await cluster.advance_to(START + HOUR - 30 * SECOND)
    node = await cluster.start()
    await cluster.advance(10 * MINUTE)
    await node.stop()
    await cluster.assert_accounted()

    on_time = [called for called in cluster.calls if called.scheduled_at >= START + HOUR]
    assert len(on_time) == 10
    assert max(called.lateness for called in on_time) < SECOND / 10


ZONES = {
    "Asia/Kolkata": (3, 30),
    "America/New_York": (14, 0),
    "Pacific/Auckland": (20, 0),
    "UTC": (9, 0),
}


@virtually
async def test_nine_in_the_morning_is_nine_where_the_job_lives(cluster: Cluster) -> None:
    for zone in ZONES:
        await cluster.add_job(zone.replace("/", "-"), "0 9 * * *", timezone=zone)
    for hour, minute in sorted(ZONES.values()):
        at = START.replace(hour=hour, minute=minute)
        await cluster.advance_to(at - 2 * SECOND)
        node = await cluster.start()
        await cluster.advance(4 * SECOND)
        await node.stop()

    expected = {zone.replace("/", "-"): at for zone, at in ZONES.items()}
    assert {called.job: (called.started_at.hour, called.started_at.minute) for called in cluster.calls} == expected
    for run in await cluster.runs():
        assert run["local_at"].time().isoformat() == "09:00:00"
    await cluster.assert_accounted()


@virtually
async def test_daylight_saving_neither_loses_nor_doubles_a_day(cluster: Cluster) -> None:
    spring = await cluster.add_job("spring", "30 2 * * *", timezone="America/New_York", catch_up=CatchUp.ALL)
    autumn = await cluster.add_job("autumn", "30 1 * * *", timezone="America/New_York", catch_up=CatchUp.ALL)
    for _ in range(12):
        await cluster.advance(31 * DAY)
        node = await cluster.start(retention=1_000 * DAY)
        await cluster.advance(5 * SECOND)
        await node.stop()

    for job in (spring, autumn):
        days = [run["local_at"].date() for run in await cluster.runs(job)]
        assert len(days) == len(set(days)) == (days[-1] - days[0]).days + 1
    await cluster.assert_accounted()


@pytest.mark.parametrize("policy", ["latest", "earliest", "all", "none"])
def test_every_catch_up_policy_accounts_for_a_stop_of_two_hours(policy: str) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        job = await cluster.add_job(catch_up=CatchUp(policy))
        first = await cluster.start()
        await cluster.advance(3 * MINUTE + 30 * SECOND)
        await first.stop()
        stopped_at = cluster.now()
        await cluster.advance(2 * HOUR)
        await cluster.start()
        await cluster.advance(3 * SECOND)

        late = [run["scheduled_at"] for run in await cluster.runs(job) if run["scheduled_at"] > stopped_at]
        missed = [START + n * MINUTE for n in range(4, 124)]
        expected = {"latest": missed[-1:], "earliest": missed[:1], "all": missed, "none": missed[-1:]}
        assert late == expected[policy]  # the newest is just half a minute old: not missed
        await cluster.assert_accounted()

    test()


@virtually
async def test_a_job_in_error_among_a_thousand_spares_the_others(cluster: Cluster) -> None:
    for number in range(1_000):
        await cluster.add_job(f"job-{number}", lane="shared")
    broken = {17: "schedule = 'x'", 400: "retry = '7'", 999: 'target = \'{"type":"mail"}\''}
    for number, change in broken.items():
        await cluster.sql(f"update hourbell.jobs set {change} where name = 'job-{number}'")
    await cluster.start()
    await cluster.advance(MINUTE + 2 * SECOND)

    in_error = {row["name"] for row in await cluster.rows("jobs") if row["error"]}
    assert in_error == {f"job-{number}" for number in broken}
    assert await cluster.states() == ["succeeded"] * 997
    assert max(called.lateness for called in cluster.calls) < SECOND


@virtually
async def test_a_busy_event_loop_is_late_and_loses_nothing(cluster: Cluster) -> None:
    """A task that holds the event loop for a minute and a half, and a second node that takes over."""
    busy = await cluster.add_job("busy", "0 * * * *")
    beside = await cluster.add_job("beside", catch_up=CatchUp.ALL)

    async def block(*_: object) -> object:
        cluster.time.block(90)
        return await takes(SECOND)(*_)  # type: ignore[arg-type]

    cluster.script["busy"] = block  # type: ignore[assignment]
    await cluster.advance_to(START + HOUR - 30 * SECOND)
    await cluster.start()
    await cluster.advance(5 * MINUTE)

    assert set(await cluster.states(busy)) == {"succeeded"}
    assert set(await cluster.states(beside)) == {"succeeded"}
    await cluster.assert_accounted()


@virtually
async def test_a_run_that_hangs_is_held_by_its_node_and_by_nobody_else(cluster: Cluster) -> None:
    cluster.script["job"] = hang
    await cluster.add_job(schedule="0 * * * *")
    await cluster.advance_to(START + HOUR - SECOND)
    await cluster.start_many(2)
    await cluster.advance(2 * TAKEN_OVER)

    assert len(cluster.calls) == 1
