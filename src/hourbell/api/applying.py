"""The route that applies all jobs, channels and alert policies of a source atomically, or shows the plan."""

import asyncio
from collections.abc import Iterable

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from hourbell.answers import jobs as job_answers
from hourbell.answers.jobs import DeletedJob, Plan
from hourbell.api import bodies, render, shapes
from hourbell.api.documented import responses, takes
from hourbell.api.idempotency import IdempotentRoute, SecretResponse
from hourbell.api.jobs import DryRun
from hourbell.api.problems import Problem
from hourbell.api.render import answer
from hourbell.api.users import ControlDep, Editor, JsonBody, read
from hourbell.control.alert_bundles import PlannedEntry
from hourbell.control.applying import JOBS_A_TURN, PlannedJob, PlanRefused, Wish
from hourbell.control.control import Control
from hourbell.control.history import instants_to_come
from hourbell.core.job.definition import Definition
from hourbell.core.schedule import ScheduleWarning

router = APIRouter(route_class=IdempotentRoute)

_SHOWN = 3


@router.post(
    "/apply",
    summary="Apply the jobs of a source",
    responses=responses(shapes.Plan, 409, has_body=True),
    openapi_extra=takes(bodies.ApplyBody),
)
async def apply_jobs(control: ControlDep, user: Editor, body: JsonBody, dry_run: DryRun = False) -> Response:
    """Create, change and, with `prune`, delete what belongs to a source, to match the request, atomically.

    That is its jobs, channels and alert policies. What others own is refused unless you set `take_over`. A job that an
    operator paused stays paused. Send the `state` of a dry run as `expect` to carry out exactly that plan: if any of it
    changed since, the request is refused with `plan_outdated` and nothing is applied.
    """
    given = read(bodies.ApplyBody, body)
    wish = Wish(
        given.jobs,
        given.source,
        given.prune,
        given.take_over,
        given.drop_secrets,
        given.expect,
        given.channels,
        given.alert_policies,
    )
    try:
        plan = await control.applying.apply(wish, user, dry_run=dry_run)
    except PlanRefused as refusal:
        errors = [(each.pointer, each.message, each.hint) for each in refusal.errors]
        detail = "Some of it was refused, so nothing was changed; see errors."
        if any(each.code == "not_allowed" for each in refusal.refused.values()):
            raise Problem(403, "not_allowed", detail, errors) from None
        raise Problem(409, "plan_refused", detail, errors) from None
    changed = [job.definition for job in plan.jobs if job.action != "none"]
    warnings = iter(await control.history.warnings_of(changed))
    jobs = []
    for index, job in enumerate(plan.jobs):
        jobs.append(await _planned(control, job, [] if job.action == "none" else next(warnings), dry_run=dry_run))
        if index % JOBS_A_TURN == 0:
            await asyncio.sleep(0)
    deleted = [
        answer(DeletedJob, job, name=job.definition.name, before=await _instants(control, job.definition))
        for job in plan.deleted
    ]
    channels, policies = map(_entries, (plan.channels, plan.alert_policies))
    secrets = [*(job.generated_secret for job in plan.jobs), *(each.generated_secret for each in plan.channels)]
    has_secret = any(secret is not None for secret in secrets)
    return (SecretResponse if has_secret else JSONResponse)(
        answer(
            Plan,
            plan,
            dry_run=dry_run,
            source=given.source,
            jobs=jobs,
            deleted=deleted,
            channels=channels,
            alert_policies=policies,
        )
    )


def _entries(planned: Iterable[PlannedEntry]) -> list[render.Json]:
    return [
        answer(
            job_answers.PlannedEntry,
            each,
            generated_secret=None if each.generated_secret is None else each.generated_secret.reveal(),
        )
        for each in planned
    ]


async def _planned(control: Control, job: PlannedJob, warnings: list[ScheduleWarning], *, dry_run: bool) -> render.Json:
    result, before = job.applied.result, job.applied.before
    is_there = before is not None or not dry_run
    is_kept = job.action == "none"
    secret = job.generated_secret
    return answer(
        job_answers.PlannedJob,
        job,
        name=result.name,
        id=str(result.job_id) if is_there else None,
        version=result.version if is_there else None,
        before=[] if before is None or is_kept else await _instants(control, before.definition),
        after=[] if is_kept else await _instants(control, job.definition),
        warnings=render.warnings(warnings),
        generated_secret=None if secret is None else secret.reveal(),
    )


async def _instants(control: Control, definition: Definition) -> list[render.Json]:
    return [each.as_json() for each in await instants_to_come(definition, control.now(), _SHOWN)]
