"""Routes for the whole installation: previews, explanations, forecasts, statistics, nodes, the audit and tokens."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import JSONResponse, Response

from hourbell.answers import server
from hourbell.api import bodies, render, shapes
from hourbell.api.documented import responses, takes
from hourbell.api.idempotency import IdempotentRoute, SecretResponse
from hourbell.api.pages import page_response
from hourbell.api.problems import Problem
from hourbell.api.render import answer
from hourbell.api.users import Admin, ControlDep, JsonBody, Viewer, read
from hourbell.api.values import AuditId, Bucket, Cursor, Instant, Limit
from hourbell.control.calculations import calculate
from hourbell.control.run_counts import MAX_DAYS, AnalyticsUnavailable
from hourbell.core.schedule import Schedule, ScheduleError
from hourbell.core.schedule.preview import preview
from hourbell.core.values.field_errors import BodyError, FieldError
from hourbell.core.values.readers import schedule_errors

router = APIRouter(route_class=IdempotentRoute)

_DAY = timedelta(days=1)
_MAX_BUCKETS = 744  # a month of hours


@router.post(
    "/preview",
    summary="Preview a schedule",
    responses=responses(shapes.PreviewAnswer, has_body=True),
    openapi_extra=takes(bodies.PreviewBody),
)
async def preview_schedule(control: ControlDep, user: Viewer, body: JsonBody) -> Response:
    """Return a description, the next scheduled times and warnings for a schedule. Nothing is stored."""
    del user
    given = read(bodies.PreviewBody, body)
    try:
        schedule = Schedule.parse(given.schedule, given.timezone, given.dst, given.name)
    except ScheduleError as error:
        raise BodyError(list(schedule_errors(error))) from None
    shown = await calculate(given.schedule, preview, schedule, given.after or control.now(), given.count)
    return JSONResponse(shown)


@router.get("/explain", summary="Explain a scheduled time", responses=responses(shapes.ExplainAnswer, 404))
async def explain_instant(
    control: ControlDep,
    user: Viewer,
    job: Annotated[str, Query(min_length=1, max_length=100, description="A job's name or id.")],
    at: Annotated[Instant, Query(description="The scheduled time, such as 2026-11-16T03:00:00Z.")],
) -> Response:
    """Explain a scheduled time of a job in one sentence and as data.

    It says whether the time ran, was skipped, waits or is not in the schedule, and why.
    """
    del user
    found = await control.history.explain(job, at)
    return JSONResponse(answer(server.Explanation, found, job=job, at=render.time(at)))


@router.get("/forecast", summary="Forecast runs", responses=responses(shapes.ForecastAnswer))
async def get_forecast(
    control: ControlDep,
    user: Viewer,
    start: Annotated[Instant | None, Query(alias="from", description="Default: now.")] = None,
    bucket: Annotated[Bucket, Query(description="The length of a bucket, such as 1h.")] = timedelta(hours=1),
    buckets: Annotated[int, Query(ge=1, le=_MAX_BUCKETS)] = 168,
) -> Response:
    """Count the runs that will be planned in each time bucket if no job changes. Past times are not counted."""
    del user
    found = await control.history.forecast(start or control.now(), bucket, buckets)
    items = [
        answer(server.Bucket, at=render.time(found.start + index * found.bucket), count=count)
        for index, count in enumerate(found.counts)
    ]
    seconds = found.bucket.total_seconds()
    return JSONResponse(answer(server.Forecast, found, bucket_seconds=seconds, buckets=items))


@router.get("/stats", summary="Count jobs and runs", responses=responses(shapes.OverviewAnswer))
async def get_overview(control: ControlDep, user: Viewer, since: Instant | None = None) -> Response:
    """Count jobs, waiting and running runs, dead letters, and runs that ended since a time (default: the last day).

    `conflicts` lists jobs that a running program defines but another owner holds; the program's definitions of these
    jobs are ignored.
    """
    del user
    start = since or control.now() - _DAY
    found = await control.history.overview(start)
    conflicts = await control.history.conflicts()
    shown = [answer(server.JobConflict, each) for each in conflicts]
    pulse = await control.timelines.pulse()
    return JSONResponse(render.overview(found, pulse, since=render.time(start), conflicts=shown))


@router.get(
    "/analytics",
    summary="Count ended runs by day",
    responses=responses(shapes.CountedDaysAnswer, 404, 409),
)
async def get_analytics(
    control: ControlDep,
    user: Viewer,
    job: Annotated[str | None, Query(min_length=1, max_length=100, description="A job's name or id.")] = None,
    days: Annotated[int, Query(ge=1, le=MAX_DAYS, description="How many, up to today (UTC).")] = 7,
) -> Response:
    """Count the runs that ended on each of the last days, of one job or of all, as far as Redis has them.

    The counts can be too low: runs that ended while Redis could not be reached are missing. Without REDIS_URL on this
    node, the request is refused with `analytics_off`.
    """
    del user
    try:
        found = await control.run_counts.days(job, days)
    except AnalyticsUnavailable as error:
        raise Problem(503, "analytics_unavailable", f"Redis cannot be asked: {error}.") from None
    counted = [answer(server.CountedDay, each, day=each.day.isoformat()) for each in found.days]
    return JSONResponse(answer(server.CountedDays, found, days=counted))


@router.get("/nodes", summary="List nodes", responses=responses(shapes.NodeList))
async def list_nodes(control: ControlDep, user: Viewer) -> Response:
    """List the engine processes, with the lanes each one serves and the number of its running runs.

    A node that shuts down cleanly leaves the list. A node that died stays for a day and is `stale`.
    """
    del user
    found = await control.history.nodes()
    return JSONResponse({"items": [render.node(each.node, is_stale=each.is_stale) for each in found]})


@router.get("/tags", summary="List tags", responses=responses(shapes.TagList))
async def list_tags(control: ControlDep, user: Viewer, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List the tags that jobs have, in order."""
    del user
    return page_response(await control.history.tags(limit, cursor), lambda tag: answer(server.Tag, tag=tag))


