"""The secrets that verify the requests of a campaign, by the public library for Standard Webhooks.

Each job has one secret and then another; for a while both are valid. A request must verify with every secret that was
valid all the time in which it can have been signed, and with none that was valid at no moment of it.
"""

import os
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from uuid import uuid4

from standardwebhooks import Webhook, WebhookVerificationError

from hourbell.clock import elapsed
from hourbell.control.secrets import Secrets
from hourbell.sealing import KeyRing, Plain
from hourbell.store.control.actor import Actor
from tests.database import Database
from tests.faults.fleet import LEASE
from tests.faults.hooks import Request

BY = "campaign"
_SLACK = 0.5  # seconds by which a node may misjudge the database's time, and more


@dataclass(slots=True)
class Secret:
    """A secret of a job, and when it became and ceased to be valid, each between two moments of this machine."""

    plain: Plain
    asked_at: float
    answered_at: float
    ends_after: float = inf
    ends_before: float = inf

    def verifies(self, request: Request) -> bool:
        try:
            Webhook(self.plain.reveal()).verify(request.body, dict(request.headers))
        except WebhookVerificationError:
            return False
        return True

    def must_sign(self, request: Request) -> bool:
        """Return True if it was valid long enough before the request that every node knew it."""
        return self.answered_at + LEASE < request.at < self.ends_after - _SLACK

    def may_sign(self, request: Request) -> bool:
        """Return True if it was valid at some moment at which the request can have been signed."""
        return self.asked_at - _SLACK < request.at < self.ends_before + LEASE


class Signatures:
    """The secrets of a campaign's jobs, and what they say about its requests.

    Requests are checked while they are fresh, for the library refuses what is older than five minutes.
    """

    def __init__(self, database: Database, keys: KeyRing) -> None:
        self._store = database.engine()
        self._secrets = Secrets(database.secrets(), database.control(), keys, new_id=uuid4, random_bytes=os.urandom)
        self._of_job: dict[str, list[Secret]] = {}
        self._checked = 0
        self.faults: list[str] = []
        self.verified: Counter[tuple[int, ...]] = Counter()  # by the secrets that did, numbered by age

    async def create(self, job: str) -> None:
        asked_at = elapsed()
        plain = await self._secrets.create(job, Actor(BY, await self._store.sample_time()))
        self._of_job[job] = [Secret(plain, asked_at, elapsed())]

    async def rotate(self, job: str, keep_old: float) -> None:
        """Replace a job's secret; the old one stays valid for so many seconds."""
        [old], asked_at = self._of_job[job], elapsed()
        now = await self._store.sample_time()
        plain = await self._secrets.rotate(job, Actor(BY, now), keep_old=timedelta(seconds=keep_old))
        new = Secret(plain, asked_at, elapsed())
        old.ends_after, old.ends_before = new.asked_at + keep_old, new.answered_at + keep_old
        self._of_job[job].append(new)

    @property
    def settled_at(self) -> float:
        """The moment from which every request is signed by new secrets alone."""
        return max(secret.ends_before for secrets in self._of_job.values() for secret in secrets[:-1]) + LEASE

    def check(self, requests: list[Request]) -> None:
        """Look at the requests that have come since the last time."""
        fresh, self._checked = requests[self._checked :], len(requests)
        for request in fresh:
            self._check(request)

    def _check(self, request: Request) -> None:
        secrets = self._of_job[request.job]
        valid = tuple(number for number, secret in enumerate(secrets) if secret.verifies(request))
        self.verified[valid] += 1
        must = {number for number, secret in enumerate(secrets) if secret.must_sign(request)}
        may = {number for number, secret in enumerate(secrets) if secret.may_sign(request)}
        if not valid or not must <= set(valid) <= may:
            self.faults.append(f"{request.job} at {request.at:.3f}: verifies with {valid}, must {must}, may {may}")
