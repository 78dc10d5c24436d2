"""The webhook target: it delivers a run as one signed HTTP request.

1. Build the request: the same body and the same id on every attempt, signed with each valid secret. The parsed job
   version and the opened secrets are cached, the secrets as long as they do not change.
2. Send it through the transport, once, and only to an address that the address rules allow.
3. Turn the response, or its absence, into the outcome, and report it to the circuit breaker.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from hourbell.core.access.signing import secret_bytes, signature
from hourbell.core.job.secret_headers import HEADER, SIGNING, WrongOrigin, headers_for
from hourbell.core.job.target import HttpCall, TargetError, parse_target
from hourbell.core.job.template import TemplateError
from hourbell.core.run.settle import Answer, Failed, Outcome, Unstarted
from hourbell.core.values.field_errors import FieldError
from hourbell.sealing import CannotOpen, KeyRing, Sealed
from hourbell.targets.base import Call
from hourbell.targets.http.body import RunTexts, body_of, content_type_of
from hourbell.targets.http.breaker import Breaker
from hourbell.targets.http.outcome import outcome_of
from hourbell.targets.http.transport import NotBegun, Refused, Request, Transport, TransportError
from hourbell.targets.pool import Pool

log = logging.getLogger("hourbell.targets")

_MAX_CACHED_ITEMS = 10_000
_MAX_CACHED_BYTES = 8_192  # of each cache entry, about: a larger one is parsed again for every attempt
_VALUE_BYTES = 64  # overhead of any value, about


class HttpTarget:
    reads_secrets = True
    pools: tuple[Pool, ...] = ()

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
        self._versions: dict[tuple[UUID, int], _Version] = {}
        self._opened: dict[tuple[UUID, str], tuple[tuple[Sealed, ...], _Secrets]] = {}

    def lanes(self) -> tuple[str, ...]:
        return "http://*", "https://*"

    def slots(self, lane: str) -> int:
        return self._breaker.slots(lane, self._slots)

    def pool(self, lane: str) -> None:
        """Return None: each attempt has its own connection, so lanes share no limited resource."""

    async def deliver(self, call: Call) -> Outcome:
        try:
            version = self._version_of(call)
            secrets = self._secrets_of(call, version.http.url.origin)
            request = _request(version, call, secrets)
        except (TargetError, TemplateError, CannotOpen, WrongOrigin) as error:
            return Failed(str(error), retryable=isinstance(error, CannotOpen), begun=False)
        lane = call.run.lane
        called_at = self._breaker.begin(lane)
        try:
            await asyncio.sleep(0)  # build all requests of a claim first, then send them: that keeps CPU caches warm
            response = await self._transport.send(request, call.begin)
        except NotBegun:
            return Unstarted()
        except Refused as refused:
            # A name may resolve differently the next time; a literal address never does.
            return Failed(str(refused), retryable=not version.http.url.is_address, begun=False)
        except TransportError as error:
            self._note_trouble(lane)
            return Failed(str(error), begun=error.begun, answer=Answer(phases=error.phases))
        else:
            self._breaker.well(lane, called_at)
        finally:
            self._breaker.end(lane)
        return outcome_of(response, call.now, hidden=secrets.headers.values())

    async def close(self) -> None:
        await self._transport.close()

    def _version_of(self, call: Call) -> "_Version":
        """Return the parsed target of a job version, cached because a version never changes."""
        key = (call.run.job_id, call.run.job_version)
        version = self._versions.get(key)
        if version is None:
            parsed = parse_target(call.definition.target)
            if not isinstance(parsed, HttpCall):
                raise TargetError([FieldError("/type", "the target is not of type http")])
            version = _Version(parsed, self._headers_of(parsed))
            if _is_small([parsed.body, version.headers]):
                if len(self._versions) >= _MAX_CACHED_ITEMS:
                    self._versions.clear()
                self._versions[key] = version
        return version

    def _headers_of(self, http: HttpCall) -> dict[str, str]:
        """Return the headers that all requests of a target share, without those of a run."""
        content_type = content_type_of(http)
        defaults = {"User-Agent": self._user_agent} | ({"Content-Type": content_type} if content_type else {})
        return _joined(defaults, http.headers)

    def _secrets_of(self, call: Call, origin: str) -> "_Secrets":
        """Return a job's decrypted secrets for an origin, cached until any of the sealed secrets changes."""
        if not call.secrets:
            return _NONE
        key = (call.run.job_id, origin)
        cached = self._opened.get(key)
        if cached is not None and cached[0] == call.secrets:
            return cached[1]
        self._opened.pop(key, None)
        opened = self._open(call.secrets, origin)
        if _is_small(opened.headers):
            if len(self._opened) >= _MAX_CACHED_ITEMS:
                self._opened.clear()
            self._opened[key] = (call.secrets, opened)
        return opened

    def _open(self, sealed: tuple[Sealed, ...], origin: str) -> "_Secrets":
        """Decrypt the secrets for an origin: the job's signing secrets, and the headers set for this origin."""
        headers = headers_for(origin, sealed)
        if self._keys is None:
            raise CannotOpen("the job has a secret, and this node has no HOURBELL_SECRET_KEY")
        keys = self._keys
        signing = [secret_bytes(keys.open(each).reveal()) for each in sealed if each.field == SIGNING]
        sent = {each.field.removeprefix(HEADER): keys.open(each).reveal() for each in headers}
        return _Secrets(tuple(signing), sent)

    def _note_trouble(self, lane: str) -> None:
        if self._breaker.unwell(lane):
            log.warning("circuit_opened", extra={"lane": lane, "hint": "its runs wait; one at a time is tried"})


