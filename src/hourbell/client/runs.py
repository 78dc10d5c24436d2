"""Methods of the client for runs: list, get, wait, and act on one run or on all that match.

A method `preview_…` returns how many runs match, and changes nothing.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict, Unpack
from uuid import UUID

from hourbell.answers.runs import BulkResult, Cancelled, FailureGroups, Replayed, Run
from hourbell.client.api_client import API, DRY_RUN, ApiClient, segment, set_options
from hourbell.client.pages import Page, Pages
from hourbell.client.reading import read
from hourbell.core.run.states import RunState

_RUNS = f"{API}/runs"
_FIRST_POLL_SECONDS, _MAX_POLL_SECONDS = 0.2, 2.0


class RunFilter(TypedDict, total=False):
    """A filter for the runs of a bulk action, and the max number of them."""

    state: RunState | str | None
    job: UUID | str | None
    since: datetime | None
    until: datetime | None
    everything: bool
    limit: int | None


class FailedFilter(RunFilter, total=False):
    """A filter for failed runs. A fingerprint, as `groups` returns it, selects exactly the runs of that group."""

    fingerprint: str | None


class Runs:
    def __init__(self, api: ApiClient) -> None:
        self._api = api

    def list(
        self,
        *,
        state: RunState | str | None = None,
        job: UUID | str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        subject: str | None = None,
        limit: int | None = None,
    ) -> Pages[Run]:
        """List running, then waiting, then ended runs; for one job or subject, by scheduled time, newest first.

        With `state="failed"` it lists the dead letters: failed runs that nobody has replayed or discarded.
        """
        query = {"state": state, "job": job, "since": since, "until": until, "subject": subject}
        return Pages(Run, lambda page: self._api.get(_RUNS, page), query, limit)

    async def get(self, run: UUID | str) -> Run:
        """Return a run with its attempts."""
        return read(Run, await self._api.get(f"{_RUNS}/{segment(run)}"))

    async def wait(self, run: UUID | str, *, timeout: float | None = None) -> Run:
        """Wait until a run has ended in any state, and return it; raise TimeoutError after `timeout` seconds."""
        retries, poll = self._api.retries, _FIRST_POLL_SECONDS
        began = retries.elapsed()
        while True:
            found = await self.get(run)
            if found.has_ended:
                return found
            left = poll if timeout is None else timeout - (retries.elapsed() - began)
            if left <= 0:
                raise TimeoutError(f"The run {run} has not ended within {timeout:g} s; it is {found.state}.")
            await retries.pause(min(poll, left))
            poll = min(_MAX_POLL_SECONDS, poll * 1.5)

    async def replay(self, run: UUID | str, *, idempotency_key: str | None = None) -> Replayed:
        """Replay a run that has ended or waits: add a new run with its payload and the current target of the job."""
        return read(Replayed, await self._api.post(f"{_RUNS}/{segment(run)}/replay", key=idempotency_key))

    async def cancel(self, run: UUID | str, *, idempotency_key: str | None = None) -> Cancelled:
        """Cancel a waiting run, or ask the node of a running one to stop it."""
        return read(Cancelled, await self._api.post(f"{_RUNS}/{segment(run)}/cancel", key=idempotency_key))

    async def discard(self, run: UUID | str, *, idempotency_key: str | None = None) -> None:
        """Discard a dead letter: take a failed run off the list. Its history stays."""
        await self._api.post(f"{_RUNS}/{segment(run)}/discard", key=idempotency_key)

    async def replay_all(
        self, *, per_minute: int | None = None, idempotency_key: str | None = None, **filters: Unpack[FailedFilter]
    ) -> BulkResult:
        """Replay the dead letters that match, up to 1,000 per call; the new runs become ready at `per_minute`.

        A call without a filter is refused, unless you pass `everything=True`.
        """
        return await self._all("replay", filters, {"per_minute": per_minute}, key=idempotency_key)

    async def preview_replay_all(self, **filters: Unpack[FailedFilter]) -> BulkResult:
        return await self._all("replay", filters, query=DRY_RUN)

    async def cancel_all(self, *, idempotency_key: str | None = None, **filters: Unpack[RunFilter]) -> BulkResult:
        """Cancel waiting runs that match and ask running ones to stop, up to 1,000 per call.

        A call without a filter is refused, unless you pass `everything=True`.
        """
        return await self._all("cancel", filters, key=idempotency_key)

    async def preview_cancel_all(self, **filters: Unpack[RunFilter]) -> BulkResult:
        return await self._all("cancel", filters, query=DRY_RUN)

    async def discard_all(self, *, idempotency_key: str | None = None, **filters: Unpack[FailedFilter]) -> BulkResult:
        """Discard the dead letters that match, up to 1,000 per call. Their history stays.

        A call without a filter is refused, unless you pass `everything=True`.
        """
        return await self._all("discard", filters, key=idempotency_key)

    async def preview_discard_all(self, **filters: Unpack[FailedFilter]) -> BulkResult:
        return await self._all("discard", filters, query=DRY_RUN)

    async def late(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Run]:
        """List ended runs that began later than their job's `late_after` allows, most late first.

        Runs late by 10 seconds or less are found only among the last 5,000 that ended.
        """
        return Page.of(Run, await self._api.get(f"{_RUNS}/late", {"limit": limit, "cursor": cursor}))

    async def stuck(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Run]:
        """List runs that have been ready for an hour and still wait."""
        return Page.of(Run, await self._api.get(f"{_RUNS}/stuck", {"limit": limit, "cursor": cursor}))

    async def orphans(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Run]:
        """List runs that have been ready for 15 minutes without an attempt."""
        return Page.of(Run, await self._api.get(f"{_RUNS}/orphans", {"limit": limit, "cursor": cursor}))

    async def groups(
        self,
        *,
        job: UUID | str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> FailureGroups:
        """Group the failed runs that nobody has replayed or discarded by their cause, the most common first."""
        query = {"job": job, "since": since, "until": until, "limit": limit}
        return read(FailureGroups, await self._api.get(f"{_RUNS}/groups", query))

    async def _all(
        self,
        action: str,
        filters: RunFilter,
        more: Mapping[str, object] | None = None,
        *,
        query: Mapping[str, object] | None = None,
        key: str | None = None,
    ) -> BulkResult:
        body = set_options({**filters, **(more or {})})
        if body.pop("everything", False):
            body["all"] = True
        return read(BulkResult, await self._api.post(f"{_RUNS}/{action}", body, query, key=key))
