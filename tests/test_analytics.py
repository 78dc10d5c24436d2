"""Counts of ended runs in Redis: behaviour without Redis, and passwords that are not shown."""

import logging
import sys
import time
from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

import pytest

from hourbell import analytics, clock
from hourbell.analytics import MAX_WAITING_VALUES, Analytics, AnalyticsUnavailable
from hourbell.core.values.url import parse_url
from hourbell.metrics import Metrics
from hourbell.settings import SettingsError, load_settings
from hourbell.targets.http.transport import Refused
from hourbell.wiring import build_egress_policy

NOWHERE = "redis://somebody:xyz%2Fzy@127.0.0.1:9/0"  # nothing listens there
AT = datetime(2026, 3, 2, 23, 59, tzinfo=UTC)
DAY = timedelta(days=1)


def counts(metrics: Metrics) -> tuple[float, float]:
    """The numbers of runs that were counted in Redis, and that are lost."""
    found = [metrics.registry.get_sample_value(f"hourbell_analytics_{name}_total") for name in ("counted", "lost")]
    return found[0] or 0.0, found[1] or 0.0


def of(url: str = NOWHERE) -> tuple[Analytics, Metrics]:
    metrics = Metrics()
    return Analytics(url, metrics, keep=DAY, elapsed=clock.elapsed), metrics


def test_a_count_that_finds_no_room_is_lost_and_never_blocks() -> None:
    made, metrics = of()
    one = uuid4()
    for _ in range(MAX_WAITING_VALUES - 1):
        made.count(uuid4(), "failed", AT)
    for _ in range(3):
        made.count(one, "succeeded", AT)

    made.count(uuid4(), "succeeded", AT)
    made.count(one, "succeeded", AT)
    assert counts(metrics) == (0, 1)


def test_without_redis_the_start_logs_one_warning_and_the_end_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    made, metrics = of()
    started = time.monotonic()
    with caplog.at_level(logging.INFO, "hourbell.analytics"):
        made.start()
        for _ in range(50):
            made.count(uuid4(), "succeeded", AT)
            time.sleep(0.01)
        made.close(5.0)

    assert time.monotonic() - started < 5
    assert [record.getMessage() for record in caplog.records] == ["analytics_unavailable", "analytics_lost"]
    assert counts(metrics) == (0, 50)
    said = str([vars(record) for record in caplog.records])
    assert "xyz" not in said
    assert "127.0.0.1:9" in said


def test_reading_without_redis_says_why_and_shows_no_password() -> None:
    made, _ = of()

    with pytest.raises(AnalyticsUnavailable) as refused:
        made.days(None, date(2026, 3, 1), date(2026, 3, 2))
    assert "xyz" not in str(refused.value)
    assert "127.0.0.1:9" in str(refused.value)


@pytest.mark.parametrize("text", ["refused xyz%2Fzy", "refused xyz/zy", "two\nlines xyz/zy"])
def test_an_error_that_repeats_the_password_is_masked(text: str) -> None:
    made, _ = of()

    assert "xyz" not in made._describe(ValueError(text))
    assert "\n" not in made._describe(ValueError(text))


def test_without_the_package_nothing_is_counted_and_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    made, metrics = of()
    with caplog.at_level(logging.INFO, "hourbell.analytics"):
        made.start()
        made.count(uuid4(), "succeeded", AT)
        made.close(1.0)

    [record] = caplog.records
    assert (record.getMessage(), counts(metrics)) == ("analytics_off", (0, 0))
    assert analytics.INSTALL in vars(record)["error"]
    with pytest.raises(AnalyticsUnavailable, match="is not installed"):
        made.days(None, date(2026, 3, 1), date(2026, 3, 2))


@pytest.mark.anyio
async def test_no_webhook_reaches_redis() -> None:
    open_networks = {"HOURBELL_ALLOW_NETWORKS": "127.0.0.0/8"}
    url = parse_url("http://127.0.0.1:6399/")
    without = build_egress_policy(load_settings(environment=open_networks), port=8080)
    assert await without.addresses_of(url)

    guarded = build_egress_policy(
        load_settings(environment={**open_networks, "REDIS_URL": "redis://127.0.0.1:6399"}), port=8080
    )
    with pytest.raises(Refused):
        await guarded.addresses_of(url)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6379",
        "http://h:6379",
        "redis://",
        "redis://:p@ss@h",
        "redis://h:70000",
        "redis://h/x",
        "redis://h /0",
    ],
)
def test_an_invalid_redis_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(SettingsError, match="REDIS_URL") as refused:
        load_settings(environment={"REDIS_URL": url})
    assert "p@ss" not in str(refused.value)
    assert "write redis://:password@host:6379/0" in str(refused.value)


@pytest.mark.parametrize(
    "url", ["redis://h", "redis://:p%40@h:1/15", "rediss://user:p@h/", "redis://[::1]:6379/0?protocol=3"]
)
def test_a_redis_url_is_taken_as_it_is(url: str) -> None:
    assert load_settings(environment={"REDIS_URL": url}).redis_url == url
