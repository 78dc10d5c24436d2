"""Calls of the API: they send JSON, retry where that is safe, and raise errors of the server.

A call is retried after a lost connection, 429, 502, 503 or 504. If an earlier try may have taken effect, the call is
retried only if it is idempotent:

1. GET changes nothing, and every POST has an Idempotency-Key, which is the same on every try.
2. PUT, PATCH and DELETE are retried if the caller passes `may_repeat`.
3. An error after a try that may have taken effect has `is_in_doubt`.
"""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import UUID

from hourbell.answers.base import Json
from hourbell.client.errors import NOT_OURS, ClientError, NotFound, UnexpectedAnswer, error_of, parse_json
from hourbell.client.http_session import HttpSession, Query, Reply, Request
from hourbell.client.retries import Retries

API = "/api/v1"
_JSON = {"Content-Type": "application/json"}
DRY_RUN: Mapping[str, object] = {"dry_run": True}


class Edit(NamedTuple):
    """A PUT or PATCH."""

    method: str
    path: str
    body: Mapping[str, Any]
    query: Mapping[str, object]
    expect_version: int | None = None


class ApiClient:
    def __init__(self, session: HttpSession, retries: Retries) -> None:
        self.session = session
        self.retries = retries

    async def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        reply = await self.send(Request("GET", path, text_of(query), may_repeat=True))
        return _value(reply)

    async def post(
        self,
        path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        *,
        key: str | None = None,
        expect_version: int | None = None,
    ) -> Any:
        """Return the JSON value of the answer; None if the answer is empty."""
        headers = {"Idempotency-Key": key or self.retries.new_key(), **_if_match(expect_version)}
        sent = None
        if body is not None:
            headers, sent = {**headers, **_JSON}, encoded(body)
        reply = await self.send(Request("POST", path, text_of(query), headers, sent, may_repeat=True))
        return _value(reply) if reply.body else None

    async def edit(self, edit: Edit, *, may_repeat: bool) -> Any:
        headers = {**_JSON, **_if_match(edit.expect_version)}
        query, body = text_of(edit.query), encoded(edit.body)
        return _value(await self.send(Request(edit.method, edit.path, query, headers, body, may_repeat=may_repeat)))

    async def delete(
        self,
        path: str,
        query: Mapping[str, object] | None = None,
        *,
        expect_version: int | None = None,
        may_repeat: bool,
    ) -> None:
        try:
            headers = _if_match(expect_version)
            await self.send(Request("DELETE", path, text_of(query), headers, may_repeat=may_repeat))
        except NotFound as error:
            if not error.is_in_doubt:  # else an earlier try, whose answer was lost, deleted it
                raise

    async def send(self, request: Request) -> Reply:
        """Return a successful answer; retry if that is safe, else raise a ClientError."""
        began, tries, is_in_doubt = self.retries.elapsed(), 0, False
        while True:
            tries += 1
            try:
                reply = await self.session.send(request)
                if 200 <= reply.status < 300:
                    return reply
                raise error_of(reply.status, reply.headers, reply.body)
            except ClientError as error:
                is_in_doubt = request.method != "GET" and (is_in_doubt or error.is_in_doubt)
                error.is_in_doubt = is_in_doubt
                wait = None
                if error.may_pass and (request.may_repeat or not is_in_doubt):
                    wait = self.retries.wait_after(tries, self.retries.elapsed() - began, error.retry_after)
                if wait is None:
                    _note_doubt(error)
                    raise
            await self.retries.pause(wait)


def segment(text: object) -> str:
    """Return a name or an id as a segment of a URL path; raise ValueError if it is empty or only dots."""
    found = str(text)
    if not found.strip("."):
        raise ValueError("The name or id is empty.")
    return quote(found, safe="")


def is_id(ref: object) -> bool:
    """Return True for an id, which always names the same object; a name can be given to another one."""
    try:
        return bool(UUID(str(ref)))
    except ValueError:
        return False


def set_options(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options that are neither None nor False."""
    return {name: value for name, value in options.items() if value is not None and value is not False}


def text_of(query: Mapping[str, object] | None) -> Query:
    """Return the query parameters in the format of the API; those that are None are left out."""
    return {
        name: [_parameter(each) for each in value] if isinstance(value, (list, tuple)) else _parameter(value)
        for name, value in (query or {}).items()
        if value is not None
    }


def encoded(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=False, allow_nan=False, default=plain).encode()


def plain(value: object) -> object:
    """Convert a value that JSON does not support to the format of the API; raise TypeError if that is impossible."""
    match value:
        case datetime():
            return _rfc3339(value)
        case timedelta():
            return value.total_seconds()
        case UUID():
            return str(value)
        case Mapping():
            return dict(value)
        case _:
            raise TypeError(f"{type(value).__name__} cannot be written as JSON; convert it first.")


def _parameter(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(plain(value)) if isinstance(value, (date, timedelta)) else str(value)


def _rfc3339(value: datetime) -> str:
    if value.tzinfo is None:
        raise ValueError("Give a datetime with a zone, as in datetime(2026, 12, 24, 18, tzinfo=UTC).")
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _if_match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}


def _value(reply: Reply) -> Any:
    try:
        return parse_json(reply.body)
    except ValueError:
        raise UnexpectedAnswer(f"{NOT_OURS}.") from None


def object_of(value: Any) -> Json:
    if not isinstance(value, dict):
        raise UnexpectedAnswer(f"{NOT_OURS}.")
    return value


def _note_doubt(error: ClientError) -> None:
    if error.is_in_doubt and not error.may_pass:
        error.add_note("The answer to an earlier try was lost; that try may have made the change itself.")
