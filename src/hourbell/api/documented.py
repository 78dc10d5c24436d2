"""Parts of the OpenAPI document that the operations share: request bodies, responses and errors."""

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel

from hourbell.api.problems import MEDIA_TYPE
from hourbell.api.shapes import ProblemAnswer

_EVERY = (400, 401, 403, 429, 500, 503)
_BODY = (413, 415, 422)
_MEANINGS = {
    409: "The request conflicts with the current state; `code` says why.",
    412: "The job is not at the version of If-Match.",
    422: "The body is well-formed but invalid; `errors` lists all validation errors.",
    429: "Too many requests; Retry-After says when to try again.",
    503: "The database is unreachable; Retry-After says when to try again.",
}


def responses(
    model: type[BaseModel] | None,
    *errors: int,
    status: int = 200,
    has_body: bool = False,
    more: dict[int | str, dict[str, Any]] | None = None,
) -> dict[int | str, dict[str, Any]]:
    """Build the `responses` of a route: its success response, the errors common to all routes, and its own errors."""
    good: dict[int | str, dict[str, Any]] = {status: {"description": HTTPStatus(status).phrase}}
    if model is not None:
        good[status]["model"] = model
    statuses = sorted({*_EVERY, *(_BODY if has_body else ()), *errors})
    return {**good, **(more or {}), **{each: problem_answer(each) for each in statuses}}


def problem_answer(status: int) -> dict[str, Any]:
    """Build the OpenAPI response of an error status."""
    schema = {"$ref": f"#/components/schemas/{ProblemAnswer.__name__}"}
    return {
        "description": _MEANINGS.get(status, HTTPStatus(status).phrase),
        "content": {MEDIA_TYPE: {"schema": schema}},
    }


def takes(model: type[BaseModel], *media_types: str, required: bool = True) -> dict[str, Any]:
    """Build the `openapi_extra` of a route that reads its body itself; the default media type is JSON."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    content = {each: {"schema": schema} for each in media_types or ("application/json",)}
    return {"requestBody": {"required": required, "content": content}}
