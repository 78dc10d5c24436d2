"""Sessions of the web page: a token is exchanged for a cookie that scripts cannot read and only our page can use."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hourbell.answers.server import Identity
from hourbell.api.access import CallerDep, authenticator_of, ends_at, ip_of, log_refusal, not_authenticated, session_of
from hourbell.api.bodies import SessionBody
from hourbell.api.cross_site import is_from_another_site
from hourbell.api.documented import responses, takes
from hourbell.api.idempotency import asked
from hourbell.api.json_body import json_body
from hourbell.api.limits import address_group, too_many
from hourbell.api.problems import Problem
from hourbell.api.render import answer, time
from hourbell.api.session_cookie import COOKIE, LASTS
from hourbell.api.shapes import schema
from hourbell.control.values import Request as ActorRequest

login = APIRouter(tags=["session"])
router = APIRouter(tags=["session"])


SessionAnswer = schema("SessionAnswer", Identity, optional=["csrf_token"], others="ignore")


@login.post(
    "/session",
    operation_id="create_session",
    summary="Create a session",
    responses=responses(SessionAnswer, has_body=True),
    openapi_extra=takes(SessionBody),
)
async def create_session(request: Request) -> Response:
    """Exchange a token for a session of 12 hours, or until the token ends. All invalid tokens get the same answer."""
    if is_from_another_site(request):
        raise Problem(403, "cross_site", "Sessions can be created only from Hourbell's own page.")
    authenticator, group = authenticator_of(request), address_group(ip_of(request))
    if wait := authenticator.limits.take(group):
        raise too_many(wait)
    text = _token_in(await json_body(request))
    if wait := authenticator.logins.begin(group):
        raise too_many(wait)
    token = await authenticator.access.authenticate(text)
    if token is None:
        log_refusal(request, authenticator.access.refusal(text))
        raise not_authenticated()
    authenticator.logins.succeeded(group)
    value, session = authenticator.cookies.issue(token.id)
    seconds = int(LASTS.total_seconds())
    ends = time(ends_at(session, token))
    response = JSONResponse(answer(Identity, token, kind="session", expires_at=ends, csrf_token=session.csrf_token))
    response.set_cookie(COOKIE, value, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")
    return response


@router.get("/session", operation_id="get_session", summary="Get your identity", responses=responses(SessionAnswer))
async def get_session(request: Request, caller: CallerDep) -> Response:
    """Return your identity, role and expiry: by session, by token, or on a server without tokens."""
    session = session_of(request) if caller.is_session else None
    kind = "session" if session else "token" if caller.token_id else "open"
    csrf_token = session.csrf_token if session else None
    return JSONResponse(answer(Identity, caller, kind=kind, csrf_token=csrf_token))


@router.delete(
    "/session",
    operation_id="delete_session",
    summary="End the session",
    status_code=204,
    responses=responses(None, status=204),
)
async def delete_session(
    request: Request, caller: CallerDep, call: Annotated[ActorRequest, Depends(asked)]
) -> Response:
    """End the session at once, on every node and for every copy of its cookie.

    Revoke the token to end all its sessions.
    """
    session = session_of(request) if caller.is_session else None
    if session is not None:
        access = authenticator_of(request).access
        await access.end_session(session.id, session.token_id, session.expires_at, caller.actor, request=call)
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="lax")
    return response


def _token_in(body: object) -> str:
    text = body.get("token") if isinstance(body, Mapping) and set(body) == {"token"} else None
    if not isinstance(text, str):
        errors = [("/token", "The token is missing.", 'write {"token": "hb_…"}')]
        raise Problem(422, "invalid_body", "The body is invalid; see errors.", errors)
    return text
