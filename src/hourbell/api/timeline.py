"""The route of the time line: jobs with their runs, skips and planned times."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from starlette.responses import JSONResponse, Response

from hourbell.api import render, shapes
from hourbell.api.documented import responses
from hourbell.api.idempotency import IdempotentRoute
from hourbell.api.problems import invalid_parameter
from hourbell.api.users import ControlDep, Viewer
from hourbell.api.values import AttentionFilter, Cursor, Instant, Subject
from hourbell.control.timeline import MAX_SPAN, TimelineSort
from hourbell.control.values import JobQuery, JobSort, JobState
from hourbell.core.run.states import RunState
from hourbell.core.run.timeline import Window

router = APIRouter(route_class=IdempotentRoute)

_AROUND = timedelta(hours=24)
_MAX_NAMES = 100
Name = Annotated[str, Query(min_length=1, max_length=100)]


@dataclass(frozen=True, slots=True)
class TimelineParameters:
    """Query parameters of the time line: its window, and the filters and the order of its jobs."""

    start: Annotated[Instant | None, Query(alias="from", description="By default 24 hours ago.")] = None
    until: Annotated[Instant | None, Query(description="By default in 24 hours; at most 62 days after `from`.")] = None
    q: Annotated[str | None, Query(max_length=100, description="How the name begins.")] = None
    tag: Annotated[str | None, Query(max_length=100)] = None
    state: JobState | None = None
    target: Annotated[
        Literal["http", "sql", "task", "command", "queue"] | None, Query(description="The target's type.")
    ] = None
    managed_by: Literal["api", "app", "code", "sql", "file", "system"] | None = None
    source: Annotated[str | None, Query(max_length=200)] = None
    subject: Subject = None
    last_result: Annotated[RunState | None, Query(description="How the last run ended.")] = None
    attention: AttentionFilter = None
    job: Annotated[list[Name] | None, Query(max_length=_MAX_NAMES, description="Exact names; repeat it.")] = None
    sort: Annotated[
        TimelineSort,
        Query(description="By default what needs attention first. `next`: only jobs that will fire."),
    ] = TimelineSort.ATTENTION
    max_marks: Annotated[
        int, Query(ge=1, le=500, description="A job with more runs and planned times is counted in buckets.")
    ] = 200

    def query(self) -> JobQuery:
        return JobQuery(
            JobSort.NEXT if self.sort is TimelineSort.NEXT else JobSort.NAME,
            prefix=self.q,
            tag=self.tag,
            state=self.state,
            target=self.target,
            managed_by=self.managed_by,
            source=self.source,
            subject=self.subject,
            last_result=self.last_result,
            attention=self.attention,
            names=self.job,
        )


@router.get("/timeline", summary="Jobs on a time line", responses=responses(shapes.TimelineAnswer))
async def get_timeline(
    control: ControlDep,
    user: Viewer,
    wanted: Annotated[TimelineParameters, Depends()],
    limit: Annotated[int, Query(ge=1, le=100, description="How many jobs a page holds.")] = 25,
    cursor: Cursor = None,
) -> Response:
    """List jobs with the runs and skips in a window by scheduled time, and the times that are planned in it.

    A job with more than `max_marks` runs and planned times has neither, but counts by bucket; empty buckets are left
    out. A page has at most 10,000 marks: with more jobs than that allows, each has fewer.
    """
    del user
    now = control.now()
    start, end = wanted.start, wanted.until
    if start is None:
        start = now - _AROUND if end is None else min(now, end) - _AROUND
    if end is None:
        end = max(now, start) + _AROUND
    if not start < end:
        raise invalid_parameter([("/query/until", "until is not after from", "give a later time")])
    if end - start > MAX_SPAN:
        raise invalid_parameter([("/query/until", "the window is longer than 62 days", "ask for a shorter one")])
    found = await control.timelines.page(
        wanted.query(), wanted.sort, Window.of(start, end), limit=limit, max_marks=wanted.max_marks, cursor=cursor
    )
    return JSONResponse(render.timeline(found))
