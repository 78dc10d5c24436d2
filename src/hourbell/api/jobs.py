"""The routes of jobs. Each parses the request, calls control and renders the answer."""

from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hourbell.answers.jobs import Backfill, RotatedSecret, Skip
from hourbell.answers.runs import Triggered
from hourbell.api import bodies, render, shapes
from hourbell.api.access import CallerDep
from hourbell.api.documented import responses, takes
from hourbell.api.idempotency import IdempotentRoute, SecretResponse
from hourbell.api.pages import page_response
from hourbell.api.problems import invalid_parameter
from hourbell.api.render import answer
from hourbell.api.users import (
    ControlDep,
    Editor,
    JsonBody,
    Operator,
    OptionalBody,
    Version,
    Viewer,
    limit_triggers,
    limited_trigger,
    read,
)
from hourbell.api.values import AttentionFilter, Cursor, Date, Instant, JobRef, Limit, Subject, VersionNumber
from hourbell.control.control import Control
from hourbell.control.history import instants_to_come
from hourbell.control.jobs import Defined, EditOptions, Intended
from hourbell.control.ledger import MAX_DAYS, TimesFilter
from hourbell.control.runs import RunFilter
from hourbell.control.values import JobQuery, JobSort, JobState, JobView
from hourbell.core.run.fates import Fate
from hourbell.core.run.states import RunState

router = APIRouter(route_class=IdempotentRoute)

DryRun = Annotated[bool, Query(description="Return what would be done, without doing it.")]
TakeOver = Annotated[bool, Query(description="Become the owner of jobs that a program, a file or SQL owns.")]
RunOnCreate = Annotated[
    bool, Query(description="Also add a manual run that is ready at once, in the same transaction.")
]
DropBacklog = Annotated[bool, Query(description="Skip times that are due but not planned yet.")]
DropSecrets = Annotated[
    bool,
    Query(description="Give up secret headers that were set for another origin than the new one. Needs admin."),
]
ApproveCommand = Annotated[
    bool,
    Query(description="Approve a command that SQL has changed and you have checked. Needs admin and If-Match."),
]
RecentCount = Annotated[
    int | None, Query(ge=0, le=50, description="Include so many of the newest scheduled times, with their fates.")
]
Total = Annotated[bool, Query(description="Include the number of jobs on all pages, counted up to 10,000.")]
_SHOWN = 10
_MAX_RECENT_JOBS = 100
_WEEK = timedelta(days=7)
_CHANGED: dict[int | str, dict[str, Any]] = {
    200: {"model": shapes.JobDefined | shapes.Intention, "description": "The job, or the result of a dry run."}
}
_INTENDED: dict[int | str, dict[str, Any]] = {
    200: {"model": shapes.Intention, "description": "The result of a dry run."}
}


@dataclass(frozen=True, slots=True)
class JobParameters:
    """Query parameters of the job list: filters and order."""

    q: Annotated[str | None, Query(max_length=100, description="A prefix of the name.")] = None
    tag: Annotated[str | None, Query(max_length=100)] = None
    state: JobState | None = None
    target: Annotated[
        Literal["http", "sql", "task", "command", "queue"] | None, Query(description="The type of the target.")
    ] = None
    managed_by: Literal["api", "app", "code", "sql", "file", "system"] | None = None
    source: Annotated[str | None, Query(max_length=200)] = None
    subject: Subject = None
    last_result: Annotated[
        RunState | None, Query(description="The state in which the last run ended; sorted by id.")
    ] = None
    next_before: Annotated[
        Instant | None, Query(description="Only jobs that fire before this time, the next first.")
    ] = None
    attention: AttentionFilter = None
    sort: JobSort | None = None
    secrets: Annotated[bool, Query(description="Include the list of each job's secrets, without values.")] = False

    def query(self) -> JobQuery:
        default = JobSort.ID if self.last_result else JobSort.NEXT if self.next_before else JobSort.NAME
        filters = {name: value for name, value in asdict(self).items() if name not in ("q", "sort", "secrets")}
        return JobQuery(self.sort or default, self.q, **filters)


