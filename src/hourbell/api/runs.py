"""The routes of runs: list them, and replay, cancel or discard one run or all that match."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hourbell.answers import runs
from hourbell.answers.runs import Cancelled, Done, Refused, Replayed
from hourbell.api import bodies, render, shapes
from hourbell.api.access import CallerDep
from hourbell.api.documented import responses, takes
from hourbell.api.idempotency import IdempotentRoute
from hourbell.api.pages import page_response
from hourbell.api.render import answer
from hourbell.api.users import ControlDep, JsonBody, Operator, Viewer, limit_triggers, limited_trigger, read
from hourbell.api.values import Cursor, Instant, Limit, Subject
from hourbell.control.control import Control
from hourbell.control.pages import Page
from hourbell.control.runs import BulkAction, BulkResult, RunFilter
from hourbell.control.user import User, admit_all
from hourbell.control.values import RunView
from hourbell.core.run.states import RunState

router = APIRouter(route_class=IdempotentRoute)

DryRun = Annotated[bool, Query(description="Return the number of matches, without changing anything.")]


@dataclass(frozen=True, slots=True)
class RunParameters:
    """Query parameters of the run list."""

    state: RunState | None = None
    job: Annotated[str | None, Query(min_length=1, max_length=100, description="A job's name or id.")] = None
    since: Annotated[
        Instant | None,
        Query(description="Only runs that ended (or, if not ended, are scheduled) at or after this time."),
    ] = None
    until: Annotated[
        Instant | None, Query(description="Only runs that ended (or, if not ended, are scheduled) before this time.")
    ] = None
    subject: Subject = None


@router.get("", summary="List runs", responses=responses(shapes.RunList, 404))
async def list_runs(
    control: ControlDep,
    user: Viewer,
    wanted: Annotated[RunParameters, Depends()],
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List running runs, then waiting ones, then ended ones by the time of their end, newest first.

    The runs of one job or subject are listed by scheduled time, newest first. `state=failed` lists the dead letters:
    failed runs that nobody has replayed or discarded.
    """
    del user
    return await _page(control, await control.runs.page(await _filter(control, wanted), limit, cursor))


