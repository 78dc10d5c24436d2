"""Endpoints for monitoring: liveness, readiness and metrics.

`/health` shows only that the process answers. `/health/ready` shows whether the node works. It returns 503 while the
database is unreachable or refuses writes, a loop has not succeeded for too long, the node is stopping, or attempts past
their timeout hold a whole pool, so that the node can start nothing more there. A backlog or a lane that no node serves
is reported without changing the status, because taking this node out of rotation would not help; `warnings` lists what
is stuck. Only authenticated callers see names of lanes and tasks; all others get counts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hourbell.api.problems import problem
from hourbell.metrics import Metrics

_PATIENCE = 5.0  # seconds to wait for the status; the timeouts of probes are hardly longer
_FRESH = {"Cache-Control": "no-store"}


@dataclass(frozen=True, slots=True)
class LoopAge:
    """The time since a loop last succeeded, and its limit."""

    name: str
    seconds: float
    limit_seconds: float

    @property
    def is_too_old(self) -> bool:
        return self.seconds > self.limit_seconds


@dataclass(frozen=True, slots=True)
class PoolUse:
    """The use of a pool, such as threads: how many are taken, and how many of these by attempts past their timeout."""

    name: str
    size: int
    taken: int
    overdue: Mapping[str, int] = field(default_factory=dict)  # by task

    @property
    def overdue_total(self) -> int:
        return sum(self.overdue.values())

    @property
    def is_exhausted(self) -> bool:
        return self.overdue_total >= self.size

    def reason(self, *, with_names: bool) -> str:
        tasks = ", ".join(f"{name} ({count})" for name, count in self.overdue.items())
        named = f": {tasks}" if with_names else ""
        return f"all {self.size} {self.name} are held by functions past their timeout{named}; restart this node"

    def body(self, *, with_names: bool) -> dict[str, object]:
        named = {"overdue": dict(self.overdue)} if with_names else {}
        return {"size": self.size, "taken": self.taken, "overdue_count": self.overdue_total, **named}


@dataclass(frozen=True, slots=True)
class Readiness:
    """The status of this node. Fields that come from the database are None or empty while it is unreachable."""

    database_reachable: bool
    loops: tuple[LoopAge, ...]
    waiting: int | None = None
    oldest_seconds: float | None = None  # how long the oldest waiting run has been ready
    unserved_lanes: tuple[str, ...] = ()
    is_stopping: bool = False  # it finishes its current attempts and claims nothing new
    pools: tuple[PoolUse, ...] = ()
    database_problem: str | None = None  # the problem of a database that answers, and what to do
    stuck_seconds: float = float("inf")  # age from which the oldest waiting run counts as stuck

    @property
    def is_ready(self) -> bool:
        return not self.reasons(with_names=False)

    def reasons(self, *, with_names: bool) -> list[str]:
        """Return the reasons why this node is not ready, as readable text."""
        return [
            *([] if self.database_reachable else ["the database is unreachable"]),
            *([] if self.database_problem is None else [self.database_problem]),
            *(["the node is stopping"] if self.is_stopping else []),
            *(f"the {loop.name} last succeeded {loop.seconds:.0f} s ago" for loop in self.loops if loop.is_too_old),
            *(pool.reason(with_names=with_names) for pool in self.pools if pool.is_exhausted),
        ]

    def warnings(self, *, with_names: bool) -> list[str]:
        """Return the reasons why runs wait although this node may be ready, as readable text."""
        lanes = [f"no live node serves {lane}" for lane in self.unserved_lanes]
        if lanes and not with_names:
            count = "a lane" if len(lanes) == 1 else f"{len(lanes)} lanes"
            lanes = [f"no live node serves {count} with runs; send a token to see which"]
        oldest = self.oldest_seconds
        if oldest is None or oldest <= self.stuck_seconds:
            return lanes
        why = "`hourbell doctor` and `hourbell run list` say why"
        return [f"of {self.waiting} waiting runs the oldest has been ready for {oldest:.0f} s; {why}", *lanes]

    def body(self, *, with_names: bool) -> dict[str, object]:
        database: dict[str, object] = {"reachable": self.database_reachable}
        if self.database_problem is not None:
            database["problem"] = self.database_problem
        return {
            "status": "ready" if self.is_ready else "stopping" if self.is_stopping else "not_ready",
            "reasons": self.reasons(with_names=with_names),
            "warnings": self.warnings(with_names=with_names),
            "database": database,
            "loops": {
                loop.name: {
                    "age_seconds": round(loop.seconds, 3),
                    "limit_seconds": round(loop.limit_seconds, 3),
                    "too_old": loop.is_too_old,
                }
                for loop in self.loops
            },
            "backlog": {
                "waiting": self.waiting,
                "oldest_seconds": None if self.oldest_seconds is None else round(self.oldest_seconds, 3),
            },
            "unserved_lane_count": len(self.unserved_lanes),
            **({"unserved_lanes": list(self.unserved_lanes)} if with_names else {}),
            "pools": {pool.name: pool.body(with_names=with_names) for pool in self.pools},
        }


Endpoint = Callable[[Request], Awaitable[Response]]
SeesNames = Callable[[Request], Awaitable[bool]]


async def nobody(_request: Request) -> bool:
    return False


def health_endpoints(
    status: Callable[[], Awaitable[Readiness]],
    metrics: Metrics,
    sees_names: SeesNames = nobody,
    *,
    patience_seconds: float = _PATIENCE,
) -> dict[str, Endpoint]:
    """Return the endpoint for each path. They work without a database and call `status` for each request.

    `sees_names` decides if a caller may see the names of lanes and tasks.
    """

    async def learn() -> Readiness | None:
        try:
            async with asyncio.timeout(patience_seconds):
                return await status()
        except TimeoutError:
            return None

    async def health(_request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=_FRESH)

    async def may_see_names(request: Request, readiness: Readiness) -> bool:
        if not readiness.database_reachable:  # tokens are stored there, so no caller can be authenticated
            return False
        try:
            async with asyncio.timeout(patience_seconds):
                return await sees_names(request)
        except TimeoutError:
            return False

    async def ready(request: Request) -> Response:
        readiness = await learn()
        if readiness is None:
            return problem(503, "status_unknown", f"The status was not known within {patience_seconds:g} s.")
        body = readiness.body(with_names=await may_see_names(request, readiness))
        return JSONResponse(body, 200 if readiness.is_ready else 503, headers=_FRESH)

    async def show_metrics(_request: Request) -> Response:
        readiness = await learn()
        if readiness is not None:
            _refresh(metrics, readiness)
        return Response(metrics.render(), headers={**_FRESH, "Content-Type": CONTENT_TYPE_LATEST})

    return {"/health": health, "/health/ready": ready, "/metrics": show_metrics}


def _refresh(metrics: Metrics, readiness: Readiness) -> None:
    for loop in readiness.loops:
        metrics.loop_age.labels(loop.name).set(loop.seconds)
    for pool in readiness.pools:
        metrics.pool_size.labels(pool.name).set(pool.size)
        metrics.pool_taken.labels(pool.name).set(pool.taken)
        metrics.pool_overdue.labels(pool.name).set(pool.overdue_total)
    if readiness.waiting is not None:
        metrics.backlog.set(readiness.waiting)
        metrics.backlog_age.set(readiness.oldest_seconds or 0.0)
