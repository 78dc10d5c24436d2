"""Delivers a run as one signed request.

1. The request is made: the same bytes and the same id on every attempt, signed with each secret that is valid.
2. The transport sends it, once, and only where the address guard lets it.
3. The answer, or its absence, becomes the outcome; the breaker learns whether the receiver is well.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from hourbell.core.settle import Answer, Failed, Outcome, Unstarted
from hourbell.core.signing import secret_bytes, signature
from hourbell.core.target import HttpCall, TargetError, parse_target
from hourbell.core.template import TemplateError
from hourbell.sealing import HEADER, SIGNING, CannotOpen, KeyRing, Sealed
from hourbell.targets.base import Call
from hourbell.targets.http.body import body_of, scheduled_at
from hourbell.targets.http.breaker import Breaker
from hourbell.targets.http.outcome import outcome_of
from hourbell.targets.http.transport import NotBegun, Refused, Request, Transport, TransportError

log = logging.getLogger("hourbell.targets")

_MOST_CALLS = 10_000


class HttpTarget:
    reads_secrets = True

    def __init__(
        self,
        transport: Transport,
        *,
        keys: KeyRing | None,
        user_agent: str,
        slots: int,
        elapsed: Callable[[], float],
    ) -> None:
        self._transport = transport
        self._keys = keys
        self._user_agent = user_agent
        self._slots = slots
        self._breaker = Breaker(elapsed)
        self._calls: dict[tuple[UUID, int], HttpCall] = {}

    def lanes(self) -> tuple[str, ...]:
        return "http://*", "https://*"

    def slots(self, lane: str) -> int:
        return self._breaker.slots(lane, self._slots)

    async def deliver(self, call: Call) -> Outcome:
        try:
            http = self._http_of(call)
            secrets = self._open(call.secrets)
            request = self._request(http, call, secrets)
        except (TargetError, TemplateError, CannotOpen) as error:
            return Failed(str(error), retryable=isinstance(error, CannotOpen), begun=False)
        try:
            response = await self._transport.send(request, call.begin)
        except NotBegun:
            return Unstarted()
        except Refused as refused:
            # A name may lead somewhere else the next time; an address never does.
            return Failed(str(refused), retryable=not http.url.is_address, begun=False)
        except TransportError as error:
            self._note_trouble(call.run.lane)
            return Failed(str(error), begun=error.begun, answer=Answer(phases=error.phases))
        self._breaker.well(call.run.lane)
        return outcome_of(response, call.now, hidden=secrets.headers.values())

    async def close(self) -> None:
        await self._transport.close()

    def _http_of(self, call: Call) -> HttpCall:
        """The target of a job's version, which never changes."""
        version = (call.run.job_id, call.run.job_version)
        http = self._calls.get(version)
        if http is None:
            parsed = parse_target(call.definition.target)
            if not isinstance(parsed, HttpCall):
                raise TargetError(["the target is not of type http"])
            if len(self._calls) >= _MOST_CALLS:
                self._calls.clear()
            http = self._calls[version] = parsed
        return http

    def _open(self, sealed: tuple[Sealed, ...]) -> "_Secrets":
        if not sealed:
            return _NONE
        if self._keys is None:
            raise CannotOpen("the job has a secret, and this node has no HOURBELL_SECRET_KEY")
        signing: list[bytes] = []
        headers: dict[str, str] = {}
        for each in sealed:
            text = self._keys.open(each).reveal()
            if each.field == SIGNING:
                signing.append(secret_bytes(text))
            elif each.field.startswith(HEADER):
                headers.setdefault(each.field.removeprefix(HEADER), text)  # the newest comes first
        return _Secrets(tuple(signing), headers)

    def _request(self, http: HttpCall, call: Call, secrets: "_Secrets") -> Request:
        run_id = str(call.run.id)
        body, content_type = body_of(http, call)
        timestamp = int(call.now.timestamp())
        defaults = {"User-Agent": self._user_agent} | ({"Content-Type": content_type} if content_type else {})
        headers = _joined(_joined(defaults, http.headers), secrets.headers) | {
            "webhook-id": run_id,
            "webhook-timestamp": str(timestamp),
            "Idempotency-Key": run_id,
            "hourbell-attempt": str(call.run.attempt),
            "hourbell-scheduled-at": scheduled_at(call),
            "traceparent": _traceparent(call),
        }
        if secrets.signing:
            headers["webhook-signature"] = signature(secrets.signing, run_id, timestamp, body)
        return Request(http.method, http.url, headers, body, http.timeout.total_seconds())

    def _note_trouble(self, lane: str) -> None:
        if self._breaker.unwell(lane):
            log.warning("receiver_unwell", extra={"lane": lane, "hint": "its runs wait; one at a time is tried"})


@dataclass(frozen=True, slots=True)
class _Secrets:
    """What a job's secrets are for: keys that sign, and headers."""

    signing: tuple[bytes, ...] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


_NONE = _Secrets((), {})


def _joined(weaker: Mapping[str, str], stronger: Mapping[str, str]) -> dict[str, str]:
    """Headers of which the second kind replaces the first, however they are capitalised."""
    names = {name.lower() for name in stronger}
    return {name: value for name, value in weaker.items() if name.lower() not in names} | dict(stronger)


def _traceparent(call: Call) -> str:
    """One trace for a run, one span for each of its attempts; both follow from what they are."""
    span = hashlib.blake2b(f"{call.run.id}:{call.run.attempt}".encode(), digest_size=8).hexdigest()
    return f"00-{call.run.id.hex}-{span}-01"