@router.get("/outages", summary="List outages", responses=responses(shapes.OutageList))
async def list_outages(
    control: ControlDep,
    user: Viewer,
    start: Annotated[Instant | None, Query(alias="from", description="Outages that ended since then.")] = None,
    until: Annotated[Instant | None, Query(description="And that began before then.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List the times at which no node ran, or the database was unreachable; newest first.

    An outage of all nodes is recorded when the first one starts again, an outage of the database when it is back.
    """
    del user
    return page_response(await control.history.outages(limit, cursor, since=start, until=until), render.outage)


@router.get("/audit", summary="List audit entries", responses=responses(shapes.AuditList))
async def list_audit(
    control: ControlDep,
    user: Admin,
    limit: Limit = 50,
    cursor: Cursor = None,
    subject: Annotated[
        str | None, Query(max_length=200, description="The id of the changed job, run or token.")
    ] = None,
) -> Response:
    """List every change with its actor, client address, and values before and after; newest first."""
    del user
    return page_response(await control.history.audit(limit, cursor, subject), render.listed_audit)


@router.get("/audit/{entry}", summary="Get an audit entry", responses=responses(shapes.AuditAnswer, 404))
async def get_audit_entry(control: ControlDep, user: Admin, entry: AuditId) -> Response:
    """Return one change, with the values before and after."""
    del user
    return JSONResponse(render.audit(await control.history.audit_entry(entry)))


@router.get("/tokens", summary="List tokens", responses=responses(shapes.TokenList))
async def list_tokens(control: ControlDep, user: Admin) -> Response:
    """List all tokens, including expired and revoked ones. The texts of tokens are not stored and cannot be shown."""
    del user
    return JSONResponse({"items": [answer(server.Token, each) for each in await control.access.list()]})


@router.post(
    "/tokens",
    summary="Create a token",
    status_code=201,
    responses=responses(shapes.TokenMade, 409, status=201, has_body=True),
    openapi_extra=takes(bodies.TokenBody),
)
async def create_token(control: ControlDep, user: Admin, body: JsonBody) -> Response:
    """Create a token, which the response shows once. After the first token is created, every call needs one."""
    given = read(bodies.TokenBody, body)
    expires_in = timedelta(days=90) if isinstance(given.expires_in, str) else given.expires_in
    try:
        token, text = await control.access.create(
            given.name, given.role, user.name, expires_in=expires_in, request=user.request
        )
    except ValueError as error:
        raise BodyError([FieldError("/expires_in", str(error))]) from None
    return SecretResponse(answer(server.Token, token, token=text.reveal()), 201)


@router.delete("/tokens/{token}", summary="Revoke a token", status_code=204, responses=responses(None, 404, status=204))
async def revoke_token(control: ControlDep, user: Admin, token: UUID) -> Response:
    """Revoke a token: at once on this node, within five seconds on the others."""
    await control.access.revoke(token, user.name, request=user.request)
    return Response(status_code=204)
