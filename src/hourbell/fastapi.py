"""A scheduler inside an ASGI application, from its start to its end: FastAPI, Starlette, or any with a lifespan."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from hourbell.library.scheduler import Scheduler

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def lifespan(scheduler: Scheduler, then: Lifespan | None = None) -> Lifespan:
    """For `FastAPI(lifespan=…)`: the scheduler runs while the application does; `then` is a lifespan of its own.

    Every worker process runs one, and a run still happens once.
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
