"""Validation of a function's return value: JSON `{success, message, details?}`, else a failure that says so."""

import json

from hourbell.core.run.settle import Failed, Succeeded

MAX_ANSWER_BYTES = 65_536  # bytes
MAX_ERROR_CHARACTERS = 4_000  # characters
_WANTED = 'it must return {"success": true or false, "message": text}'


def read_answer(size: int | None, text: str | None) -> Succeeded | Failed:
    """Return the outcome of a function's answer.

    `size` is None if the function returned null; `text` is then None, too, or if the answer is too large to be fetched.
    """
    if size is None:
        return Failed(f"the function returned null; {_WANTED}")
    if text is None:
        return Failed(f"the function returned {size} bytes; it may return at most {MAX_ANSWER_BYTES}")
    try:
        answer = json.loads(text)
        json.dumps(answer, allow_nan=False)
    except (ValueError, RecursionError):
        return Failed(f"the function returned JSON with a number or a depth that cannot be kept; {_WANTED}")
    if not isinstance(answer, dict):
        return Failed(f"the function returned {_kind(answer)}; {_WANTED}")
    success, message = answer.get("success"), answer.get("message")
    if not isinstance(success, bool):
        return Failed(f"the function returned {_field(answer, 'success')}; {_WANTED}", result=answer)
    if not isinstance(message, str):
        return Failed(f"the function returned {_field(answer, 'message')}; {_WANTED}", result=answer)
    if success:
        return Succeeded(answer)
    return Failed(message[:MAX_ERROR_CHARACTERS] or "the function reported failure without a message", result=answer)


def _field(answer: dict[str, object], name: str) -> str:
    return f"{name} as {_kind(answer[name])}" if name in answer else f"no {name}"


def _kind(value: object) -> str:
    match value:
        case None:
            return "a JSON null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
