"""The OpenAPI document: what FastAPI finds out by itself, with the bodies and errors that the routes handle themselves.

`python -m hourbell.api.openapi` prints it.
"""

import json
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from hourbell.api import bodies, shapes
from hourbell.api.documented import problem_answer
from hourbell.api.session_cookie import COOKIE

_REF = "#/components/schemas/{model}"
_FOUND_BY_FASTAPI = ("HTTPValidationError", "ValidationError")
_BASES = ("Answer", "Body")
_ABOUT = (
    "Cron you can trust. Times are RFC 3339 in UTC, lists have pages, and errors are problems by RFC 9457. "
    "Send a token as `Authorization: Bearer hb_…`; a server on loopback without any token needs none."
)
_OPEN = {("get", "/health"), ("get", "/health/ready"), ("post", "/api/v1/session")}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key with the same body acts once, and is answered the same for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}
_KEYLESS = ("/session", "/import", "/preview")
_OF_A_KEY = (409, 413, 422)  # it has acted and the answer is not known; the body is too long; another body came before
_DESCRIPTIONS = {
    "/health": "Says only that the process answers.",
    "/health/ready": "The database, the loops and the backlog of this node; names of lanes and tasks need a token.",
    "/metrics": "In the text format of Prometheus; on loopback for programs of the same machine, else with a token.",
}


def describe(app: FastAPI) -> dict[str, Any]:
    """The document of an app."""
    document = get_openapi(title=app.title, version=app.version, description=_ABOUT, routes=app.routes)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(_own_schemas())
    for name in (*_FOUND_BY_FASTAPI, *_BASES):
        schemas.pop(name, None)
    document["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "`hourbell token create` makes one."},
        "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
    }
    errors: dict[str, Any] = document["components"].setdefault("responses", {})
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _mend(path, method, operation)
            _name_errors(operation["responses"], errors)
    return document


def written(document: dict[str, Any]) -> str:
    """The document as it is checked in."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _own_schemas() -> dict[str, Any]:
    """Requests as they are read, answers as they are written."""
    pairs: list[tuple[type[BaseModel], Any]] = [
        (each, mode)
        for module, mode in ((bodies, "validation"), (shapes, "serialization"))
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, BaseModel) and each.__module__ == module.__name__
    ]
    _, found = models_json_schema(pairs, ref_template=_REF)
    schemas: dict[str, Any] = found["$defs"]
    return schemas


def _mend(path: str, method: str, operation: dict[str, Any]) -> None:
    operation.setdefault("description", _DESCRIPTIONS.get(path))
    answers = operation["responses"]
    if "HTTPValidationError" in str(answers.get("422", "")):
        del answers["422"]  # a parameter that cannot be used is answered 400
    for parameter in operation.get("parameters", []):
        _refuse_null(parameter["schema"])
    operation["security"] = [] if (method, path) in _OPEN else [{"bearer": []}, {"session": []}, {}]
    if method == "post" and path.startswith("/api/") and not path.endswith(_KEYLESS):
        operation.setdefault("parameters", []).append(_KEY)
        for status in _OF_A_KEY:
            answers.setdefault(str(status), problem_answer(status))


def _refuse_null(schema: dict[str, Any]) -> None:
    """A parameter that is not needed is left out: there is no way to write null."""
    kinds = [each for each in schema.get("anyOf", []) if each != {"type": "null"}]
    if len(kinds) == 1:
        del schema["anyOf"]
        schema.update(kinds[0])


def _name_errors(answers: dict[str, Any], errors: dict[str, Any]) -> None:
    """Describe each error once, and refer to it from wherever it may come."""
    for status, answer in answers.items():
        if answer == problem_answer(int(status)):
            errors[f"Error{status}"] = answer
            answers[status] = {"$ref": f"#/components/responses/Error{status}"}


def main() -> None:
    """Print the document of an app that has nothing behind it: what it would do is not asked for."""
    from hourbell.api.access import Door
    from hourbell.api.app import build_app
    from hourbell.metrics import Metrics

    nothing: Any = None
    door = Door(nothing, nothing, nothing, nothing, is_local=True)
    app = build_app(nothing, door, nothing, Metrics(), version=version("hourbell"))
    print(written(describe(app)), end="")


if __name__ == "__main__":
    main()
