"""The bytes a webhook carries: the same on every attempt of a run."""

import json
from collections.abc import Mapping

from hourbell.core.run import trigger_of
from hourbell.core.target import HttpCall
from hourbell.core.template import TemplateError, fill_json, fill_text
from hourbell.targets.base import Call

MOST_BYTES = 1_048_576
_JSON_TYPE = "application/json"
_TEXT_TYPE = "text/plain; charset=utf-8"


def body_of(http: HttpCall, call: Call) -> tuple[bytes, str | None]:
    """The body and its content type, or a TemplateError; a GET without a body of its own has none."""
    if http.body is None and http.method == "GET":
        return b"", None
    given = next((value for name, value in http.headers.items() if name.lower() == "content-type"), None)
    if isinstance(http.body, str):
        content_type = given or _TEXT_TYPE
        body = _bytes(fill_text(http.body, _values(call), is_json="json" in content_type.lower()))
    else:
        content_type = given or _JSON_TYPE
        body = _encoded(envelope(call) if http.body is None else fill_json(http.body, _values(call)))
    if len(body) > MOST_BYTES:
        raise TemplateError(f"the body has {len(body)} bytes; at most {MOST_BYTES} are sent")
    return body, content_type


def envelope(call: Call) -> dict[str, object]:
    """What is sent unless a job has a body of its own. `idempotencyKey` and `eventId` are the run's id."""
    run_id = str(call.run.id)
    return {
        "id": run_id,
        "idempotencyKey": run_id,
        "eventId": run_id,
        "job": call.definition.name,
        "scheduled_at": scheduled_at(call),
        "trigger": trigger_of(call.run, call.definition),
        "payload": call.payload,
    }


def scheduled_at(call: Call) -> str:
    return call.run.scheduled_at.isoformat().replace("+00:00", "Z")


def _values(call: Call) -> Mapping[str, object]:
    """What placeholders may name; nothing in it changes from one attempt to the next."""
    trigger = trigger_of(call.run, call.definition)
    return {
        "payload": call.payload,
        "run": {"id": str(call.run.id), "scheduled_at": scheduled_at(call), "trigger": trigger},
        "job": {"name": call.definition.name},
    }


def _encoded(value: object) -> bytes:
    try:
        return _bytes(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    except TemplateError:
        raise
    except (ValueError, RecursionError) as error:
        raise TemplateError(f"the body is not JSON: {error}") from None


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise TemplateError("the body holds half of a character, which cannot be sent") from None
