"""Server-sent events: which jobs and runs changed, at most one event a second."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from starlette.responses import Response, StreamingResponse

from hourbell.api.access import is_let_in
from hourbell.api.documented import answers
from hourbell.api.problems import Problem
from hourbell.api.users import ControlDep, Viewer
from hourbell.control.changes import Event, Quiet, Watch

router = APIRouter()

MEDIA_TYPE = "text/event-stream"
_MOST = 500  # streams of one process
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "Events `changes` and `reset`, without an end.", "content": {MEDIA_TYPE: {}}}
}


@router.get("/events", summary="Hear of changes", responses={**answers(None), **_ANSWER})
async def listen(
    request: Request,
    control: ControlDep,
    user: Viewer,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> Response:
    """Which jobs and runs changed. `reset` says that something may have been missed: look at everything again."""
    del user
    if control.watch.listeners >= _MOST:
        raise Problem(
            503, "too_many_listeners", f"{_MOST} listen already; come back later.", headers={"Retry-After": "30"}
        )
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(request, control.watch, last_event_id), media_type=MEDIA_TYPE, headers=headers)


async def _events(request: Request, watch: Watch, last_id: str | None) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n\n"
    async with aclosing(watch.listen(last_id)) as events:
        async for event in events:
            if await request.is_disconnected() or not await is_let_in(request):
                return
            yield _written(event)


def _written(event: Event | Quiet) -> bytes:
    """An id without data only says where to go on."""
    if isinstance(event, Quiet):
        return f": nothing changed\nid: {event.id}\n\n".encode()
    name, body = "reset", {}
    if event.changes is not None:
        name = "changes"
        body = {
            "jobs": [{"id": str(job.id), "version": job.version} for job in event.changes.jobs],
            "runs": [
                {"id": str(run.id), "job_id": str(run.job_id), "state": run.state.value} for run in event.changes.runs
            ],
        }
    return f"id: {event.id}\nevent: {name}\ndata: {json.dumps(body)}\n\n".encode()
