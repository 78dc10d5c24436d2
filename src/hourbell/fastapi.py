"""Runs a scheduler inside an ASGI application: FastAPI, Starlette, or any other with a lifespan."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from hourbell.library.scheduler import Scheduler

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def lifespan(scheduler: Scheduler, then: Lifespan | None = None) -> Lifespan:
    """Return a lifespan for `FastAPI(lifespan=…)` that runs the scheduler; `then` is the application's own lifespan.

    Every worker process runs a scheduler, and a run still happens once.
    """

    @asynccontextmanager
    async def live(app: Any) -> AsyncIterator[Any]:
        async with scheduler:
            if then is None:
                yield None
            else:
                async with then(app) as state:
                    yield state

    return live
