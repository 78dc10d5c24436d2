"""The body of a webhook: the same bytes on every attempt of a run."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from hourbell.core.job.target import HttpCall
from hourbell.core.job.template import TemplateError, fill_json, fill_text
from hourbell.core.run.run import Run, trigger_of
from hourbell.targets.base import Call

MAX_BODY_BYTES = 1_048_576
_JSON_TYPE = "application/json"
_TEXT_TYPE = "text/plain; charset=utf-8"
# The values were parsed from JSON, so they have no circular references.
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")).encode


def content_type_of(http: HttpCall) -> str | None:
    """Return the content type of this target's bodies; None for a GET without a custom body."""
    if http.body is None and http.method == "GET":
        return None
    given = next((value for name, value in http.headers.items() if name.lower() == "content-type"), None)
    return given or (_TEXT_TYPE if isinstance(http.body, str) else _JSON_TYPE)


class RunTexts(NamedTuple):
    """The texts about a run that both the body and the headers contain."""

    id: str
    scheduled_at: str

    @classmethod
    def of(cls, run: Run) -> "RunTexts":
        return cls(str(run.id), run.scheduled_at.isoformat().replace("+00:00", "Z"))


def body_of(http: HttpCall, call: Call, texts: RunTexts) -> bytes:
    """Return the request body, empty if there is no content type; raise TemplateError if it cannot be made."""
    if http.body is None:
        body = b"" if http.method == "GET" else _encoded(envelope(call, texts))
    elif isinstance(http.body, str):
        is_json = "json" in (content_type_of(http) or "").lower()
        body = _bytes(fill_text(http.body, _values(call, texts), is_json=is_json))
    else:
        body = _encoded(fill_json(http.body, _values(call, texts)))
    if len(body) > MAX_BODY_BYTES:
        raise TemplateError(f"the body has {len(body)} bytes; at most {MAX_BODY_BYTES} are sent")
    return body


def envelope(call: Call, texts: RunTexts) -> dict[str, object]:
    """Return the default body, sent unless a job has a custom one. `idempotencyKey` and `eventId` are the run's id."""
    return {
        "id": texts.id,
        "idempotencyKey": texts.id,
        "eventId": texts.id,
        "job": call.definition.name,
        "scheduled_at": texts.scheduled_at,
        "trigger": trigger_of(call.run, call.definition),
        "payload": call.payload,
    }


def _values(call: Call, texts: RunTexts) -> Mapping[str, object]:
    """Return the values for template placeholders; they are the same for every attempt of a run."""
    trigger = trigger_of(call.run, call.definition)
    return {
        "payload": call.payload,
        "run": {"id": texts.id, "scheduled_at": texts.scheduled_at, "trigger": trigger},
        "job": {"name": call.definition.name},
    }


def _encoded(value: object) -> bytes:
    try:
        return _bytes(_encode(value))
    except TemplateError:
        raise
    except (ValueError, RecursionError) as error:
        raise TemplateError(f"the body is not JSON: {error}") from None


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise TemplateError("the body holds half of a surrogate pair, which cannot be sent") from None