@dataclass(frozen=True, slots=True)
class JobRunParameters:
    """Query parameters of the list of a job's runs."""

    state: RunState | None = None
    since: Instant | None = None
    until: Instant | None = None


def _edit_options(
    version: Version,
    take_over: TakeOver = False,
    drop_backlog: DropBacklog = False,
    drop_secrets: DropSecrets = False,
    approve_command: ApproveCommand = False,
) -> EditOptions:
    return EditOptions(version, drop_backlog, drop_secrets, take_over, approve_command)


Edit = Annotated[EditOptions, Depends(_edit_options)]


@router.get("", summary="List jobs", responses=responses(shapes.JobList, 409))
async def list_jobs(
    control: ControlDep,
    user: Viewer,
    wanted: Annotated[JobParameters, Depends()],
    recent: RecentCount = None,
    total: Total = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List jobs by name, or by their next scheduled time (`sort=next_at`, and always with `next_before`).

    With `recent`, each job also has its newest scheduled times with their fates, and a page holds at most 100 jobs.
    With `total`, the answer has the number of jobs on all pages, or null if there are more than 10,000.
    """
    del user
    if recent is not None and limit > _MAX_RECENT_JOBS:
        message = f"a page with recent times holds at most {_MAX_RECENT_JOBS} jobs"
        raise invalid_parameter([("/query/limit", message, f"write {_MAX_RECENT_JOBS} or less, or leave recent out")])
    found = await control.history.jobs(wanted.query(), limit, cursor)
    ids = [view.job.id for view in found.items]
    rows = await control.secrets.list_by_job(ids, control.now()) if wanted.secrets else None
    newest = {} if recent is None else await control.ledger.recent(ids, recent)

    def render_item(view: JobView) -> dict[str, Any]:
        secrets = None if rows is None else rows.get(view.job.id, ())
        return render.listed_job(view, secrets, newest.get(view.job.id))

    more = {"total": await control.history.count_jobs(wanted.query())} if total else {}
    return page_response(found, render_item, more)


@router.post(
    "",
    summary="Create a job",
    status_code=201,
    responses=responses(shapes.JobDefined, 409, status=201, has_body=True, more=_INTENDED),
    openapi_extra=takes(bodies.JobBody),
)
async def create_job(
    request: Request,
    control: ControlDep,
    user: Editor,
    found: CallerDep,
    body: JsonBody,
    dry_run: DryRun = False,
    run_on_create: RunOnCreate = False,
) -> Response:
    """Store a job that fires from now on, never for the past. With `run_on_create` it also runs once at once.

    Set `"secret": "generate"` in an http target to sign its requests; the response shows the secret once. The headers
    in `secret_headers` are sent with each request to the origin of this URL, and are never shown.
    """
    if dry_run:
        return await _show(control, await control.jobs.intend(None, body, user))
    if run_on_create:
        limit_triggers(request, found, 1)
    return await _defined(control, await control.jobs.create(body, user, run_on_create=run_on_create))


@router.get("/{job}", summary="Get a job", responses=responses(shapes.JobDetail, 404))
async def get_job(control: ControlDep, user: Viewer, job: JobRef, recent: RecentCount = None) -> Response:
    """Return a job with its definition, its state and the list of its secrets, without their values.

    With `recent`, it also has its newest scheduled times with their fates.
    """
    del user
    view = await control.jobs.get(job)
    rows = await control.secrets.list(view.job.id, control.now())
    body = render.job_with_secrets(view, rows)
    if recent is not None:
        body |= render.recent_times((await control.ledger.recent([view.job.id], recent))[view.job.id])
    return JSONResponse(body, headers=_etag(view.job.version))


@router.put(
    "/{job}",
    summary="Replace a job, or create it",
    responses=responses(
        shapes.JobDefined,
        404,
        409,
        412,
        has_body=True,
        more={201: {"model": shapes.JobDefined, "description": "Created"}, **_CHANGED},
    ),
    openapi_extra=takes(bodies.JobBody),
)
async def replace_job(
    control: ControlDep, user: Editor, job: JobRef, body: JsonBody, options: Edit, dry_run: DryRun = False
) -> Response:
    """Replace the definition of a job, or create a job of that name. Absent fields get their defaults.

    Scheduled times that are already due belong to the old definition and are planned first.
    """
    if dry_run:
        return await _show(control, await control.jobs.intend(job, body, user, options))
    return await _defined(control, await control.jobs.replace(job, body, user, options))


@router.patch(
    "/{job}",
    summary="Change a job",
    responses=responses(None, 404, 409, 412, has_body=True, more=_CHANGED),
    openapi_extra=takes(bodies.PatchBody, "application/merge-patch+json", "application/json"),
)
async def patch_job(
    control: ControlDep, user: Editor, job: JobRef, body: JsonBody, options: Edit, dry_run: DryRun = False
) -> Response:
    """Change a job by a JSON merge patch. Absent fields stay unchanged, and null restores the default."""
    if dry_run:
        return await _show(control, await control.jobs.intend(job, body, user, options, is_patch=True))
    return await _defined(control, await control.jobs.patch(job, body, user, options))


@router.delete("/{job}", summary="Delete a job", status_code=204, responses=responses(None, 404, 409, 412, status=204))
async def delete_job(
    control: ControlDep,
    user: Editor,
    job: JobRef,
    version: Version,
    take_over: TakeOver = False,
    purge: Annotated[bool, Query(description="Also remove its history. Requires the role admin.")] = False,
) -> Response:
    """Delete a job and cancel its waiting runs. Its history stays readable by its id until the retention ends.

    With `purge` its runs, attempts, skips, statistics and versions are removed at once; you can also purge a job that
    was deleted before, by its id. A purge is refused while a run of the job is running.
    """
    await control.jobs.delete(job, user, expect_version=version, take_over=take_over, purge=purge)
    return Response(status_code=204)


@router.post(
    "/{job}/pause",
    summary="Pause a job",
    responses=responses(shapes.JobAnswer, 404, 412, has_body=True),
    openapi_extra=takes(bodies.PauseBody, required=False),
)
async def pause_job(control: ControlDep, user: Operator, job: JobRef, body: OptionalBody, version: Version) -> Response:
    """Stop planning the job, until the time `until` if given. Planned runs continue unless you set `cancel_waiting`."""
    given = read(bodies.PauseBody, body)
    view = await control.jobs.pause(
        job,
        user,
        note=given.note,
        until=given.until,
        cancel_waiting=given.cancel_waiting,
        expect_version=version,
    )
    return JSONResponse(render.job(view), headers=_etag(view.job.version))


@router.post(
    "/{job}/resume",
    summary="Resume a job",
    responses=responses(shapes.JobAnswer, 404, 412, has_body=True),
    openapi_extra=takes(bodies.ResumeBody, required=False),
)
async def resume_job(
    control: ControlDep, user: Operator, job: JobRef, body: OptionalBody, version: Version
) -> Response:
    """Plan the job again from now on. Scheduled times during the pause are recorded as one skip.

    With `catch_up` they are planned by the job's catch-up policy instead.
    """
    given = read(bodies.ResumeBody, body)
    view = await control.jobs.resume(job, user, catch_up=given.catch_up, expect_version=version)
    return JSONResponse(render.job(view), headers=_etag(view.job.version))


@router.post(
    "/{job}/trigger",
    summary="Run a job now",
    status_code=201,
    dependencies=[Depends(limited_trigger)],
    responses=responses(shapes.Triggered, 404, 409, status=201, has_body=True),
    openapi_extra=takes(bodies.TriggerBody, required=False),
)
async def trigger_job(control: ControlDep, user: Operator, job: JobRef, body: OptionalBody) -> Response:
    """Add a run that is ready at once, even while the job is paused. The schedule does not change."""
    given = read(bodies.TriggerBody, body)
    run_id = await control.jobs.trigger(job, user, payload=given.payload, key=given.key)
    view, attempts = await control.runs.get(run_id)
    waits_for = await control.runs.waits_for([view])
    run = render.run_with_attempts(view, attempts, waits_for.get(run_id))
    return JSONResponse(answer(Triggered, run_id=str(run_id), run=run), 201)


@router.post(
    "/{job}/backfill",
    summary="Run missed times of the past",
    responses=responses(shapes.BackfillAnswer, 404, 409, has_body=True),
    openapi_extra=takes(bodies.BackfillBody),
)
async def backfill_job(
    control: ControlDep, user: Operator, job: JobRef, body: JsonBody, dry_run: DryRun = False
) -> Response:
    """Add runs for the scheduled times from `from` to `to`, both included, that have none, at a limited rate.

    Scheduled times whose runs may have been pruned are refused, because they may have run; set `include_pruned` to run
    them anyway.
    """
    given = read(bodies.BackfillBody, body)
    filled = await control.backfills.fill(
        job,
        user,
        given.start,
        given.end,
        per_minute=given.per_minute,
        include_pruned=given.include_pruned,
        dry_run=dry_run,
    )
    return JSONResponse(answer(Backfill, filled, dry_run=dry_run))


@router.post(
    "/{job}/rotate-secret",
    summary="Create or rotate the signing secret",
    responses=responses(shapes.SecretMade, 404, 409, has_body=True),
    openapi_extra=takes(bodies.RotateBody, required=False),
)
async def rotate_secret(control: ControlDep, user: Editor, job: JobRef, body: OptionalBody) -> Response:
    """Sign requests with a new secret, shown once in the response. The old secret also signs during `keep_old`."""
    given = read(bodies.RotateBody, body)
    keep_old = given.keep_old if isinstance(given.keep_old, timedelta) else timedelta(days=1)
    plain, old_until = await control.jobs.rotate_secret(job, user, keep_old=keep_old)
    return SecretResponse(answer(RotatedSecret, secret=plain.reveal(), old_valid_until=render.time(old_until)))


@router.get("/{job}/upcoming", summary="List the next times of a job", responses=responses(shapes.Instants, 404))
async def list_upcoming(
    control: ControlDep,
    user: Viewer,
    job: JobRef,
    count: Annotated[int, Query(ge=1, le=100)] = _SHOWN,
    after: Instant | None = None,
) -> Response:
    """List the next scheduled times of a job, with daylight-saving changes marked.

    The list is empty while the job is paused or in error.
    """
    del user
    found = await control.history.upcoming(job, count, after)
    return JSONResponse({"items": [each.as_json() for each in found]})


@router.get("/{job}/runs", summary="List the runs of a job", responses=responses(shapes.RunList, 404))
async def list_runs_of_job(
    control: ControlDep,
    user: Viewer,
    job: JobRef,
    wanted: Annotated[JobRunParameters, Depends()],
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List the runs of a job by scheduled time, newest first."""
    del user
    job_id = (await control.jobs.get(job, deleted=True)).job.id
    page = await control.runs.page(RunFilter(wanted.state, job_id, wanted.since, wanted.until), limit, cursor)
    waits_for = await control.runs.waits_for(page.items)
    return page_response(page, lambda view: render.listed_run(view, waits_for.get(view.id)))


@router.get("/{job}/times", summary="List the scheduled times of a job", responses=responses(shapes.LedgerList, 404))
async def list_times(
    control: ControlDep,
    user: Viewer,
    job: JobRef,
    start: Annotated[Instant | None, Query(alias="from", description="Times at or after this.")] = None,
    until: Annotated[Instant | None, Query(description="Times before this.")] = None,
    fate: Annotated[list[Fate] | None, Query(max_length=len(Fate), description="Only these fates.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List the scheduled times of a job with what became of each, newest first: its run, or why it was skipped.

    A skip of several times is one item, listed by its last time. With `fate`, a page looks at 5,000 runs at most: it
    may then hold fewer items than `limit`, or none, while `next_cursor` leads to more. Runs that the
    retention removed are not listed.
    """
    del user
    wanted = TimesFilter(start, until, frozenset(fate or ()))
    return page_response(await control.ledger.times(job, wanted, limit, cursor), render.ledger_item)


@router.get("/{job}/days", summary="Count the fates of a job by date", responses=responses(shapes.DaysAnswer, 404))
async def list_days(
    control: ControlDep,
    user: Viewer,
    job: JobRef,
    start: Annotated[Date | None, Query(alias="from", description="The first date.")] = None,
    until: Annotated[Date | None, Query(description="The last date, included; by default today.")] = None,
) -> Response:
    """Count what became of the scheduled times of a job on each date in its time zone, by default of 371 days.

    Dates without scheduled times are left out. The newest 100,000 runs are counted; if there are more, older dates
    are left out and `is_sampled` is true. Runs that the retention removed are not counted.
    """
    del user
    if start is not None and until is not None and not timedelta(0) <= until - start < MAX_DAYS * timedelta(days=1):
        message = f"the range is empty or longer than {MAX_DAYS} days"
        raise invalid_parameter([("/query/until", message, f"write a date up to {MAX_DAYS - 1} days after from")])
    return JSONResponse(render.days(await control.ledger.days(job, start, until)))


@router.get("/{job}/series", summary="Get the durations of a job", responses=responses(shapes.SeriesAnswer, 404))
async def get_series(
    control: ControlDep, user: Viewer, job: JobRef, limit: Annotated[int, Query(ge=1, le=500)] = 100
) -> Response:
    """Return the newest ended runs of a job, oldest first, with their durations and lateness, for charts."""
    del user
    return JSONResponse(render.series(await control.ledger.series(job, limit)))


@router.get("/{job}/stats", summary="Get statistics of a job", responses=responses(shapes.StatsAnswer, 404))
async def get_stats(control: ControlDep, user: Viewer, job: JobRef, since: Instant | None = None) -> Response:
    """Return counts, durations and lateness of runs since a time, by default of the last seven days."""
    del user
    start = since or control.now() - _WEEK
    view, summary, is_sampled = await control.history.stats(job, start)
    return JSONResponse(render.stats(view, summary, start, is_sampled=is_sampled))


@router.get("/{job}/skips", summary="List skipped times of a job", responses=responses(shapes.SkipList, 404))
async def list_skips(
    control: ControlDep, user: Viewer, job: JobRef, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """List the scheduled times of a job that got no run, with the reason, newest first."""
    del user
    return page_response(await control.history.skips(job, limit, cursor), partial(answer, Skip))


@router.get("/{job}/versions", summary="List the versions of a job", responses=responses(shapes.VersionList, 404))
async def list_versions(
    control: ControlDep, user: Viewer, job: JobRef, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """List every version of a job's definition, with who changed it and when, newest first."""
    del user
    found = await control.history.versions(job, limit, cursor)
    return page_response(found, lambda view: render.listed_version(view, job))


@router.get(
    "/{job}/versions/{version}", summary="Get a version of a job", responses=responses(shapes.VersionAnswer, 404)
)
async def get_version(control: ControlDep, user: Viewer, job: JobRef, version: VersionNumber) -> Response:
    """Return one version of a job's definition, with who changed it and when."""
    del user
    return JSONResponse(render.version(await control.history.version(job, version)))


async def _defined(control: Control, defined: Defined) -> Response:
    view = defined.view
    body = render.job(
        view,
        warnings=render.warnings(await control.history.warnings(view.job.definition)),
        generated_secret=None if defined.secret is None else defined.secret.reveal(),
    )
    headers = _etag(view.job.version)
    if defined.is_new:
        headers["Location"] = f"/api/v1/jobs/{view.job.id}"
    kind = JSONResponse if defined.secret is None else SecretResponse
    return kind(body, 201 if defined.is_new else 200, headers=headers)


async def _show(control: Control, intended: Intended) -> Response:
    """Answer a dry run: the next ten scheduled times before and after the change, and warnings."""
    now = control.now()
    before = [] if intended.before is None else await instants_to_come(intended.before, now, _SHOWN)
    after = await instants_to_come(intended.after, now, _SHOWN)
    warned = render.warnings(await control.history.warnings(intended.after))
    return JSONResponse(render.intention(intended, before, after, warned))


def _etag(version: int) -> dict[str, str]:
    return {"ETag": f'"{version}"'}
