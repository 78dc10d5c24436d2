"""Dependencies that the routes share: the user by role, the body, parameters and the expected version."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from difflib import get_close_matches
from typing import Annotated, TypeVar, get_args, get_origin

from fastapi import Depends, Header, Request
from fastapi.dependencies.models import Dependant
from pydantic import BaseModel, ValidationError

from hourbell.api.access import Caller, authenticator_of, caller, require_role
from hourbell.api.field_errors import field_errors
from hourbell.api.idempotency import asked
from hourbell.api.json_body import json_body_in_turn, optional_json_body_in_turn
from hourbell.api.limits import too_many
from hourbell.api.problems import Problem, invalid_parameter
from hourbell.control.control import Control
from hourbell.control.user import User
from hourbell.control.values import Request as ActorRequest
from hourbell.core.access.roles import Role
from hourbell.core.values.field_errors import RequestError

Model = TypeVar("Model", bound=BaseModel)
MAX_PARAMETERS = 100
_MAX_NAME_CHARACTERS, _MAX_SUGGESTIONS = 100, 5


async def control_of(request: Request) -> Control:
    found: Control = request.app.state.control
    return found


def _user(role: Role) -> Callable[..., Awaitable[User]]:
    async def user(
        found: Annotated[Caller, Depends(require_role(role))], request: Annotated[ActorRequest, Depends(asked)]
    ) -> User:
        return User(found.actor, found.role, request)

    return user


ControlDep = Annotated[Control, Depends(control_of)]
Viewer = Annotated[User, Depends(_user(Role.VIEWER))]
Operator = Annotated[User, Depends(_user(Role.OPERATOR))]
Editor = Annotated[User, Depends(_user(Role.EDITOR))]
Admin = Annotated[User, Depends(_user(Role.ADMIN))]
JsonBody = Annotated[object, Depends(json_body_in_turn, scope="function")]
OptionalBody = Annotated[object, Depends(optional_json_body_in_turn, scope="function")]


def read(model: type[Model], body: object) -> Model:
    """Validate a body against its model; raise a RequestError with all its validation errors."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        fields = [field.alias or name for name, field in model.model_fields.items()]
        raise RequestError(field_errors(error.errors(), fields)) from None


async def limited_trigger(request: Request, found: Annotated[Caller, Depends(caller)]) -> None:
    """Apply the rate limit for manual triggers and replays, in addition to the limit on requests."""
    limit_triggers(request, found, 1)


def limit_triggers(request: Request, found: Caller, count: int) -> None:
    """Count manual triggers. Any number is admitted at once, and delays the caller's next ones."""
    triggers = authenticator_of(request).triggers
    if wait := triggers.take(found.limited_as):
        raise too_many(wait)
    triggers.charge(found.limited_as, max(0, count - 1))


async def known_parameters(request: Request) -> None:
    """Refuse unknown query parameters, repeated ones unless they are lists, and more than MAX_PARAMETERS of them.

    The cost is bounded for any input, because this also runs before a login, for anonymous callers.
    """
    if request.scope["query_string"].count(b"&") >= MAX_PARAMETERS:
        raise Problem(400, "too_many_parameters", f"A request has at most {MAX_PARAMETERS} parameters; send fewer.")
    parameters = _known(request.scope["route"].dependant)
    known = sorted(parameters)
    given = Counter(name for name, _ in request.query_params.multi_items())
    others = [name for name in given if name not in known]
    unknown = [
        (f"/query/{name}", "there is no such parameter", _meant(name, known) if index < _MAX_SUGGESTIONS else None)
        for index, name in enumerate(others)
    ]
    repeated = [name for name in known if given[name] > 1 and not parameters[name]]
    twice = [(f"/query/{name}", f"{name} is given twice", "write it once") for name in repeated]
    if unknown:
        hint = f"this takes {', '.join(known)}" if known else "this takes none"
        raise Problem(400, "unknown_parameter", f"A parameter cannot be used; {hint}.", [*unknown, *twice])
    if twice:
        raise invalid_parameter(twice)


def _meant(name: str, known: Sequence[str]) -> str | None:
    close = get_close_matches(name[:_MAX_NAME_CHARACTERS], known, n=1)
    return f"did you mean {close[0]}?" if close else None


def _known(dependant: Dependant) -> dict[str, bool]:
    """Return the query parameters of a route, and of each if it is a list, which may be repeated."""
    found = {field.alias: _is_list(field.field_info.annotation) for field in dependant.query_params}
    for each in dependant.dependencies:
        found |= _known(each)
    return found


def _is_list(hint: object) -> bool:
    return any(get_origin(part) is list for part in (hint, *get_args(hint)))


async def expected_version(
    if_match: Annotated[str | None, Header(description='The ETag of the job, as in `"3"`.')] = None,
) -> int | None:
    """Return the job version that the If-Match header requires, or None."""
    if if_match is None or if_match.strip() == "*":
        return None
    digits = if_match.strip().strip('"')
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 10):
        hint = 'Write the ETag of an earlier answer, as in If-Match: "3".'
        raise Problem(400, "invalid_if_match", hint, [("/header/If-Match", hint, None)])
    return int(digits)


Version = Annotated[int | None, Depends(expected_version)]
