"""The Alertmanager channel, by its API v2: `{"type": "alertmanager", "url": "https://alertmanager.example.com"}`.

`token` is optional, and sent as a bearer token. Alertmanager identifies an alert by its labels: so they come only from
what never changes about an incident, and everything else is an annotation.
"""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from hourbell.core.alerts.channel import ParsedChannel
from hourbell.core.alerts.kinds import Event
from hourbell.core.alerts.message import Message
from hourbell.core.alerts.text import describe, plain_text
from hourbell.core.run.settle import Outcome
from hourbell.core.schedule.preview import rfc3339
from hourbell.targets.channel.base import Delivery, Json
from hourbell.targets.channel.http import Fields, bearer, post_json

_FIRING_FOR = timedelta(days=365)  # without an end, Alertmanager resolves an alert after five minutes
_TEST_FOR = timedelta(minutes=5)


class AlertmanagerChannel:
    type = "alertmanager"
    is_usable = True

    def parse(self, config: Json, kept: Collection[str] = ()) -> ParsedChannel:
        fields = Fields(config, ("url", "token"), kept)
        url = fields.url()
        token = fields.text("token", "write a bearer token", required=False)
        if url is not None and "?" in url.path:
            fields.reject("url", "it has a query", "write the address of Alertmanager, without /api/v2/alerts")
        return fields.parsed(self.type, {"url": str(url).rstrip("/")}, {"token": token}, url)

    async def send(self, message: Message, config: Json, secrets: Mapping[str, str], transport: Delivery) -> Outcome:
        return await post_json(transport, f"{config['url']}/api/v2/alerts", [_alert(message)], secrets, bearer(secrets))


def _alert(message: Message) -> dict[str, Any]:
    incident, text = message.incident, describe(message)
    labels = {"alertname": "HourbellTest", "service": "hourbell", "channel": message.channel}
    starts_at, ends_at = message.at, message.at + _TEST_FOR
    if incident is not None:
        name = "".join(part.capitalize() for part in incident.kind.split("_"))
        labels = {"alertname": f"Hourbell{name}", "service": "hourbell", "incident": incident.id}
        starts_at, ends_at = incident.opened_at, message.at + _FIRING_FOR
        if message.event is Event.RESOLVED:
            ends_at = incident.resolved_at or message.at
    alert: dict[str, Any] = {
        "labels": labels,
        "annotations": {"summary": text.title, "description": plain_text(text)},
        "startsAt": rfc3339(starts_at),
        "endsAt": rfc3339(ends_at),
    }
    if "incident" in message.links:
        alert["generatorURL"] = message.links["incident"]
    return alert
