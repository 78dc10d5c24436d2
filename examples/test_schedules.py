"""Tests of schedules and tasks, to copy. They need pytest and Hourbell, and no server: a weekend takes milliseconds."""

from datetime import timedelta

import pytest

from hourbell import Scheduler

scheduler = Scheduler(source="examples")


@scheduler.job("30 2 * * *", name="nightly", timezone="Europe/Berlin")
def close_the_day(run):
    return {"day": f"{run.scheduled_at:%Y-%m-%d}"}


@scheduler.job("0 * * * *", name="import", overlap="skip", timeout="4h")
async def import_orders(run):
    return {"hour": run.scheduled_at.hour}


def test_the_weekly_report_goes_out_on_mondays(fires):
    mondays = fires("0 9 * * 1", between=("2026-10-12", "2026-10-31"), timezone="Europe/Paris")

    assert mondays == ["2026-10-12T09:00+02:00", "2026-10-19T09:00+02:00", "2026-10-26T09:00+01:00"]


def test_the_night_without_half_past_two_has_its_run_too(hourbell):
    hourbell.at("2026-03-28T00:00", "Europe/Berlin")
    hourbell.load(scheduler)

    hourbell.advance("3d")

    assert [run.local for run in hourbell.runs("nightly")] == [
        "2026-03-28T02:30+01:00",
        "2026-03-29T03:00+02:00",  # 02:30 does not exist
        "2026-03-30T02:30+02:00",
    ]
    assert hourbell.runs("nightly")[0].result == {"day": "2026-03-28"}


def test_the_night_with_two_half_past_twos_has_one_run(fires):
    night = ("2026-10-25", "2026-10-25")

    assert fires(scheduler.jobs["nightly"], between=night) == ["2026-10-25T02:30+02:00"]


def test_after_six_hours_of_outage_the_night_is_made_up_for_once(hourbell):
    hourbell.at("2026-06-01T00:00", "Europe/Berlin")
    hourbell.load(scheduler)
    hourbell.outage("2026-06-02T01:00", "2026-06-02T07:00")

    hourbell.advance("2d")

    on_time, late = hourbell.runs("nightly")
    assert on_time.lateness == timedelta(0)
    assert (late.local, late.lateness) == ("2026-06-02T02:30+02:00", timedelta(hours=4, minutes=30))
    assert hourbell.runs("import")[-1].state == "succeeded"
    assert [skip.reason for skip in hourbell.skips("import")] == ["missed"]  # the newest instant counts for all


def test_a_task_that_fails_is_tried_four_times(hourbell):
    flaky = Scheduler(source="examples")

    @flaky.job("0 9 * * *", name="pay")
    def pay(run):
        raise ConnectionError(f"the bank does not answer, attempt {run.attempt}")

    hourbell.load(flaky)
    hourbell.advance("10h")

    [run] = hourbell.runs("pay")
    waits = [attempt.started_at - run.scheduled_at for attempt in run.attempts]
    assert waits == [timedelta(seconds=seconds) for seconds in (0, 30, 30 + 120, 30 + 120 + 600)]
    assert (run.state, run.reason) == ("failed", "exhausted")
    assert "the bank does not answer, attempt 4" in run.error


def test_an_import_that_takes_too_long_is_not_started_twice(hourbell):
    hourbell.load(scheduler)
    hourbell.takes("import", "2h30m")

    hourbell.advance("6h")

    first, second = hourbell.runs("import")
    assert second.started_at >= first.finished_at
    assert [(skip.count, skip.reason) for skip in hourbell.skips("import")] == [(2, "overlap"), (2, "overlap")]


def test_a_webhook_is_sent_again_until_its_receiver_is_well(hourbell):
    url = "https://shop.example/hooks/stock"
    hourbell.add(
        name="stock",
        schedule="0 6 * * *",
        target={"type": "http", "url": url},
        payload={"warehouse": 7},
        retry={"attempts": 3, "backoff": ["1m"]},
    )
    hourbell.answer(url, status=503, times=2)

    hourbell.advance("7h")

    [run] = hourbell.runs("stock")
    assert [attempt.status_code for attempt in run.attempts] == [503, 503, 200]
    assert [request.json()["payload"] for request in hourbell.webhooks] == 3 * [{"warehouse": 7}]
    assert {request.headers["webhook-id"] for request in hourbell.webhooks} == {str(run.id)}


def test_a_run_by_hand(hourbell):
    hourbell.load(scheduler)

    run = hourbell.trigger("nightly")

    assert (run.kind, run.state) == ("manual", "succeeded")


@pytest.mark.anyio
async def test_a_test_with_an_event_loop_of_its_own_looks_the_same(hourbell):
    hourbell.load(scheduler)

    hourbell.advance("1d")

    assert len(hourbell.runs("import")) == 24
