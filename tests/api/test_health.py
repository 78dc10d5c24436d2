"""The health, readiness and metrics endpoints."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route

from hourbell.api.health import LoopAge, PoolUse, Readiness, SeesNames, health_endpoints, nobody
from hourbell.api.problems import answer_failure, answer_problem
from hourbell.metrics import Metrics
from tests.api.whole import whole_api
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio

WELL = Readiness(
    database_reachable=True,
    loops=(LoopAge("planner", 0.4, 60), LoopAge("runner", 59.9994, 60)),
    waiting=3,
    oldest_seconds=1.25,
    pools=(PoolUse("threads", 32, 2, {"slow": 1}),),
)


def answering(readiness: Readiness) -> Callable[[], Awaitable[Readiness]]:
    async def status() -> Readiness:
        return readiness

    return status


STATUS_OF_A_WELL_NODE = answering(WELL)


async def never() -> Readiness:
    await asyncio.Event().wait()
    raise AssertionError


async def broken() -> Readiness:
    raise RuntimeError("a bug")


async def everybody(_request: Request) -> bool:
    return True


async def get(
    path: str,
    status: Callable[[], Awaitable[Readiness]] = STATUS_OF_A_WELL_NODE,
    metrics: Metrics | None = None,
    method: str = "GET",
    sees_names: SeesNames = everybody,
) -> httpx.Response:
    endpoints = health_endpoints(status, metrics or Metrics(), sees_names, patience_seconds=0.01)
    handlers = {HTTPException: answer_problem, Exception: answer_failure}
    app = Starlette(routes=[Route(*each) for each in endpoints.items()], exception_handlers=handlers)
    app.router.redirect_slashes = False
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.request(method, path)


@pytest.mark.parametrize("status", [answering(WELL), answering(Readiness(False, ())), never, broken])
async def test_health_is_ok_while_the_process_runs(status: Callable[[], Awaitable[Readiness]]) -> None:
    answer = await get("/health", status)

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert answer.text == '{"status":"ok"}'


async def test_a_working_node_is_ready() -> None:
    answer = await get("/health/ready")

    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ready",
        "reasons": [],
        "warnings": [],
        "database": {"reachable": True},
        "loops": {
            "planner": {"age_seconds": 0.4, "limit_seconds": 60, "too_old": False},
            "runner": {"age_seconds": 59.999, "limit_seconds": 60, "too_old": False},
        },
        "backlog": {"waiting": 3, "oldest_seconds": 1.25},
        "unserved_lane_count": 0,
        "unserved_lanes": [],
        "pools": {"threads": {"size": 32, "taken": 2, "overdue_count": 1, "overdue": {"slow": 1}}},
    }


async def test_a_node_without_its_database_is_not_ready() -> None:
    answer = await get("/health/ready", answering(Readiness(False, WELL.loops)))

    assert (answer.status_code, answer.json()["status"]) == (503, "not_ready")
    assert answer.json()["database"] == {"reachable": False}
    assert answer.json()["backlog"] == {"waiting": None, "oldest_seconds": None}


async def test_a_node_whose_database_refuses_writes_is_not_ready_and_explains_why() -> None:
    full = Readiness(True, WELL.loops, waiting=3, database_problem="the disk is full")
    answer = await get("/health/ready", answering(full))

    assert (answer.status_code, answer.json()["status"]) == (503, "not_ready")
    assert answer.json()["database"] == {"reachable": True, "problem": "the disk is full"}


async def test_a_stopping_node_is_not_ready() -> None:
    answer = await get("/health/ready", answering(Readiness(True, (), is_stopping=True)))

    assert (answer.status_code, answer.json()["status"]) == (503, "stopping")


async def test_a_node_whose_planner_has_died_is_not_ready() -> None:
    readiness = Readiness(True, (LoopAge("planner", 75, 60), LoopAge("runner", 1, 60)), waiting=0)
    answer = await get("/health/ready", answering(readiness))

    assert answer.status_code == 503
    assert answer.json()["loops"]["planner"]["too_old"] is True
    assert answer.json()["loops"]["runner"]["too_old"] is False


async def test_a_node_whose_threads_are_all_overdue_is_not_ready_and_names_the_tasks() -> None:
    pool = PoolUse("threads", 3, 3, {"report": 2, "import": 1})
    answer = await get("/health/ready", answering(Readiness(True, WELL.loops, pools=(pool,))))

    assert (answer.status_code, answer.json()["status"]) == (503, "not_ready")
    [reason] = answer.json()["reasons"]
    assert reason.startswith("all 3 threads are held by functions past their timeout: report (2), import (1)")


async def test_a_node_with_a_thread_that_may_come_back_is_ready() -> None:
    pool = PoolUse("threads", 3, 3, {"report": 2})
    answer = await get("/health/ready", answering(Readiness(True, WELL.loops, pools=(pool,))))

    assert answer.status_code == 200


async def test_unserved_lanes_are_listed_and_leave_the_node_ready() -> None:
    readiness = Readiness(True, WELL.loops, waiting=900, oldest_seconds=7_200, unserved_lanes=("task:reports.weekly",))
    answer = await get("/health/ready", answering(readiness))

    assert answer.status_code == 200
    assert answer.json()["unserved_lanes"] == ["task:reports.weekly"]
    assert answer.json()["warnings"] == ["no live node serves task:reports.weekly"]


async def never_disconnected(_request: Request) -> bool:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize("sees_names", [nobody, never_disconnected])
async def test_without_a_token_readiness_counts_lanes_and_tasks_without_naming_them(sees_names: SeesNames) -> None:
    pool = PoolUse("threads", 3, 3, {"canary.report": 2, "canary.import": 1})
    lanes = ("task:canary.weekly", "https://canary.example.com")
    readiness = Readiness(True, WELL.loops, 900, 7_200, lanes, pools=(pool,), stuck_seconds=600)
    answer = await get("/health/ready", answering(readiness), sees_names=sees_names)

    assert (answer.status_code, "canary" in answer.text) == (503, False)
    body = answer.json()
    assert body["reasons"] == ["all 3 threads are held by functions past their timeout; restart this node"]
    assert body["warnings"][1:] == ["no live node serves 2 lanes with runs; send a token to see which"]
    assert (body["unserved_lane_count"], body["pools"]["threads"]["overdue_count"]) == (2, 3)
    assert "unserved_lanes" not in body


async def test_without_its_database_readiness_names_no_lanes_or_tasks() -> None:
    pool = PoolUse("threads", 3, 3, {"canary.report": 3})
    answer = await get("/health/ready", answering(Readiness(False, (), pools=(pool,))))

    assert (answer.status_code, "canary" in answer.text) == (503, False)


async def test_a_node_with_stuck_runs_stays_ready_with_a_warning() -> None:
    readiness = Readiness(True, WELL.loops, waiting=900, oldest_seconds=601, stuck_seconds=600)
    answer = await get("/health/ready", answering(readiness))
    metrics = await get("/metrics", answering(readiness))

    assert answer.status_code == 200
    [warning] = answer.json()["warnings"]
    assert warning.startswith("of 900 waiting runs the oldest has been ready for 601 s; `hourbell doctor`")
    assert "hourbell_backlog_age_seconds 601.0" in metrics.text


async def test_a_readiness_check_that_takes_too_long_reports_not_ready() -> None:
    answer = await get("/health/ready", never)

    assert (answer.status_code, answer.json()["code"]) == (503, "status_unknown")


async def test_metrics_are_prometheus_text_with_current_ages_and_backlog() -> None:
    answer = await get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    [backlog] = families["hourbell_backlog"].samples
    ages = {sample.labels["loop"]: sample.value for sample in families["hourbell_loop_age_seconds"].samples}
    assert backlog.value == 3
    pools = {name: families[f"hourbell_pool_{name}"].samples[0] for name in ("size", "taken", "overdue")}
    assert {name: (each.labels, each.value) for name, each in pools.items()} == {
        "size": ({"pool": "threads"}, 32),
        "taken": ({"pool": "threads"}, 2),
        "overdue": ({"pool": "threads"}, 1),
    }
    assert ages == {"planner": 0.4, "runner": 59.9994}


@pytest.mark.parametrize("status", [never, answering(Readiness(False, ()))])
async def test_metrics_are_served_without_the_database(status: Callable[[], Awaitable[Readiness]]) -> None:
    metrics = Metrics()
    metrics.planned.inc(5)
    metrics.backlog.set(8)
    answer = await get("/metrics", status, metrics)

    assert answer.status_code == 200
    assert "hourbell_runs_planned_total 5.0" in answer.text
    assert "hourbell_backlog 8.0" in answer.text


@pytest.mark.parametrize("path", ["/", "/healthz", "/health/", "/health/ready/", "/api/v1/jobs", "/metrics/x"])
async def test_an_unknown_path_is_a_404_problem(path: str) -> None:
    answer = await get(path)

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": f"No such path: {path}.",
        "code": "not_found",
    }


async def test_a_wrong_method_is_a_problem_that_lists_the_allowed_ones() -> None:
    answer = await get("/health", method="POST")

    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}


async def test_a_head_request_is_answered_without_a_body() -> None:
    answer = await get("/health", method="HEAD")

    assert (answer.status_code, answer.content) == (200, b"")


async def test_an_internal_error_is_a_problem_without_internal_details() -> None:
    answer = await get("/health/ready", broken)

    assert (answer.status_code, answer.json()["code"]) == (500, "internal_server_error")
    assert "a bug" not in answer.text


@pytest.mark.parametrize("path", ["/health", "/health/ready", "/metrics", "/nothing"])
async def test_answers_forbid_caching(path: str) -> None:
    assert (await get(path)).headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/health", "/health/ready", "/metrics"])
async def test_the_server_answers_head_as_get_without_a_body(path: str) -> None:
    async with SqliteDatabase.in_memory() as database, whole_api(database) as api:
        shown, answer, refused = [await api.client.request(method, path) for method in ("GET", "HEAD", "POST")]

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == shown.headers["content-type"]
    assert set(refused.headers["allow"].split(", ")) == {"GET", "HEAD"}