@router.get("/late", summary="List late runs", responses=responses(shapes.RunList))
async def list_late(control: ControlDep, user: Viewer, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """List ended runs that started later than their job's `late_after`, worst first, within the retention.

    Runs late by ten seconds or less are searched only among the last 5,000 that ended.
    """
    del user
    return page_response(await control.history.late(limit, cursor), render.listed_run)


@router.get("/stuck", summary="List stuck runs", responses=responses(shapes.RunList))
async def list_stuck(control: ControlDep, user: Viewer, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """List runs that still wait an hour after they were planned and ready."""
    del user
    return await _page(control, await control.history.stuck(limit, cursor))


@router.get("/orphans", summary="List runs without an attempt", responses=responses(shapes.RunList))
async def list_orphans(control: ControlDep, user: Viewer, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """List runs without any attempt 15 minutes after they were planned and ready."""
    del user
    return await _page(control, await control.history.orphans(limit, cursor))


@router.get("/groups", summary="Group failed runs by cause", responses=responses(shapes.FailureGroups, 404))
async def list_groups(
    control: ControlDep,
    user: Viewer,
    job: Annotated[str | None, Query(min_length=1, max_length=100, description="The name or id of a job.")] = None,
    since: Annotated[Instant | None, Query(description="Ended at or after this time.")] = None,
    until: Annotated[Instant | None, Query(description="Ended before this time.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """Group the failed runs that nobody has replayed or discarded by their cause, the most common first.

    The same lane, reason and error, apart from numbers, ids, quoted values and addresses, are one cause. The newest
    5,000 failed runs are grouped. Pass a `fingerprint` to `/runs/replay` or `/runs/discard` to act on a group.
    """
    del user
    job_id = None if job is None else (await control.jobs.get(job, deleted=True)).job.id
    found = await control.runs.groups(RunFilter(job_id=job_id, since=since, until=until), limit)
    return JSONResponse(answer(runs.FailureGroups, found))


@router.post(
    "/replay",
    summary="Replay matching failed runs",
    responses=responses(shapes.BulkAnswer, 404, 409, has_body=True),
    openapi_extra=takes(bodies.ReplayAllBody),
)
async def replay_runs(
    request: Request, control: ControlDep, user: Operator, found: CallerDep, body: JsonBody, dry_run: DryRun = False
) -> Response:
    """Replay the dead letters that match, up to 1,000 per call. The replays become ready at a limited rate."""
    given = read(bodies.ReplayAllBody, body)

    def admit(count: int) -> None:
        limit_triggers(request, found, count)

    return await _all(
        control, BulkAction.REPLAY, given, user, dry_run=dry_run, per_minute=given.per_minute, admit=admit
    )


@router.post(
    "/cancel",
    summary="Cancel matching runs",
    responses=responses(shapes.BulkAnswer, 404, 409, has_body=True),
    openapi_extra=takes(bodies.RunFilterBody),
)
async def cancel_runs(control: ControlDep, user: Operator, body: JsonBody, dry_run: DryRun = False) -> Response:
    """Cancel the waiting runs that match and ask running ones to stop, up to 1,000 per call."""
    return await _all(control, BulkAction.CANCEL, read(bodies.RunFilterBody, body), user, dry_run=dry_run)


@router.post(
    "/discard",
    summary="Discard matching failed runs",
    responses=responses(shapes.BulkAnswer, 404, 409, has_body=True),
    openapi_extra=takes(bodies.FailedFilterBody),
)
async def discard_runs(control: ControlDep, user: Operator, body: JsonBody, dry_run: DryRun = False) -> Response:
    """Remove the failed runs that match from the dead letters, up to 1,000 per call. Their history stays."""
    return await _all(control, BulkAction.DISCARD, read(bodies.FailedFilterBody, body), user, dry_run=dry_run)


@router.get("/{run}", summary="Get a run", responses=responses(shapes.RunDetail, 404))
async def get_run(control: ControlDep, user: Viewer, run: UUID) -> Response:
    """Return a run with its attempts."""
    del user
    view, attempts = await control.runs.get(run)
    waits_for = await control.runs.waits_for([view])
    return JSONResponse(render.run_with_attempts(view, attempts, waits_for.get(run)))


@router.post(
    "/{run}/replay",
    summary="Replay a run",
    status_code=201,
    dependencies=[Depends(limited_trigger)],
    responses=responses(shapes.Replayed, 404, 409, status=201),
)
async def replay_run(control: ControlDep, user: Operator, run: UUID) -> Response:
    """Add a new run that repeats one that has ended or waits, with its payload and the job's current target."""
    new_id = await control.runs.replay(run, user)
    return JSONResponse(answer(Replayed, run_id=str(new_id), replay_of=str(run)), 201)


@router.post("/{run}/cancel", summary="Cancel a run", responses=responses(shapes.Cancelled, 404, 409))
async def cancel_run(control: ControlDep, user: Operator, run: UUID) -> Response:
    """Cancel a waiting run, or ask the node of a running one to stop it."""
    return JSONResponse(answer(Cancelled, run_id=str(run), ended=await control.runs.cancel(run, user)))


@router.post(
    "/{run}/discard", summary="Discard a failed run", status_code=204, responses=responses(None, 404, 409, status=204)
)
async def discard_run(control: ControlDep, user: Operator, run: UUID) -> Response:
    """Remove a failed run from the dead letters. Its history stays."""
    await control.runs.discard(run, user)
    return Response(status_code=204)


async def _page(control: Control, found: Page[RunView]) -> Response:
    waits_for = await control.runs.waits_for(found.items)
    return page_response(found, lambda view: render.listed_run(view, waits_for.get(view.id)))


async def _filter(control: Control, wanted: RunParameters | bodies.RunFilterBody) -> RunFilter:
    job_id = None if wanted.job is None else (await control.jobs.get(wanted.job, deleted=True)).job.id
    subject = wanted.subject if isinstance(wanted, RunParameters) else None
    fingerprint = wanted.fingerprint if isinstance(wanted, bodies.FailedFilterBody) else None
    return RunFilter(wanted.state, job_id, wanted.since, wanted.until, subject, fingerprint)


async def _all(
    control: Control,
    action: BulkAction,
    given: bodies.RunFilterBody,
    user: User,
    *,
    dry_run: bool,
    per_minute: int = 60_000,
    admit: Callable[[int], None] = admit_all,
) -> Response:
    wanted = await _filter(control, given)
    if dry_run:
        found, has_more = await control.runs.matching(action, wanted, given.limit)
        return JSONResponse(_bulk(BulkResult((), (), has_more), len(found), dry_run=True))
    result = await control.runs.all_matching(
        action, wanted, user, limit=given.limit, per_minute=per_minute, admit=admit
    )
    return JSONResponse(_bulk(result, len(result.done) + len(result.refused), dry_run=False))


def _bulk(result: BulkResult, matched: int, *, dry_run: bool) -> dict[str, object]:
    done = [answer(Done, run_id=str(run), new_run_id=None if new is None else str(new)) for run, new in result.done]
    refused = [answer(Refused, run_id=str(run), message=message) for run, message in result.refused]
    return answer(runs.BulkResult, result, dry_run=dry_run, matched=matched, done=done, refused=refused)
