"""A small API on the real store in memory, with a clock that tests move: what every test of access needs."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import uuid4

import httpx
from fastapi import APIRouter, Depends, FastAPI, Response

from hourbell.api import sessions
from hourbell.api.access import Authenticator, Caller, require_role
from hourbell.api.idempotency import IdempotentRoute, SecretResponse, asked
from hourbell.api.json_body import json_body, optional_json_body
from hourbell.api.limits import UNKNOWN_TOKENS_PER_SECOND, Limits, LoginLimits, Repeats
from hourbell.api.middleware import RequestMiddleware
from hourbell.api.problems import add_handlers
from hourbell.api.session_cookie import COOKIE, SessionCookies
from hourbell.control.access import Access
from hourbell.core.access.roles import Role
from hourbell.core.values.networks import Network
from hourbell.store.control.access import AccessStore
from hourbell.store.control.actor import Request
from hourbell.store.sqlite.session import SqliteSessions
from tests.sqlite_database import SqliteDatabase

T0 = datetime(2026, 11, 16, 9, tzinfo=UTC)
SAME = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}


@dataclass
class Time:
    seconds: float = 1_000.0

    def elapsed(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return T0 + timedelta(seconds=self.seconds)


async def no_pause(_seconds: float) -> None: ...


@dataclass
class House:
    database: SqliteDatabase
    store: AccessStore
    access: Access
    authenticator: Authenticator
    app: FastAPI
    time: Time
    trusted_proxies: tuple[Network, ...] = ()
    client_ip: str = "127.0.0.1"

    async def ask(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        host: str = "localhost",
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        **more: Any,
    ) -> httpx.Response:
        middleware = RequestMiddleware(
            self.app, new_id=lambda: "made-id", elapsed=self.time.elapsed, trusted_proxies=self.trusted_proxies
        )
        transport = httpx.ASGITransport(middleware, client=(self.client_ip, 4711))
        given = list(headers.items() if isinstance(headers, Mapping) else headers)
        sent = [(name, value.encode()) for name, value in given]
        if token:
            sent.append(("Authorization", f"Bearer {token}".encode()))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
            return await client.request(method, path, headers=sent, **more)

    def dump(self) -> str:
        """Return all rows of the database."""
        tables = self.database.connection.execute("select name from sqlite_schema where type = 'table'").fetchall()
        return repr([self.database.connection.execute(f"select * from {name}").fetchall() for (name,) in tables])

    async def token(self, role: Role = Role.ADMIN, **more: Any) -> str:
        return (await self.access.create(f"the {role}", role, "test", **more))[1].reveal()

    async def log_in(self, token: str) -> tuple[dict[str, str], httpx.Response]:
        """The headers with which our page sends a change, and what the login was answered."""
        answer = await self.ask("POST", "/api/v1/session", json={"token": token}, headers=SAME)
        assert answer.status_code == 200, answer.text
        value = answer.headers["set-cookie"].partition(";")[0].partition("=")[2]
        return {**SAME, "Cookie": f"{COOKIE}={value}", "X-CSRF-Token": answer.json()["csrf_token"]}, answer


@asynccontextmanager
async def open_house(
    *,
    is_local: bool = True,
    rate: float = 0,
    pause: Callable[[float], Awaitable[None]] = no_pause,
    store_class: type[AccessStore] = AccessStore,
) -> AsyncIterator[House]:
    async with SqliteDatabase.in_memory() as database:
        time, store = Time(), store_class(SqliteSessions(database.runner()))
        access = Access(store, now=time.now, new_id=uuid4, random_bytes=os.urandom, elapsed=time.elapsed)
        authenticator = Authenticator(
            access=access,
            cookies=SessionCookies(await store.session_key(b"k" * 32), now=time.now),
            limits=Limits(rate, elapsed=time.elapsed),
            logins=LoginLimits(elapsed=time.elapsed),
            is_local=is_local,
            pause=pause,
            unknown_tokens=Limits(UNKNOWN_TOKENS_PER_SECOND, elapsed=time.elapsed),
            refusals=Repeats(elapsed=time.elapsed),
        )
        app = FastAPI()
        authenticator.install(app)
        add_handlers(app)
        app.include_router(sessions.login, prefix="/api/v1")
        app.include_router(sessions.router, prefix="/api/v1")
        app.include_router(_things(access), prefix="/api/v1")
        yield House(database, store, access, authenticator, app, time)


def _things(access: Access) -> APIRouter:
    """Creates tokens: the only change of access that takes a key."""
    router = APIRouter(route_class=IdempotentRoute)
    viewer, operator = (
        Annotated[Caller, Depends(require_role(Role.VIEWER))],
        Annotated[Caller, Depends(require_role(Role.OPERATOR))],
    )
    call, body = Annotated[Request, Depends(asked)], Annotated[Any, Depends(json_body)]

    @router.get("/things")
    async def read(caller: viewer) -> dict[str, object]:
        return {"actor": caller.actor, "role": caller.role, "ip": caller.ip, "session": caller.is_session}

    @router.put("/things")
    @router.patch("/things")
    @router.delete("/things")
    async def change(_caller: operator) -> dict[str, bool]:
        return {"changed": True}

    @router.post("/things", status_code=201)
    async def create(caller: operator, body: body, call: call, response: Response) -> dict[str, object]:
        made, _ = await access.create(body["name"], Role.VIEWER, caller.actor, request=call)
        response.headers["ETag"] = '"1"'
        return {"id": str(made.id), "text": "x" * body.get("size", 0)}

    @router.post("/secret", status_code=201)
    async def report(caller: operator, call: call) -> Response:
        _, text = await access.create("told", Role.VIEWER, caller.actor, request=call)
        return SecretResponse({"secret": text.reveal()}, 201)

    @router.post("/echo")
    async def echo(_caller: viewer, body: Annotated[Any, Depends(optional_json_body)]) -> dict[str, object]:
        return {"body": body}

    return router
