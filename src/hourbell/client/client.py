"""The async client: one connection pool to one server. Its methods have the names of the `control` package."""

import ssl
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self, TypedDict, Unpack
from uuid import UUID

from hourbell.answers.base import Json
from hourbell.answers.server import (
    AuditEntry,
    Change,
    CountedDays,
    Explanation,
    Forecast,
    Health,
    Identity,
    Node,
    Overview,
    Preview,
    Readiness,
    Tag,
)
from hourbell.answers.timeline import Outage, Timeline
from hourbell.client import events
from hourbell.client.alerts import AlertPolicies, Channels, Incidents
from hourbell.client.api_client import API, ApiClient, set_options
from hourbell.client.errors import error_of, parse_json
from hourbell.client.http_session import HttpSession, Request
from hourbell.client.jobs import Jobs
from hourbell.client.pages import Page, Pages
from hourbell.client.reading import read
from hourbell.client.retries import Retries
from hourbell.client.runs import Runs
from hourbell.client.server_address import find_server
from hourbell.client.tokens import Tokens
from hourbell.core.run.states import RunState


class TimelineFilter(TypedDict, total=False):
    """A window, a filter and an order for the time line. `job` has exact names."""

    until: datetime | None
    q: str | None
    tag: str | None
    state: str | None
    target: str | None
    managed_by: str | None
    source: str | None
    subject: str | None
    last_result: RunState | str | None
    attention: str | None
    job: Sequence[str] | None
    sort: str | None
    max_marks: int | None


class AsyncClient:
    """The async client of the server at `url`, or HOURBELL_URL, or http://127.0.0.1:8080.

    The token is `token`, or HOURBELL_TOKEN, or the content of the file HOURBELL_TOKEN_FILE. `timeout` is in seconds
    and applies to each try. Use a client in one event loop only, preferably with `async with`.

    Every method raises a `ClientError` if the call fails; `ApiError` carries what the server answered.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        retries: Retries | None = None,
        tls: ssl.SSLContext | None = None,
        use_proxies: bool = False,
    ) -> None:
        self._session = HttpSession(find_server(url, token), timeout=timeout, tls=tls, use_proxies=use_proxies)
        self._api = ApiClient(self._session, retries or Retries())
        self.jobs = Jobs(self._api)
        self.runs = Runs(self._api)
        self.tokens = Tokens(self._api)
        self.channels = Channels(self._api)
        self.alert_policies = AlertPolicies(self._api)
        self.incidents = Incidents(self._api)

    @property
    def url(self) -> str:
        return self._session.address.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. You cannot use the client afterwards; closing it again does nothing."""
        await self._session.close()

    async def preview(
        self,
        schedule: str,
        *,
        timezone: str = "UTC",
        dst: str = "once",
        name: str | None = None,
        after: datetime | None = None,
        count: int = 5,
    ) -> Preview:
        """Return a description, the next times and the warnings of a schedule. Nothing is stored."""
        body = {"schedule": schedule, "timezone": timezone, "dst": dst, "name": name, "after": after, "count": count}
        return read(Preview, await self._api.post(f"{API}/preview", body))

    async def explain(self, job: UUID | str, at: datetime) -> Explanation:
        """Explain a time of a job: whether it ran, was skipped, is waiting or is not in the schedule."""
        return read(Explanation, await self._api.get(f"{API}/explain", {"job": job, "at": at}))

    async def forecast(
        self, *, start: datetime | None = None, bucket: str | timedelta | None = None, buckets: int | None = None
    ) -> Forecast:
        """Return the number of runs that will be planned in each time bucket, if no job changes."""
        if isinstance(bucket, timedelta):
            bucket = f"{bucket // timedelta(seconds=1)}s"
        return read(
            Forecast, await self._api.get(f"{API}/forecast", {"from": start, "bucket": bucket, "buckets": buckets})
        )

    async def analytics(self, job: UUID | str | None = None, *, days: int | None = None) -> CountedDays:
        """Return how many runs ended on each of the last days, of a job or of all, as far as Redis has counted them."""
        return read(CountedDays, await self._api.get(f"{API}/analytics", {"job": job, "days": days}))

    async def timeline(
        self,
        *,
        start: datetime | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        **filters: Unpack[TimelineFilter],
    ) -> Timeline:
        """Return a page of jobs with their runs, their skips and their planned times in a window.

        What needs attention comes first. `next_cursor` leads to the next page.
        """
        query = {"from": start, "limit": limit, "cursor": cursor, **set_options(filters)}
        return read(Timeline, await self._api.get(f"{API}/timeline", query))

    async def overview(self, *, since: datetime | None = None) -> Overview:
        """Return counts of jobs, of waiting and running runs, of dead letters, and of runs that ended in the last day.

        Pass `since` to count runs that ended since another time.
        """
        return read(Overview, await self._api.get(f"{API}/stats", {"since": since}))

    async def nodes(self) -> Page[Node]:
        """Return the nodes, the running engine processes."""
        return Page.of(Node, await self._api.get(f"{API}/nodes"))

    def tags(self, *, limit: int | None = None) -> Pages[Tag]:
        """List the tags that jobs have, in order."""
        return Pages(Tag, lambda page: self._api.get(f"{API}/tags", page), {}, limit)

    def outages(
        self, *, start: datetime | None = None, until: datetime | None = None, limit: int | None = None
    ) -> Pages[Outage]:
        """List the times at which no node ran, or the database was unreachable, newest first."""
        return Pages(Outage, lambda page: self._api.get(f"{API}/outages", page), {"from": start, "until": until}, limit)

    def audit(self, *, subject: UUID | str | None = None, limit: int | None = None) -> Pages[AuditEntry]:
        """List every change and who made it, newest first. `subject` is the id of a job, a run or a token."""
        return Pages(AuditEntry, lambda page: self._api.get(f"{API}/audit", page), {"subject": subject}, limit)

    async def audit_entry(self, entry: int) -> AuditEntry:
        """Return one change, with the state before and after it."""
        return read(AuditEntry, await self._api.get(f"{API}/audit/{entry}"))

    async def whoami(self) -> Identity:
        """Return the identity of the caller: its name, its role and when its token expires."""
        return read(Identity, await self._api.get(f"{API}/session"))

    async def health(self) -> Health:
        """Check that the server answers; it says nothing about its database or its loops."""
        return read(Health, await self._api.get("/health"))

    async def ready(self) -> Readiness:
        """Return whether the server is ready. The call is not retried; "not ready" is an answer and no error."""
        reply = await self._session.send(Request("GET", "/health/ready"))
        found = _readiness(reply.body)
        if found is None:
            raise error_of(reply.status, reply.headers, reply.body)
        return read(Readiness, found)

    def events(self) -> AsyncIterator[Change]:
        """Yield changes of jobs and runs as they happen, at most once a second. The iterator never ends.

        After a lost connection it continues where it stopped. `is_reset` means that you may have missed changes.
        """
        return events.listen(self._api)


def _readiness(body: bytes) -> Json | None:
    try:
        found = parse_json(body)
    except ValueError:
        return None
    is_readiness = isinstance(found, dict) and found.get("status") in ("ready", "not_ready", "stopping")
    return found if is_readiness else None
