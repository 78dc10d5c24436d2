"""What the OpenAPI document says of every operation: its body, its answers and each error it may give."""

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel

from hourbell.api.problems import MEDIA_TYPE
from hourbell.api.shapes import ProblemAnswer

_EVERY = (400, 401, 403, 429, 500, 503)
_BODY = (413, 415, 422)
_MEANINGS = {
    409: "It cannot be done as things stand; `code` says why.",
    412: "The job is not at the version of If-Match.",
    422: "The body is well-formed and cannot be used; `errors` says everything that is wrong.",
    429: "Too many requests; Retry-After says when to come back.",
    503: "The database is out of reach; Retry-After says when to come back.",
}


def responses(
    model: type[BaseModel] | None,
    *errors: int,
    status: int = 200,
    has_body: bool = False,
    more: dict[int | str, dict[str, Any]] | None = None,
) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route: what it answers, and the errors it has besides those that every route has."""
    good: dict[int | str, dict[str, Any]] = {status: {"description": HTTPStatus(status).phrase}}
    if model is not None:
        good[status]["model"] = model
    statuses = sorted({*_EVERY, *(_BODY if has_body else ()), *errors})
    return {**good, **(more or {}), **{each: problem_answer(each) for each in statuses}}


def problem_answer(status: int) -> dict[str, Any]:
    """What the document says of an error."""
    schema = {"$ref": f"#/components/schemas/{ProblemAnswer.__name__}"}
    return {
        "description": _MEANINGS.get(status, HTTPStatus(status).phrase),
        "content": {MEDIA_TYPE: {"schema": schema}},
    }


def takes(model: type[BaseModel], *media_types: str, required: bool = True) -> dict[str, Any]:
    """The `openapi_extra` of a route that reads its body by itself, as JSON if nothing else is said."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    content = {each: {"schema": schema} for each in media_types or ("application/json",)}
    return {"requestBody": {"required": required, "content": content}}
