"""Counts of ended runs in a real Redis: killed, frozen and started again while they are written."""

import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from hourbell import clock
from hourbell.analytics import Analytics, AnalyticsUnavailable, DayCounts
from hourbell.metrics import Metrics
from tests.cli.live import Live
from tests.examples.processes import free_port, until
from tests.faults.process import Server
from tests.redis_server import PASSWORD, RedisServer, redis_server
from tests.targets.http.certificates import Authority

pytestmark = pytest.mark.full
AT = datetime(2026, 3, 2, 23, 59, tzinfo=UTC)
DAY = timedelta(days=1)
FIRST, LAST = date(2026, 3, 1), date(2026, 3, 3)
APP = """
from hourbell import Scheduler

scheduler = Scheduler("shop")

@scheduler.job("every 1s")
async def works(run): ...

@scheduler.job("every 1s", retry="none")
async def fails(run):
    raise RuntimeError("no")
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    folder = tmp_path / "redis"
    folder.mkdir()
    with redis_server(folder) as made:
        yield made


def of(url: str) -> tuple[Analytics, Metrics]:
    metrics = Metrics()
    return Analytics(url, metrics, keep=3 * DAY, elapsed=clock.elapsed), metrics


def metric(metrics: Metrics, name: str) -> int:
    return int(metrics.registry.get_sample_value(f"hourbell_analytics_{name}_total") or 0)


def total(found: list[DayCounts]) -> int:
    return sum(each.succeeded + each.failed + each.cancelled for each in found)


def test_every_run_is_counted_by_job_and_day_and_the_keys_expire(server: RedisServer) -> None:
    made, metrics = of(server.url)
    one, other = uuid4(), uuid4()
    made.start()
    for _ in range(1_000):
        made.count(one, "succeeded", AT)
        made.count(one, "failed", AT + timedelta(minutes=2))
        made.count(other, "cancelled", AT)
    made.close(5.0)

    assert made.days(one, FIRST, LAST) == [
        DayCounts(FIRST, 0, 0, 0),
        DayCounts(date(2026, 3, 2), 1_000, 0, 0),
        DayCounts(LAST, 0, 1_000, 0),
    ]
    assert total(made.days(None, FIRST, LAST)) == metric(metrics, "counted") == 3_000
    assert server.cli("hgetall", f"hourbell:runs:{one}:2026-03-02").split() == ["succeeded", "1000"]
    keys = server.cli("keys", "*").split()
    assert len(keys) == 5
    assert all(0 < int(server.cli("ttl", key)) <= 3 * 86_400 for key in keys)


def test_counts_are_never_too_high_while_redis_is_killed_and_started_again(server: RedisServer) -> None:
    made, metrics = of(server.url)
    made.start()
    is_over = threading.Event()
    fed: list[int] = []
    jobs = [uuid4() for _ in range(50)]

    def feed() -> None:
        number = 0
        while not is_over.is_set():
            for job in jobs:
                made.count(job, "succeeded", AT)
            number += len(jobs)
            time.sleep(0.002)
        fed.append(number)

    feeder = threading.Thread(target=feed)
    feeder.start()
    for seconds in (1.3, 0.9, 1.7):
        time.sleep(seconds)
        server.kill()
        time.sleep(0.5)
        server.start()
    until(lambda: made._failed_at is None, 30, lambda: "Redis is not used again")
    time.sleep(1.5)
    is_over.set()
    feeder.join()
    made.close(10.0)

    stored, counted, lost = total(made.days(None, FIRST, LAST)), metric(metrics, "counted"), metric(metrics, "lost")
    assert counted + lost == fed[0]
    assert counted <= stored <= fed[0]
    assert stored == sum(total(made.days(job, FIRST, LAST)) for job in jobs)
    assert counted > fed[0] * 0.5


def test_counting_goes_on_while_redis_hangs(server: RedisServer) -> None:
    made, metrics = of(server.url)
    job = uuid4()
    made.start()
    made.count(job, "succeeded", AT)
    until(lambda: metric(metrics, "counted") == 1, 10, lambda: "the first count is not written")
    server.freeze()
    started = time.monotonic()
    for _ in range(100_000):
        made.count(job, "succeeded", AT)
    assert time.monotonic() - started < 2  # one answer of Redis may take as long
    with pytest.raises(AnalyticsUnavailable, match=r"[Tt]imeout"):
        made.days(job, FIRST, LAST)
    server.thaw()

    until(lambda: metric(metrics, "counted") + metric(metrics, "lost") == 100_001, 60, lambda: "not all are written")
    made.close(5.0)
    assert metric(metrics, "counted") <= total(made.days(job, FIRST, LAST)) <= 100_001


def test_a_node_serves_its_counts_and_loses_none_when_it_stops(server: RedisServer, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with Server(tmp_path, "--app", "app:scheduler", REDIS_URL=server.url, PYTHONPATH=str(tmp_path)) as node:
        node.wait_until_serving()
        cli = Live(node.url, "")
        until(lambda: cli.json("analytics", "--days", "1")["days"][0]["succeeded"] >= 3, 30, lambda: node.log)
        shown = cli.run("analytics", "fails", "--days", "2")
        assert shown.exit_code == 0
        heads, *rows = shown.stdout.splitlines()
        assert heads.split() == ["DAY", "(UTC)", "SUCCEEDED", "FAILED", "CANCELLED"]
        assert (len(rows), rows[-1].split()[1]) == (2, "0")
        assert int(rows[-1].split()[2]) >= 1
        assert "runs are missing that ended while Redis could not be reached" in shown.stderr
        assert cli.run("analytics", "nothing").exit_code != 0
        node.signal(signal.SIGTERM)
        assert node.wait(30) == 0
        log = node.log

    ended = _ended_in(tmp_path / "hourbell.db")
    today = [line for line in server.cli("keys", "hourbell:runs:all:*").split() if line]
    found = sum(int(number) for key in today for number in server.cli("hvals", key).split())
    assert found == ended
    assert PASSWORD not in log


def _ended_in(path: Path) -> int:
    import apsw

    [[number]] = apsw.Connection(str(path)).execute(
        "select count(*) from hourbell_runs where state in ('succeeded', 'failed', 'cancelled')"
    )
    return int(number)


def test_runs_go_on_while_redis_is_down_which_is_logged_once_a_minute(server: RedisServer, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    server.kill()
    with Server(tmp_path, "--app", "app:scheduler", REDIS_URL=server.url, PYTHONPATH=str(tmp_path)) as node:
        node.wait_until_serving()
        node.wait_for("analytics_unavailable")
        cli = Live(node.url, "")
        until(lambda: cli.json("job", "stats", "works")["succeeded"] >= 5, 30, lambda: node.log)
        refused = cli.run("analytics")
        assert (refused.exit_code != 0, "Redis cannot be asked" in refused.stderr) == (True, True)
        assert node.names.count("analytics_unavailable") == 1
        assert node.get("/health/ready").status_code == 200

        server.start()
        node.wait_for("analytics_available")
        until(lambda: cli.json("analytics", "--days", "1")["days"][0]["succeeded"] >= 5, 30, lambda: node.log)
        server.kill()
        until(lambda: node.names.count("analytics_unavailable") == 2, 30, lambda: node.log)
        done = cli.json("job", "stats", "works")["succeeded"]
        until(lambda: cli.json("job", "stats", "works")["succeeded"] >= done + 3, 30, lambda: node.log)
        assert node.names.count("analytics_unavailable") == 2
        shown = [node.log, cli.run("analytics").output, cli.run("config", "show").output, node.get("/metrics").text]
        node.signal(signal.SIGTERM)
        assert node.wait(30) == 0
        shown.append(node.log)
    server.start()
    assert not [text for text in shown if PASSWORD in text]


def test_a_wrong_password_and_a_full_redis_are_reported_without_the_password(server: RedisServer) -> None:
    made, _ = of(server.url.replace(PASSWORD, "plugh-xyzzy"))
    with pytest.raises(AnalyticsUnavailable) as refused:
        made.days(None, FIRST, LAST)
    assert "plugh" not in str(refused.value)

    made, metrics = of(server.url)
    assert server.cli("config", "set", "maxmemory", "1").strip() == "OK"
    made.start()
    made.count(uuid4(), "succeeded", AT)
    until(lambda: metric(metrics, "lost") == 1, 20, lambda: "nothing is lost")
    assert server.cli("config", "set", "maxmemory", "0").strip() == "OK"
    made.count(uuid4(), "succeeded", AT)
    until(lambda: metric(metrics, "counted") == 1, 30, lambda: "nothing is counted")
    made.close(5.0)


def test_redis_by_tls_needs_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.server("127.0.0.1")
    [file] = (str(path) for path in tmp_path.glob("*.pem") if path != authority.ca_file)
    tls = ("--tls-cert-file", file, "--tls-key-file", file, "--tls-auth-clients", "no")
    port = free_port()
    with redis_server(tmp_path, "--tls-port", str(port), *tls):
        url = f"rediss://:{PASSWORD}@127.0.0.1:{port}/0"
        job, metrics = uuid4(), Metrics()
        trusting = Analytics(url, metrics, keep=DAY, elapsed=clock.elapsed, ca_file=str(authority.ca_file))
        trusting.start()
        trusting.count(job, "failed", AT)
        trusting.close(5.0)
        assert total(trusting.days(job, FIRST, LAST)) == 1

        doubting, _ = of(url)
        with pytest.raises(AnalyticsUnavailable, match="certificate"):
            doubting.days(job, FIRST, LAST)