@dataclass(frozen=True, slots=True)
class _Version:
    """The parsed target of a job version and the headers of its requests."""

    http: HttpCall
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Secrets:
    """A job's decrypted secrets: signing keys and header values."""

    signing: tuple[bytes, ...] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


_NONE = _Secrets((), {})


def _request(version: _Version, call: Call, secrets: _Secrets) -> Request:
    http, texts = version.http, RunTexts.of(call.run)
    body = body_of(http, call, texts)
    timestamp = int(call.now.timestamp())
    headers = _joined(version.headers, secrets.headers) if secrets.headers else dict(version.headers)
    headers |= {
        "webhook-id": texts.id,
        "webhook-timestamp": str(timestamp),
        "Idempotency-Key": texts.id,
        "hourbell-attempt": str(call.run.attempt),
        "hourbell-scheduled-at": texts.scheduled_at,
        "traceparent": _traceparent(texts.id, call.run.attempt),
    }
    if secrets.signing:
        headers["webhook-signature"] = signature(secrets.signing, texts.id, timestamp, body)
    return Request(http.method, http.url, headers, body, http.timeout.total_seconds())


def _is_small(value: object) -> bool:
    """Return True if a JSON value takes little memory; stop counting at the limit."""
    left, values = _MAX_CACHED_BYTES, [value]
    while values and left > 0:
        each = values.pop()
        left -= _VALUE_BYTES
        if isinstance(each, str):
            left -= len(each)
        elif isinstance(each, Mapping):
            left -= sum(map(len, each))
            values += each.values()
        elif isinstance(each, list):
            values += each
    return left > 0


def _joined(weaker: Mapping[str, str], stronger: Mapping[str, str]) -> dict[str, str]:
    """Merge headers; the second mapping overrides the first, case-insensitively."""
    names = {name.lower() for name in stronger}
    return {name: value for name, value in weaker.items() if name.lower() not in names} | dict(stronger)


def _traceparent(run_id: str, attempt: int) -> str:
    """Return the traceparent header: one trace id per run and one span id per attempt, both derived from their ids."""
    span = hashlib.blake2b(f"{run_id}:{attempt}".encode(), digest_size=8).hexdigest()
    return f"00-{run_id.replace('-', '')}-{span}-01"
