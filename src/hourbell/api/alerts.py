"""Routes for alerts: channels, alert policies and incidents."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query
from starlette.responses import JSONResponse, Response

from hourbell.answers import alerts
from hourbell.api import bodies, shapes
from hourbell.api.documented import responses, takes
from hourbell.api.idempotency import IdempotentRoute, SecretResponse
from hourbell.api.pages import page_response
from hourbell.api.render import answer, time
from hourbell.api.users import ControlDep, Editor, JsonBody, Operator, Viewer, limited_trigger, read
from hourbell.api.values import Cursor, Limit
from hourbell.control.values import ChannelView, IncidentView, PolicyView
from hourbell.core.alerts.kinds import IncidentState
from hourbell.core.alerts.policy import policy_to_body

router = APIRouter(route_class=IdempotentRoute)

Name = Annotated[str, Path(min_length=1, max_length=60, description="The name.")]
TakeOver = Annotated[bool, Query(description="Also if a jobs file manages it, which would put it back.")]
Json = dict[str, Any]


@router.get("/channels", summary="List channels", responses=responses(shapes.ChannelList))
async def list_channels(control: ControlDep, user: Viewer) -> Response:
    """List all channels by name, without their secrets."""
    del user
    return JSONResponse({"items": [_channel(view) for view in await control.alerts.channels()]})


@router.get("/channels/{name}", summary="Get a channel", responses=responses(shapes.ChannelAnswer, 404))
async def get_channel(control: ControlDep, user: Viewer, name: Name) -> Response:
    """Return a channel without its secrets."""
    del user
    return JSONResponse(_channel(await control.alerts.channel(name)))


@router.put(
    "/channels/{name}",
    summary="Create or replace a channel",
    responses=responses(
        shapes.ChannelDefined,
        409,
        has_body=True,
        more={201: {"description": "Created", "model": shapes.ChannelDefined}},
    ),
    openapi_extra=takes(bodies.ChannelBody),
)
async def put_channel(
    control: ControlDep, user: Editor, name: Name, body: JsonBody, take_over: TakeOver = False
) -> Response:
    """Create a channel, or replace all of it: give its secrets again. Messages that wait go to the new address.

    A webhook without `secret` gets a generated one, which only this answer shows.
    """
    put = await control.alerts.put_channel(name, body, user, take_over=take_over)
    secret = None if put.secret is None else put.secret.reveal()
    return SecretResponse({**_channel(put.view), "generated_secret": secret}, 201 if put.is_new else 200)


@router.patch(
    "/channels/{name}",
    summary="Change a channel",
    responses=responses(shapes.ChannelDefined, 404, 409, has_body=True),
    openapi_extra=takes(bodies.ChannelPatchBody, "application/merge-patch+json", "application/json"),
)
async def patch_channel(
    control: ControlDep, user: Editor, name: Name, body: JsonBody, take_over: TakeOver = False
) -> Response:
    """Change a channel by a JSON merge patch. Absent fields and secrets stay; null restores the default.

    A secret is bound to the origin that it was given for: to change the origin, give it again. For a webhook,
    `"secret": null` generates a new one, which only this answer shows.
    """
    put = await control.alerts.patch_channel(name, body, user, take_over=take_over)
    secret = None if put.secret is None else put.secret.reveal()
    return SecretResponse({**_channel(put.view), "generated_secret": secret})


@router.delete(
    "/channels/{name}", summary="Delete a channel", status_code=204, responses=responses(None, 404, 409, status=204)
)
async def delete_channel(
    control: ControlDep,
    user: Editor,
    name: Name,
    force: Annotated[bool, Query(description="Also if alert policies name it.")] = False,
    take_over: TakeOver = False,
) -> Response:
    """Delete a channel with its secrets. Its messages that wait are cancelled."""
    await control.alerts.delete_channel(name, user, force=force, take_over=take_over)
    return Response(status_code=204)


@router.post(
    "/channels/{name}/test",
    summary="Test a channel",
    status_code=202,
    dependencies=[Depends(limited_trigger)],
    responses=responses(shapes.ChannelTested, 404, 409, status=202),
)
async def test_channel(control: ControlDep, user: Operator, name: Name) -> Response:
    """Send a test message. The run of the answer says whether it was delivered, and if not, why."""
    return JSONResponse({"run_id": str(await control.alerts.test_channel(name, user))}, 202)


@router.get("/alert-policies", summary="List alert policies", responses=responses(shapes.AlertPolicyList))
async def list_alert_policies(control: ControlDep, user: Viewer) -> Response:
    """List all alert policies by name. Without a policy `default`, the built-in one is listed first."""
    del user
    return JSONResponse({"items": [_policy(view) for view in await control.alerts.policies()]})


@router.get("/alert-policies/{name}", summary="Get an alert policy", responses=responses(shapes.AlertPolicyAnswer, 404))
async def get_alert_policy(control: ControlDep, user: Viewer, name: Name) -> Response:
    """Return an alert policy."""
    del user
    return JSONResponse(_policy(await control.alerts.policy(name)))


@router.put(
    "/alert-policies/{name}",
    summary="Create or replace an alert policy",
    responses=responses(
        shapes.AlertPolicyAnswer,
        404,
        409,
        has_body=True,
        more={201: {"description": "Created", "model": shapes.AlertPolicyAnswer}},
    ),
    openapi_extra=takes(bodies.AlertPolicyBody),
)
async def put_alert_policy(
    control: ControlDep, user: Editor, name: Name, body: JsonBody, take_over: TakeOver = False
) -> Response:
    """Create or replace an alert policy. `default` applies to every job that names no other one."""
    view, is_new = await control.alerts.put_policy(name, body, user, take_over=take_over)
    return JSONResponse(_policy(view), 201 if is_new else 200)


@router.delete(
    "/alert-policies/{name}",
    summary="Delete an alert policy",
    status_code=204,
    responses=responses(None, 404, 409, status=204),
)
async def delete_alert_policy(
    control: ControlDep,
    user: Editor,
    name: Name,
    force: Annotated[bool, Query(description="Also if jobs name it: `default` applies to them.")] = False,
    take_over: TakeOver = False,
) -> Response:
    """Delete an alert policy."""
    await control.alerts.delete_policy(name, user, force=force, take_over=take_over)
    return Response(status_code=204)


@router.get("/incidents", summary="List incidents", responses=responses(shapes.IncidentList, 404))
async def list_incidents(
    control: ControlDep,
    user: Viewer,
    state: Annotated[list[IncidentState] | None, Query(max_length=3, description="Repeat it for several.")] = None,
    job: Annotated[str | None, Query(min_length=1, max_length=100, description="A job's name or id.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List incidents, the newest first. An incident of a host is listed under the job that failed first."""
    del user
    page = await control.alerts.incidents(state or (), job, limit, cursor)
    return page_response(page, _incident)


