"""The whole API on a database, without a network: requests, control and the store."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import httpx
from fastapi import FastAPI

from hourbell.analytics import Analytics
from hourbell.api.access import Authenticator
from hourbell.api.app import build_app
from hourbell.api.health import Readiness
from hourbell.api.limits import Limits, LoginLimits
from hourbell.api.middleware import RequestMiddleware
from hourbell.api.page import BUILT_PAGE
from hourbell.api.session_cookie import SessionCookies
from hourbell.control.access import Access
from hourbell.control.alert_bundles import AlertBundles
from hourbell.control.alerts import Alerts
from hourbell.control.applying import Applying
from hourbell.control.backfill import Backfills
from hourbell.control.changes import Watch
from hourbell.control.control import Control
from hourbell.control.demo import Demo
from hourbell.control.history import CheckHosts, History
from hourbell.control.imports import Imports
from hourbell.control.job_bulk import JobBulk
from hourbell.control.jobs import Jobs
from hourbell.control.ledger import Ledger
from hourbell.control.rules import Rules
from hourbell.control.run_counts import RunCounts
from hourbell.control.runs import Runs
from hourbell.control.secrets import Secrets
from hourbell.control.timeline import Timelines
from hourbell.core.access.roles import Role
from hourbell.core.values.networks import Network
from hourbell.metrics import Metrics
from hourbell.sealing import CommandSeals, KeyRing
from hourbell.targets.channel.chat import SlackChannel
from hourbell.targets.channel.ntfy import NtfyChannel
from hourbell.targets.channel.webhook import WebhookChannel
from tests.database import Database

T0 = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
HOOK = {"type": "http", "url": "https://example.com/hook"}
_IDS = UUID("5f1e1d7a-93a5-4f0e-a4a0-0b6f6a0d9c11")


@dataclass
class Time:
    """The database's time, as far as the API knows. Tests move it."""

    moment: datetime = T0

    def now(self) -> datetime:
        return self.moment

    def elapsed(self) -> float:
        return (self.moment - T0).total_seconds()


@dataclass
class Whole:
    app: FastAPI
    client: httpx.AsyncClient
    control: Control
    database: Database
    time: Time

    def advance(self, by: timedelta) -> None:
        self.time.moment += by

    async def token(self, role: Role, name: str | None = None) -> str:
        """A token of that role. From the first one on, every call needs one."""
        _, text = await self.control.access.create(name or f"a-{role}", role, "test")
        return text.reveal()

    async def job(self, name: str = "report", **more: object) -> dict[str, Any]:
        """A job, made through the API."""
        answer = await self.client.post("/api/v1/jobs", json=a_job(name, **more))
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made


def a_job(name: str = "report", **more: object) -> dict[str, object]:
    return {"name": name, "schedule": "0 9 * * *", "target": HOOK, **more}


@asynccontextmanager
async def whole_api(
    database: Database,
    *,
    is_local: bool = True,
    rate: float = 0,
    check_hosts: CheckHosts | None = None,
    page: Path = BUILT_PAGE,
    public_path: str = "",
    trusted_proxies: Sequence[Network] = (),
    analytics: Analytics | None = None,
) -> AsyncIterator[Whole]:
    """The API as a server on loopback has it, or on any other address."""
    time, numbers = Time(), count()
    now, elapsed = time.now, time.elapsed

    def new_id() -> UUID:
        return uuid5(_IDS, str(next(numbers)))

    def random_bytes(size: int) -> bytes:
        return b"".join(new_id().bytes for _ in range(size // 16 + 1))[:size]

    store, lists = database.control(), database.lists()
    keys = KeyRing([b"k" * 32], random_bytes)
    store.seal_commands(CommandSeals.of(keys))
    secrets = Secrets(database.secrets(), store, keys, new_id=new_id, random_bytes=random_bytes)
    rules = Rules(
        forbids=_forbids,
        functions=["public.cleanup(integer)", "reports:public.cleanup(integer)"],
        databases=["reports"],
    )
    access = Access(database.access(), now=now, new_id=new_id, random_bytes=random_bytes, elapsed=elapsed)
    jobs = Jobs(store, lists, rules=rules, secrets=secrets, now=now, new_id=new_id)
    history = History(jobs, lists, now=now, check_hosts=check_hosts)
    alerts = Alerts(
        database.alert_control(),
        jobs,
        [WebhookChannel(), SlackChannel(), NtfyChannel()],
        secrets=secrets,
        forbids=_forbids,
        now=now,
        new_id=new_id,
        random_bytes=random_bytes,
    )
    control = Control(
        alerts=alerts,
        jobs=jobs,
        runs=Runs(store, lists, now=now, new_id=new_id),
        history=history,
        job_bulk=JobBulk(store, jobs, history, now=now),
        demo=Demo(jobs, now=now),
        ledger=Ledger(jobs, lists, now=now),
        timelines=Timelines(lists, now=now),
        backfills=Backfills(store, lists, jobs, now=now),
        applying=Applying(
            store,
            jobs,
            AlertBundles(alerts, secrets=secrets, now=now, new_id=new_id),
            secrets=secrets,
            now=now,
            new_id=new_id,
        ),
        imports=Imports(store, rules=rules, now=now, new_id=new_id),
        secrets=secrets,
        access=access,
        watch=Watch(lists, now=now, epoch="test"),
        run_counts=RunCounts(jobs, analytics, now=now),
        now=now,
    )
    authenticator = Authenticator(
        access,
        SessionCookies(keys.derive("session"), now=now),
        Limits(rate, elapsed=elapsed),
        LoginLimits(elapsed=elapsed),
        is_local=is_local,
    )

    async def status() -> Readiness:
        return Readiness(database_reachable=True, loops=())

    app = build_app(control, authenticator, status, Metrics(), version="0.0.0", page=page)
    middleware = RequestMiddleware(
        app,
        new_id=lambda: str(new_id()),
        elapsed=elapsed,
        trusted_proxies=trusted_proxies,
        public_path=public_path,
    )
    transport = httpx.ASGITransport(middleware, raise_app_exceptions=False, client=("127.0.0.1", 1234))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        yield Whole(app, client, control, database, time)
    await control.watch.close()


def _forbids(address: object, port: int) -> str | None:
    del port
    return f"{address} is a private address" if str(address).startswith("10.") else None
