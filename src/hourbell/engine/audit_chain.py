"""The loop that adds committed audit rows to the hash chain, in batches; of many nodes, one appends each batch."""

import logging
from collections.abc import Sequence
from functools import partial

from hourbell.core.access.audit_chain import Break, Link, SealKeys, extend_chain
from hourbell.engine.loop import NotAsked
from hourbell.engine.time import DatabaseClock
from hourbell.metrics import Metrics
from hourbell.store.control.audit_chain import AuditChainStore, verify_links

log = logging.getLogger("hourbell.engine")

INTERVAL_SECONDS = 5.0
VERIFIED_AT_START = 1_000  # links
_BETWEEN_BATCHES = 0.1


class AuditChainer:
    name = "audit_chain"

    def __init__(self, store: AuditChainStore, clock: DatabaseClock, *, metrics: Metrics, seals: SealKeys) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._seals = seals
        self._is_verified = False
        self._is_start = True
        self._known: Link | None = None  # the newest link that this node has seen
        self._appended = 0

    async def tick(self) -> float:
        """Verify the newest links once; then chain one batch of rows. Write nothing if there are no new rows."""
        if not self._clock.has_time:
            return NotAsked(1.0)
        if not self._is_verified:
            await self._verify()
            return INTERVAL_SECONDS
        decide = partial(extend_chain, now=self._clock.now(), seals=self._seals, is_start=self._is_start)
        extended = await self._store.extend(decide)
        self._is_start = self._is_start and extended.is_lost
        self._compare(extended.head)
        self._note(extended.head, extended.links, is_whole=not extended.has_more)
        return _BETWEEN_BATCHES if extended.links and extended.has_more else INTERVAL_SECONDS

    async def _verify(self) -> None:
        head = await self._store.head()
        start = 1 if head is None else max(1, head.position - VERIFIED_AT_START)
        verdict = await verify_links(self._store, self._clock.now(), self._seals, start=start)
        found = [each for each in verdict.breaks if each.kind != "unsealed"]  # this node is about to seal it
        self._metrics.audit_chain_broken.set(len(found) > 0)
        if found:
            self._report(found[0])
        self._is_verified, self._known = True, verdict.head

    def _compare(self, head: Link | None) -> None:
        """Report a chain that has lost links which this node has seen."""
        known = self._known
        if known is None or (head is not None and head.position > known.position) or head == known:
            return
        message = f"the newest link was at position {known.position} with hash {known.hash}, and is gone"
        self._metrics.audit_chain_broken.set(1)
        self._report(Break("links_removed", message, known.position, known.audit_id, known.chained_at))

    def _note(self, head: Link | None, links: Sequence[Link], *, is_whole: bool) -> None:
        self._known = links[-1] if links else head
        self._appended += len(links)
        if self._appended and self._known is not None and is_whole:
            facts = {"links": self._appended, "position": self._known.position, "hash": self._known.hash}
            log.info("audit_chained", extra=facts)
            self._appended = 0

    def _report(self, found: Break) -> None:
        facts = {"kind": found.kind, "position": found.position, "audit_id": found.audit_id, "error": found.message}
        log.error("audit_chain_broken", extra={**facts, "hint": "run: hourbell audit verify"})
