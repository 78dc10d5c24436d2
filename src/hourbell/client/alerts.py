"""Methods of the client for channels, alert policies and incidents."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from hourbell.answers.alerts import AlertPolicy, Channel, ChannelTest, Incident
from hourbell.client.api_client import API, ApiClient, Edit, segment
from hourbell.client.pages import Page, Pages
from hourbell.client.reading import read

_CHANNELS, _POLICIES, _INCIDENTS = f"{API}/channels", f"{API}/alert-policies", f"{API}/incidents"


def _flags(**flags: bool) -> dict[str, Any]:
    """Return the parameters that are set."""
    return {name: True for name, is_set in flags.items() if is_set}


class Channels:
    def __init__(self, api: ApiClient) -> None:
        self._api = api

    async def list(self) -> Page[Channel]:
        """Return every channel, without its secrets."""
        return Page.of(Channel, await self._api.get(_CHANNELS))

    async def get(self, name: str) -> Channel:
        return read(Channel, await self._api.get(f"{_CHANNELS}/{segment(name)}"))

    async def put(self, name: str, config: Mapping[str, Any], *, take_over: bool = False) -> Channel:
        """Create a channel, or replace all of it. Only this answer shows a generated signing secret."""
        edit = Edit("PUT", f"{_CHANNELS}/{segment(name)}", dict(config), _flags(take_over=take_over))
        return read(Channel, await self._api.edit(edit, may_repeat=False))

    async def patch(self, name: str, changes: Mapping[str, Any], *, take_over: bool = False) -> Channel:
        """Change a channel by a JSON merge patch: absent fields and secrets stay, None restores the default.

        Secrets are bound to the origin that they were given for: to change the origin, give them again.
        """
        edit = Edit("PATCH", f"{_CHANNELS}/{segment(name)}", dict(changes), _flags(take_over=take_over) or {})
        return read(Channel, await self._api.edit(edit, may_repeat=False))

    async def delete(self, name: str, *, force: bool = False, take_over: bool = False) -> None:
        """Delete a channel; with `force`, also one that alert policies name."""
        flags = _flags(force=force, take_over=take_over)
        await self._api.delete(f"{_CHANNELS}/{segment(name)}", flags, may_repeat=True)

    async def test(self, name: str) -> ChannelTest:
        """Send a test message; its run says whether it was delivered."""
        return read(ChannelTest, await self._api.post(f"{_CHANNELS}/{segment(name)}/test"))


class AlertPolicies:
    def __init__(self, api: ApiClient) -> None:
        self._api = api

    async def list(self) -> Page[AlertPolicy]:
        return Page.of(AlertPolicy, await self._api.get(_POLICIES))

    async def get(self, name: str) -> AlertPolicy:
        return read(AlertPolicy, await self._api.get(f"{_POLICIES}/{segment(name)}"))

    async def put(self, name: str, policy: Mapping[str, Any], *, take_over: bool = False) -> AlertPolicy:
        """Create an alert policy, or replace all of it. `default` applies to every job that names no other one."""
        edit = Edit("PUT", f"{_POLICIES}/{segment(name)}", dict(policy), _flags(take_over=take_over))
        return read(AlertPolicy, await self._api.edit(edit, may_repeat=True))

    async def delete(self, name: str, *, force: bool = False, take_over: bool = False) -> None:
        """Delete an alert policy; with `force`, also one that jobs name, to which `default` applies then."""
        flags = _flags(force=force, take_over=take_over)
        await self._api.delete(f"{_POLICIES}/{segment(name)}", flags, may_repeat=True)


class Incidents:
    def __init__(self, api: ApiClient) -> None:
        self._api = api

    def list(
        self, *, state: Sequence[str] | str | None = None, job: UUID | str | None = None, limit: int | None = None
    ) -> Pages[Incident]:
        """List incidents, the newest first."""
        return Pages(Incident, lambda page: self._api.get(_INCIDENTS, page), {"state": state, "job": job}, limit)

    async def get(self, incident: UUID | str) -> Incident:
        """Return an incident with its jobs and its messages."""
        return read(Incident, await self._api.get(f"{_INCIDENTS}/{segment(incident)}"))

    async def acknowledge(self, incident: UUID | str) -> Incident:
        """Say that you take care of it: no repeats and no escalation from now on."""
        return read(Incident, await self._api.post(f"{_INCIDENTS}/{segment(incident)}/acknowledge"))

    async def mute(self, incident: UUID | str, until: datetime) -> Incident:
        """Send no messages of this incident until a time."""
        return read(Incident, await self._api.post(f"{_INCIDENTS}/{segment(incident)}/mute", {"until": until}))

    async def resolve(self, incident: UUID | str) -> Incident:
        """End an incident by hand. If the trouble goes on, the next failure opens another one."""
        return read(Incident, await self._api.post(f"{_INCIDENTS}/{segment(incident)}/resolve"))
