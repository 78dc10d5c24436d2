"""Secret headers in the body of a job. Their values are sealed and never part of a definition."""

from collections.abc import Mapping

from hourbell.core.job.target import HttpCall, TargetCall, check_header
from hourbell.core.values.field_errors import FieldError, pointer_to

FIELD = "secret_headers"


def without_secret_headers(body: object) -> tuple[object, object]:
    """Split the body of a job into the body without secret headers, and the secret headers."""
    if not isinstance(body, dict):
        return body, {}
    return {name: value for name, value in body.items() if name != FIELD}, body.get(FIELD, {})


def header_errors(headers: object, call: TargetCall, plain: Mapping[str, str], *, has_keys: bool) -> list[FieldError]:
    """Return the validation errors of secret headers, next to the plain headers of the job."""
    at = pointer_to(FIELD)
    if not isinstance(headers, dict):
        return [FieldError(at, "it is not an object of names and values")]
    if headers and not isinstance(call, HttpCall):
        return [FieldError(at, "only an http target has headers")]
    if headers and not has_keys:
        return [FieldError(at, "no key for sealing secrets is configured", "set HOURBELL_SECRET_KEY on the server")]
    seen = {name.lower() for name in plain}
    errors = []
    for name, value in headers.items():
        problem = check_header(name, value)
        if problem is None and name.lower() in seen:
            problem = f"the header {name} is given twice; write it once"
        seen.add(name.lower())
        if problem is not None:
            errors.append(FieldError(pointer_to(FIELD, name), problem))
    return errors


def refuse_removals(patch: object) -> list[FieldError]:
    """Return an error for each secret header that a patch sets to null or empty: a patch cannot remove secrets."""
    headers = patch.get(FIELD) if isinstance(patch, dict) else None
    if headers is None or not isinstance(headers, dict):
        return []
    hint = "run `hourbell secret remove JOB header:NAME`"
    return [
        FieldError(pointer_to(FIELD, name), "a patch removes no secret", hint) for name in headers if not headers[name]
    ]
