"""The routes that act on many jobs, convert other formats to jobs, and create the demo jobs."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hourbell.answers import jobs as job_answers
from hourbell.api import bodies, render, shapes
from hourbell.api.access import CallerDep
from hourbell.api.documented import responses, takes
from hourbell.api.idempotency import IdempotentRoute
from hourbell.api.jobs import DryRun
from hourbell.api.render import answer
from hourbell.api.users import Admin, ControlDep, Editor, JsonBody, Operator, limit_triggers, read
from hourbell.control.calculations import convert
from hourbell.control.job_bulk import BulkChange, JobAction
from hourbell.control.values import JobQuery, JobSort
from hourbell.core.formats.convert import check_timezone, convert_crontab, convert_jobs_file
from hourbell.core.values.field_errors import BodyError, FieldError

router = APIRouter(route_class=IdempotentRoute)
demo = APIRouter(route_class=IdempotentRoute)


@router.post(
    "/bulk",
    summary="Act on many jobs",
    responses=responses(shapes.JobBulkAnswer, 409, has_body=True),
    openapi_extra=takes(bodies.JobBulkBody),
)
async def bulk_jobs(
    request: Request,
    control: ControlDep,
    user: Operator,
    found: CallerDep,
    body: JsonBody,
    dry_run: DryRun = False,
) -> Response:
    """Pause, resume, trigger, delete, tag or untag the named jobs, or those that match a filter; at most 1,000.

    Each job is changed in its own transaction, by the rules of the single action: a refused job does not stop the
    others. Jobs of a filter that need no change are counted and left alone, so while `has_more` is true, repeat the
    request for the rest. With `expect`, nothing is changed if another number of jobs matches (`count_changed`).
    Deleting and tagging need the role editor.
    """
    given = read(bodies.JobBulkBody, body)
    change = BulkChange(given.action, given.note, given.until, tuple(given.tags), given.payload)
    wanted = given.jobs if given.filter is None else _query(given.filter)

    def admit(count: int) -> None:
        if given.action is JobAction.TRIGGER:
            limit_triggers(request, found, count)

    result = await control.job_bulk.act(change, wanted or (), user, expect=given.expect, dry_run=dry_run, admit=admit)
    return JSONResponse(answer(job_answers.JobBulk, result, dry_run=dry_run))


def _query(wanted: bodies.JobFilterBody) -> JobQuery:
    filters = wanted.model_dump(exclude={"everything", "q"})
    sort = JobSort.ID if wanted.last_result else JobSort.NEXT if wanted.next_before else JobSort.NAME
    return JobQuery(sort, wanted.q, **filters)


@router.post(
    "/convert",
    summary="Convert a crontab or a jobs file",
    responses=responses(shapes.Converted, has_body=True),
    openapi_extra=takes(bodies.ConvertBody),
)
async def convert_jobs(user: Editor, body: JsonBody) -> Response:
    """Convert a crontab or a jobs file to definitions that `/jobs/apply` takes. Nothing is stored.

    The entries of a crontab become disabled jobs of tasks, or with `commands` jobs that run the commands. References to
    secrets in a jobs file (`env:`, `file:`) are left out.
    """
    del user
    given = read(bodies.ConvertBody, body)
    if (error := check_timezone(given.timezone)) is not None:
        raise BodyError([FieldError("/timezone", error)])
    return await convert(_converted, given)


def _converted(given: bodies.ConvertBody) -> Response:
    is_crontab = given.format == "crontab"
    if is_crontab:
        found = convert_crontab(given.text, given.timezone, commands=given.commands)
    else:
        found = convert_jobs_file(given.text)
    return JSONResponse(answer(job_answers.Converted, found, source=found.source or given.source))


@demo.post("", summary="Create the demo jobs", status_code=201, responses=responses(shapes.DemoJobs, 409, status=201))
async def create_demo(control: ControlDep, user: Admin) -> Response:
    """Create three harmless jobs that end after an hour: one succeeds, one fails, one is skipped by overlap.

    If they exist, they run for another hour. A name that another job has is refused with `name_taken`.
    """
    return JSONResponse({"items": [render.listed_job(view) for view in await control.demo.start(user)]}, 201)


@demo.delete("", summary="Delete the demo jobs", responses=responses(shapes.DemoJobs, 409))
async def delete_demo(control: ControlDep, user: Admin) -> Response:
    """Delete the demo jobs and return those that existed. Their history stays."""
    return JSONResponse({"items": [render.listed_job(view) for view in await control.demo.stop(user)]})
