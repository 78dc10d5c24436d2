"""The ASGI application: health, metrics, the REST API and its OpenAPI document, with one authenticator."""

from collections.abc import Awaitable, Callable
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from hourbell.api import alerts, applying, events, imports, job_bulk, jobs, overview, run_log, runs, sessions, timeline
from hourbell.api.access import Authenticator, caller, caller_or_local, check_open_mode, is_known, read_in_turn
from hourbell.api.docs_page import DOCS_POLICY, docs_page
from hourbell.api.documented import responses
from hourbell.api.health import Readiness, health_endpoints
from hourbell.api.openapi import describe
from hourbell.api.page import BUILT_PAGE, Page
from hourbell.api.problems import MEDIA_TYPE, Problem, add_handlers, answer_problem
from hourbell.api.render import API
from hourbell.api.users import known_parameters
from hourbell.control.control import Control
from hourbell.control.pages import BadCursor
from hourbell.metrics import Metrics

_SUMMARIES = {
    "/health": "Liveness check",
    "/health/ready": "Readiness check",
    "/metrics": "Metrics for Prometheus",
}
_ANY: dict[str, Any] = {"schema": {"type": "object"}}
_ANSWERS: dict[str, dict[int | str, dict[str, Any]]] = {
    "/health": {200: {"description": "The process answers.", "content": {"application/json": _ANY}}},
    "/health/ready": {
        200: {"description": "The node is ready.", "content": {"application/json": _ANY}},
        503: {
            "description": "The node is not ready, or its state is unknown.",
            "content": {"application/json": _ANY, MEDIA_TYPE: _ANY},
        },
    },
    "/metrics": {
        **{status: response for status, response in responses(None).items() if status in (401, 403, 429, 503)},
        200: {"description": "Prometheus text format.", "content": {"text/plain": {"schema": {"type": "string"}}}},
    },
}
NameOf = Callable[[APIRoute], str]


def build_app(
    control: Control,
    authenticator: Authenticator,
    status: Callable[[], Awaitable[Readiness]],
    metrics: Metrics,
    *,
    version: str,
    page: Path = BUILT_PAGE,
) -> FastAPI:
    """Build the application. `status` is called for each readiness or metrics request; `page` is a folder."""
    app = FastAPI(
        title="Hourbell",
        version=version,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.control = control
    authenticator.install(app)
    add_handlers(app)
    app.add_exception_handler(BadCursor, _bad_cursor)
    _add_api(app)
    for path, endpoint in health_endpoints(status, metrics, is_known).items():
        guards = [Depends(caller_or_local)] if path == "/metrics" else []
        # This route answers; the next one is for the OpenAPI document, which shows no HEAD anywhere.
        app.add_api_route(path, endpoint, methods=["GET", "HEAD"], include_in_schema=False, dependencies=guards)
        app.add_api_route(
            path,
            endpoint,
            summary=_SUMMARIES[path],
            response_class=Response,
            responses=_ANSWERS[path],
            dependencies=guards,
            operation_id=_operation_id(path),
            tags=["health"],
        )
    _add_description(app)
    app.router.default = Page(app.router.default, check_open_mode, page)
    return app


def _add_api(app: FastAPI) -> None:
    """Add the routes of the REST API. Every route except the login authenticates the caller first.

    Each router is included once: FastAPI builds every route again with each inclusion.
    """
    guards = [Depends(caller), Depends(known_parameters), Depends(read_in_turn, scope="function")]

    def add(router: APIRouter, prefix: str = "", tag: str | None = None, name: NameOf = _name) -> None:
        tags: list[str | Enum] = [] if tag is None else [tag]
        app.include_router(
            router, prefix=API + prefix, tags=tags, dependencies=guards, generate_unique_id_function=name
        )

    for tag, name in (("jobs", _name), ("schedules", _schedule_name)):
        for module in (applying, job_bulk, imports, jobs):
            add(module.router, f"/{tag}", tag, name)
    add(runs.router, "/runs", "runs")
    add(run_log.router, "/runs", "runs")
    add(job_bulk.demo, "/demo", "jobs")
    add(alerts.router, tag="alerts")
    for module in (overview, timeline, events):
        add(module.router, tag="overview")
    add(sessions.router)
    app.include_router(
        sessions.login, prefix=API, dependencies=[Depends(known_parameters)], generate_unique_id_function=_name
    )


def _name(route: APIRoute) -> str:
    return route.name


def _schedule_name(route: APIRoute) -> str:
    return f"schedules_{route.name}"


def _operation_id(path: str) -> str:
    return "get_" + path.strip("/").replace("/", "_")


def _add_description(app: FastAPI) -> None:
    @cache
    def described() -> dict[str, Any]:
        return describe(app)  # built lazily: it is slow, and few servers are asked for it

    @cache
    def document() -> bytes:
        return bytes(JSONResponse(described()).body)

    @cache
    def page() -> str:
        return docs_page(described())

    async def openapi(_request: Request) -> Response:
        return Response(document(), media_type="application/json")

    async def docs(_request: Request) -> Response:
        return HTMLResponse(page(), headers={"Content-Security-Policy": DOCS_POLICY})

    for path, endpoint in (("/openapi.json", openapi), ("/docs", docs)):
        app.add_api_route(path, endpoint, include_in_schema=False, dependencies=[Depends(caller_or_local)])


async def _bad_cursor(request: Request, error: Exception) -> Response:
    response = Problem(400, "invalid_parameter", "The cursor cannot be used.", [("/query/cursor", str(error), None)])
    return await answer_problem(request, response)