@router.get("/incidents/{incident}", summary="Get an incident", responses=responses(shapes.IncidentDetail, 404))
async def get_incident(control: ControlDep, user: Viewer, incident: UUID) -> Response:
    """Return an incident with its jobs and its messages: who was notified when, and whether it was delivered."""
    del user
    found = await control.alerts.incident(incident)
    results = [answer(alerts.Notification, each) for each in found.notifications]
    return JSONResponse({**_incident(found.view), "jobs": list(found.jobs), "notifications": results})


@router.post(
    "/incidents/{incident}/acknowledge",
    summary="Acknowledge an incident",
    responses=responses(shapes.IncidentAnswer, 404, 409),
)
async def acknowledge_incident(control: ControlDep, user: Operator, incident: UUID) -> Response:
    """Say that you take care of it: no repeats and no escalation from now on. Its end is still notified."""
    return JSONResponse(_incident(await control.alerts.acknowledge(incident, user)))


@router.post(
    "/incidents/{incident}/mute",
    summary="Mute an incident",
    responses=responses(shapes.IncidentAnswer, 404, 409, has_body=True),
    openapi_extra=takes(bodies.MuteBody),
)
async def mute_incident(control: ControlDep, user: Operator, incident: UUID, body: JsonBody) -> Response:
    """Send no messages of this incident until a time."""
    given = read(bodies.MuteBody, body)
    return JSONResponse(_incident(await control.alerts.mute(incident, given.until, user)))


@router.post(
    "/incidents/{incident}/resolve",
    summary="Resolve an incident",
    responses=responses(shapes.IncidentAnswer, 404, 409),
)
async def resolve_incident(control: ControlDep, user: Operator, incident: UUID) -> Response:
    """End an incident by hand, without a message. If the trouble goes on, the next failure opens another one."""
    return JSONResponse(_incident(await control.alerts.resolve(incident, user)))


def _channel(view: ChannelView) -> Json:
    channel = view.channel
    return {
        "name": channel.name,
        "type": channel.type,
        "config": dict(channel.config),
        "origin": channel.origin,
        "managed_by": view.managed_by,
        "source": view.source,
        "created_at": time(view.created_at),
        "updated_at": time(view.updated_at),
        "updated_by": view.updated_by,
    }


def _policy(view: PolicyView) -> Json:
    owner = {"managed_by": view.managed_by, "source": view.source}
    by = {"updated_at": time(view.updated_at), "updated_by": view.updated_by}
    return {"name": view.name, **policy_to_body(view.policy), **owner, **by}


def _incident(view: IncidentView) -> Json:
    return answer(alerts.Incident, view.incident, job_name=view.job_name)
