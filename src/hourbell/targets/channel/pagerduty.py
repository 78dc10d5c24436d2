"""The PagerDuty channel, by the Events API v2: `{"type": "pagerduty", "routing_key": "…"}`.

`url` is `https://events.pagerduty.com/v2/enqueue`, or that of another region. The routing key is secret.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from hourbell.core.alerts.channel import ParsedChannel
from hourbell.core.alerts.kinds import Event
from hourbell.core.alerts.message import Message
from hourbell.core.alerts.text import describe
from hourbell.core.run.settle import Outcome
from hourbell.core.schedule.preview import rfc3339
from hourbell.targets.channel.base import Delivery, Json
from hourbell.targets.channel.http import Fields, missing, post_json

_KEY = re.compile(r"[A-Za-z0-9]{32}", re.ASCII)
_SEVERITIES = ("critical", "error", "warning", "info")


class PagerDutyChannel:
    type = "pagerduty"
    is_usable = True

    def parse(self, config: Json, kept: Collection[str] = ()) -> ParsedChannel:
        fields = Fields(config, ("routing_key", "url", "severity"), kept)
        hint = "write the integration key of a service (Events API v2), which has 32 letters and digits"
        key = fields.text("routing_key", hint, is_valid=lambda text: _KEY.fullmatch(text) is not None)
        url = fields.url(default="https://events.pagerduty.com/v2/enqueue")
        severity = config.get("severity", "error")
        if severity not in _SEVERITIES:
            fields.reject("severity", "it is not valid", f"write one of {', '.join(_SEVERITIES)}")
        return fields.parsed(self.type, {"url": str(url), "severity": severity}, {"routing_key": key}, url)

    async def send(self, message: Message, config: Json, secrets: Mapping[str, str], transport: Delivery) -> Outcome:
        if "routing_key" not in secrets:
            return missing("routing_key")
        body = _event(message, config["severity"]) | {"routing_key": secrets["routing_key"]}
        return await post_json(transport, config["url"], body, secrets)


def _event(message: Message, severity: str) -> dict[str, Any]:
    """Return the event: all events of an incident have its id as key for deduplication."""
    incident = message.incident
    key = message.id if incident is None else incident.id
    if message.event is Event.RESOLVED:
        return {"event_action": "resolve", "dedup_key": key}
    text = describe(message)
    is_test = message.event is Event.TEST
    details = dict(text.fields) | dict(text.commands)
    payload: dict[str, Any] = {
        "summary": text.title,
        "source": "hourbell" if message.job is None else message.job.name,
        "severity": "info" if is_test else "critical" if message.event is Event.ESCALATED else severity,
        "timestamp": rfc3339(message.at),
        "class": "test" if incident is None else str(incident.kind),
        "custom_details": details,
    }
    event: dict[str, Any] = {"event_action": "trigger", "dedup_key": key, "client": "Hourbell", "payload": payload}
    if "incident" in message.links:
        event["client_url"] = message.links["incident"]
    event["links"] = [{"href": url, "text": name} for name, url in text.links]
    return event
