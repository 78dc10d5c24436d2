"""The blocking client: each method runs that of the async client. Only the names are repeated here."""

import ssl
import weakref
from types import TracebackType
from typing import Self

from hourbell.client.alerts import AlertPolicies, Channels, Incidents
from hourbell.client.background import Background
from hourbell.client.client import AsyncClient
from hourbell.client.jobs import Jobs
from hourbell.client.retries import Retries
from hourbell.client.runs import Runs
from hourbell.client.sync_facade import SyncFacade, blocking, paged, streamed
from hourbell.client.tokens import Tokens


class BlockingJobs(SyncFacade[Jobs]):
    list = paged(Jobs.list)
    create = blocking(Jobs.create)
    preview_create = blocking(Jobs.preview_create)
    get = blocking(Jobs.get)
    replace = blocking(Jobs.replace)
    preview_replace = blocking(Jobs.preview_replace)
    patch = blocking(Jobs.patch)
    preview_patch = blocking(Jobs.preview_patch)
    delete = blocking(Jobs.delete)
    pause = blocking(Jobs.pause)
    resume = blocking(Jobs.resume)
    trigger = blocking(Jobs.trigger)
    bulk = blocking(Jobs.bulk)
    preview_bulk = blocking(Jobs.preview_bulk)
    backfill = blocking(Jobs.backfill)
    preview_backfill = blocking(Jobs.preview_backfill)
    rotate_secret = blocking(Jobs.rotate_secret)
    upcoming = blocking(Jobs.upcoming)
    runs = paged(Jobs.runs)
    times = paged(Jobs.times)
    days = blocking(Jobs.days)
    series = blocking(Jobs.series)
    stats = blocking(Jobs.stats)
    skips = paged(Jobs.skips)
    versions = paged(Jobs.versions)
    version = blocking(Jobs.version)
    apply = blocking(Jobs.apply)
    preview_apply = blocking(Jobs.preview_apply)
    import_jobs = streamed(Jobs.import_jobs)
    preview_import = streamed(Jobs.preview_import)


class BlockingRuns(SyncFacade[Runs]):
    list = paged(Runs.list)
    get = blocking(Runs.get)
    wait = blocking(Runs.wait)
    replay = blocking(Runs.replay)
    cancel = blocking(Runs.cancel)
    discard = blocking(Runs.discard)
    replay_all = blocking(Runs.replay_all)
    preview_replay_all = blocking(Runs.preview_replay_all)
    cancel_all = blocking(Runs.cancel_all)
    preview_cancel_all = blocking(Runs.preview_cancel_all)
    discard_all = blocking(Runs.discard_all)
    preview_discard_all = blocking(Runs.preview_discard_all)
    late = blocking(Runs.late)
    stuck = blocking(Runs.stuck)
    orphans = blocking(Runs.orphans)
    groups = blocking(Runs.groups)


class BlockingTokens(SyncFacade[Tokens]):
    list = blocking(Tokens.list)
    create = blocking(Tokens.create)
    revoke = blocking(Tokens.revoke)


class BlockingChannels(SyncFacade[Channels]):
    list = blocking(Channels.list)
    get = blocking(Channels.get)
    put = blocking(Channels.put)
    patch = blocking(Channels.patch)
    delete = blocking(Channels.delete)
    test = blocking(Channels.test)


class BlockingAlertPolicies(SyncFacade[AlertPolicies]):
    list = blocking(AlertPolicies.list)
    get = blocking(AlertPolicies.get)
    put = blocking(AlertPolicies.put)
    delete = blocking(AlertPolicies.delete)


class BlockingIncidents(SyncFacade[Incidents]):
    list = paged(Incidents.list)
    get = blocking(Incidents.get)
    acknowledge = blocking(Incidents.acknowledge)
    mute = blocking(Incidents.mute)
    resolve = blocking(Incidents.resolve)


class Client(SyncFacade[AsyncClient]):
    """The blocking client, for programs without an event loop; see `AsyncClient`. Any number of threads may share one.

    Close it, preferably with `with`; otherwise it is closed when it is garbage-collected or the program ends.
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
        inner = AsyncClient(url, token, timeout=timeout, retries=retries, tls=tls, use_proxies=use_proxies)
        background = Background(inner.close)
        super().__init__(inner, background)
        self.url = inner.url
        self.jobs = BlockingJobs(inner.jobs, background, self)
        self.runs = BlockingRuns(inner.runs, background, self)
        self.tokens = BlockingTokens(inner.tokens, background, self)
        self.channels = BlockingChannels(inner.channels, background, self)
        self.alert_policies = BlockingAlertPolicies(inner.alert_policies, background, self)
        self.incidents = BlockingIncidents(inner.incidents, background, self)
        self._close = weakref.finalize(self, background.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the thread. You cannot use it afterwards; closing it again does nothing."""
        self._close()

    preview = blocking(AsyncClient.preview)
    explain = blocking(AsyncClient.explain)
    forecast = blocking(AsyncClient.forecast)
    analytics = blocking(AsyncClient.analytics)
    timeline = blocking(AsyncClient.timeline)
    overview = blocking(AsyncClient.overview)
    nodes = blocking(AsyncClient.nodes)
    tags = paged(AsyncClient.tags)
    outages = paged(AsyncClient.outages)
    audit = paged(AsyncClient.audit)
    audit_entry = blocking(AsyncClient.audit_entry)
    whoami = blocking(AsyncClient.whoami)
    health = blocking(AsyncClient.health)
    ready = blocking(AsyncClient.ready)
    events = streamed(AsyncClient.events)
