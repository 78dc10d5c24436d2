"""The route of a run's log as text: the output of a command, or what a task has logged."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import PlainTextResponse, Response

from hourbell.api.access import CallerDep, authenticator_of, is_let_in
from hourbell.api.documented import responses
from hourbell.api.events import StreamedResponse
from hourbell.api.users import ControlDep, Viewer
from hourbell.control.control import Control
from hourbell.core.run.notes import LogLine, lines_after
from hourbell.core.run.states import ENDS
from hourbell.core.schedule.preview import rfc3339

router = APIRouter()

MEDIA_TYPE = "text/plain"
_POLL_SECONDS = 1.0
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "The lines of the log.", "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}
}
Logs = dict[int, Sequence[LogLine]]  # by attempt


@router.get("/{run}/log", summary="Get the log of a run", responses={**responses(None, 404), **_ANSWER})
async def get_run_log(
    request: Request,
    control: ControlDep,
    caller: CallerDep,
    user: Viewer,
    run: UUID,
    attempt: Annotated[int | None, Query(ge=1, description="The attempt; default: the newest with a log.")] = None,
    times: Annotated[bool, Query(description="Begin each line with the time at which it came.")] = False,
    follow: Annotated[bool, Query(description="Stream further lines until the run ends.")] = False,
) -> Response:
    """Return the output of a command, or the lines that a task has logged: the first and the last ones, as text."""
    del user
    logs, has_ended = await _logs(control, run)
    first = attempt or max(logs, default=1)
    if not follow or has_ended:
        return PlainTextResponse(_text(logs.get(first, ()), times=times))
    streams, name = authenticator_of(request).streams, caller.limited_as
    if (refused := streams.begin(name)) is not None:
        raise refused
    lines = _follow(request, control, run, first, times=times)
    return StreamedResponse(lines, MEDIA_TYPE, lambda: streams.end(name))


async def _follow(request: Request, control: Control, run: UUID, first: int, *, times: bool) -> AsyncIterator[bytes]:
    """Yield the lines of an attempt and those after it, until the run has ended."""
    seen: Logs = {}
    while True:
        logs, has_ended = await _logs(control, run)
        for number in sorted(logs):
            if number >= first:
                yield _text(lines_after(seen.get(number, ()), logs[number]), times=times).encode()
        seen = logs
        if has_ended or await request.is_disconnected() or not await is_let_in(request):
            return
        await asyncio.sleep(_POLL_SECONDS)


async def _logs(control: Control, run: UUID) -> tuple[Logs, bool]:
    """Return the logs of a run's attempts, and whether it has ended."""
    view, attempts = await control.runs.get(run)
    logs: Logs = {each.number: each.log for each in attempts if each.log}
    if view.log:
        logs.setdefault(view.attempt, view.log)
    return logs, view.state in ENDS


def _text(lines: Sequence[LogLine], *, times: bool) -> str:
    return "".join(f"{rfc3339(line.at)} {line.text}\n" if times else f"{line.text}\n" for line in lines)
