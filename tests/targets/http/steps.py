"""Small values for tests of webhooks: a call of a job, and a scripted transport."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hourbell.core.job.definition import Definition
from hourbell.core.job.target import lane_of
from hourbell.core.run.run import Run
from hourbell.core.run.states import Kind, RunState
from hourbell.targets.base import Call
from hourbell.targets.http.transport import NotBegun, Request, Response
from tests.targets.calls import ReportingCall

T0 = datetime(2026, 3, 2, 9, tzinfo=UTC)
RUN_ID = UUID("11111111-2222-5333-8444-555555555555")
URL = "https://example.com/hook?x=1"


def a_definition(payload: object = None, max_age: timedelta = timedelta(days=1), **target: Any) -> Definition:
    whole = {"type": "http", "url": URL, **target}
    return Definition("report", "0 9 * * *", whole, payload=payload, lane=lane_of(whole), max_age=max_age)


def a_run(definition: Definition, **more: Any) -> Run:
    run = Run(
        id=RUN_ID,
        job_id=UUID(int=7),
        job_version=1,
        kind=Kind.SCHEDULED,
        scheduled_at=T0,
        ready_at=T0,
        expires_at=T0 + definition.max_age,
        state=RunState.RUNNING,
        lane=definition.lane,
        attempt=1,
        failures=0,
        crashes=0,
    )
    return run._replace(**more)


def a_call(definition: Definition | None = None, *, now: datetime = T0, **more: Any) -> Call:
    definition = definition or a_definition()
    of_call = {name: more.pop(name) for name in ("begin", "secrets") if name in more}
    return ReportingCall(a_run(definition, **more), definition, now, **of_call)


def answer(status: int = 200, body: bytes = b"", **headers: str) -> Response:
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Response(status, pairs, body, is_whole=True, phases={"wait": 0.1})


class ScriptedTransport:
    """Gives the answers of a script in turn, the last one for ever, and keeps the requests."""

    def __init__(self, *script: Response | Exception) -> None:
        self._script = list(script) or [answer()]
        self.requests: list[Request] = []

    @property
    def headers(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self.requests[-1].headers.items()}

    async def send(self, request: Request, begin: Callable[[], Awaitable[bool]]) -> Response:
        if not await begin():
            raise NotBegun
        self.requests.append(request)
        said = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if isinstance(said, Exception):
            raise said
        return said

    async def close(self) -> None: ...
