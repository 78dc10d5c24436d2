"""Changes as they happen: server-sent events, resumed after a lost connection."""

from collections.abc import AsyncIterator
from typing import NamedTuple

from hourbell.answers.server import Change
from hourbell.client.api_client import API, ApiClient
from hourbell.client.batches import MAX_LINE_BYTES, Batches, line_batches
from hourbell.client.errors import ClientError, UnexpectedAnswer, parse_json
from hourbell.client.http_session import Request
from hourbell.client.reading import read

_QUIET = 45.0  # seconds; the server sends something every 15
_RETRY = 2.0


class _Event(NamedTuple):
    id: str | None
    name: str
    data: str
    retry: float | None


async def listen(api: ApiClient) -> AsyncIterator[Change]:
    """Yield changes forever; yield a reset if the connection was lost before the first event id gave a position."""
    last_id: str | None = None
    retry, retries = _RETRY, api.retries
    tries, out_since, has_been_cut = 0, retries.elapsed(), False
    while True:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id is not None else {})
        request = Request("GET", f"{API}/events", headers=headers, may_repeat=True, quiet_seconds=_QUIET)
        asked = None
        try:
            async with api.session.stream(request) as parts:
                tries = 0
                if has_been_cut and last_id is None:
                    yield Change(raw={}, is_reset=True)
                has_been_cut = True
                async for event in _events(parts):
                    retry = retry if event.retry is None else event.retry
                    last_id = last_id if event.id is None else event.id
                    if event.data:
                        yield _change(event)
        except ClientError as error:
            if not error.may_pass:
                raise
            if tries and retries.elapsed() - out_since > retries.patience:
                raise
            asked = error.retry_after
        if not tries:
            out_since = retries.elapsed()
        tries += 1
        await retries.pause(retries.spread(max(asked or 0.0, retry) * 2))


async def _events(parts: AsyncIterator[bytes]) -> AsyncIterator[_Event]:
    """Parse server-sent events; unknown fields and comments are ignored."""
    fields: dict[str, list[str]] = {}
    size = 0
    async for line in Batches(line_batches(parts)):
        size = size + len(line) if line else 0
        if size > MAX_LINE_BYTES:
            raise UnexpectedAnswer(f"The server sent an event of more than {MAX_LINE_BYTES:,} bytes.")
        name, _, value = line.decode("utf-8", "replace").partition(":")
        if line and name:
            fields.setdefault(name, []).append(value.removeprefix(" "))
        elif not line and fields:
            yield _Event(
                fields.get("id", [None])[-1],
                fields.get("event", ["message"])[-1],
                "\n".join(fields.get("data", [])),
                _seconds(fields.get("retry", [""])[-1]),
            )
            fields = {}


def _change(event: _Event) -> Change:
    try:
        body = parse_json(event.data)
    except ValueError:
        raise UnexpectedAnswer("The server sent an event that is not JSON.") from None
    if event.name == "reset":
        return Change(raw=body, is_reset=True)
    return read(Change, body)


def _seconds(milliseconds: str) -> float | None:
    return int(milliseconds) / 1_000 if milliseconds.isdecimal() and len(milliseconds) < 8 else None
