"""Server-sent events about changed jobs and runs, at most one event a second."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from hourbell.answers.server import ChangedIncident, ChangedJob, ChangedRun
from hourbell.api.access import CallerDep, authenticator_of, is_let_in
from hourbell.api.documented import responses
from hourbell.api.render import answer
from hourbell.api.users import ControlDep, Viewer
from hourbell.control.changes import Event, Quiet, Watch

router = APIRouter()

MEDIA_TYPE = "text/event-stream"
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "An endless stream of the events `changes` and `reset`.", "content": {MEDIA_TYPE: {}}}
}


@router.get("/events", summary="Stream changes", responses={**responses(None), **_ANSWER})
async def listen(
    request: Request,
    control: ControlDep,
    caller: CallerDep,
    user: Viewer,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> Response:
    """Stream the jobs and runs that change. After `reset`, changes may have been missed: list jobs and runs again."""
    del user
    streams, name = authenticator_of(request).streams, caller.limited_as
    if (refused := streams.begin(name)) is not None:
        raise refused
    events = _events(request, control.watch, last_event_id)
    return StreamedResponse(events, MEDIA_TYPE, lambda: streams.end(name))


class StreamedResponse(StreamingResponse):
    """A streaming response that calls `on_end` once, however the stream ends."""

    def __init__(self, parts: AsyncIterator[bytes], media_type: str, on_end: Callable[[], None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(parts, media_type=media_type, headers=headers)
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()


async def _events(request: Request, watch: Watch, last_id: str | None) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n\n"
    async with aclosing(watch.listen(last_id)) as events:
        async for event in events:
            if await request.is_disconnected() or not await is_let_in(request):
                return
            yield _written(event)


def _written(event: Event | Quiet) -> bytes:
    """Serialize an event. An id without data only gives the client its position to reconnect from."""
    if isinstance(event, Quiet):
        return f": nothing changed\nid: {event.id}\n\n".encode()
    name = "reset"
    body: dict[str, list[Any]] = {}
    if event.changes is not None:
        name = "changes"
        body = {
            "jobs": [answer(ChangedJob, job) for job in event.changes.jobs],
            "runs": [answer(ChangedRun, run) for run in event.changes.runs],
        }
        if event.changes.incidents:
            body["incidents"] = [answer(ChangedIncident, incident) for incident in event.changes.incidents]
    return f"id: {event.id}\nevent: {name}\ndata: {json.dumps(body)}\n\n".encode()
