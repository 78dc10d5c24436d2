"""The ntfy channel: `{"type": "ntfy", "topic": "…", "url": "https://ntfy.sh", "token": "tk_…", "priority": 4}`.

The topic is secret, because whoever knows it may read and write it.
"""

import re
from collections.abc import Collection, Mapping

from hourbell.core.alerts.channel import ParsedChannel
from hourbell.core.alerts.kinds import Event
from hourbell.core.alerts.message import Message
from hourbell.core.alerts.text import describe, plain_text
from hourbell.core.run.settle import Outcome
from hourbell.targets.channel.base import Delivery, Json
from hourbell.targets.channel.http import Fields, bearer, json_bytes, missing, post_json

_TOPIC = re.compile(r"[-_A-Za-z0-9]{1,64}", re.ASCII)
_MAX_MESSAGE_BYTES = 4_000  # a longer message becomes an attachment
_MAX_BODY_BYTES = 8_000  # ntfy reads 8,192 bytes of JSON, in which quotes take two
_DEFAULT, _HIGH, _URGENT = 3, 4, 5


class NtfyChannel:
    type = "ntfy"
    is_usable = True

    def parse(self, config: Json, kept: Collection[str] = ()) -> ParsedChannel:
        fields = Fields(config, ("topic", "url", "token", "priority"), kept)
        hint = "write a topic of letters, digits, - and _"
        topic = fields.text("topic", hint, is_valid=lambda text: _TOPIC.fullmatch(text) is not None)
        token = fields.text("token", "write an access token, as in tk_…", required=False)
        url = fields.url(default="https://ntfy.sh")
        priority = fields.number("priority", _HIGH, 1, 5)
        return fields.parsed(self.type, {"url": str(url), "priority": priority}, {"topic": topic, "token": token}, url)

    async def send(self, message: Message, config: Json, secrets: Mapping[str, str], transport: Delivery) -> Outcome:
        if "topic" not in secrets:
            return missing("topic")
        text = describe(message)
        said = _clipped(plain_text(text), _MAX_MESSAGE_BYTES)
        is_calm = message.event in (Event.RESOLVED, Event.TEST)
        priority = _DEFAULT if is_calm else _URGENT if message.event is Event.ESCALATED else config["priority"]
        tags = ["white_check_mark"] if is_calm else ["rotating_light"]
        body = {"topic": secrets["topic"], "title": text.title, "message": said, "priority": priority, "tags": tags}
        if (link := message.links.get("incident")) is not None:
            body["click"] = link
        body["actions"] = [{"action": "view", "label": name, "url": url} for name, url in text.links[:3]]
        if (excess := len(json_bytes(body)) - _MAX_BODY_BYTES) > 0:
            body["message"] = _clipped(said, len(said.encode("utf-8", "replace")) - excess)
        return await post_json(transport, config["url"], body, secrets, bearer(secrets))


def _clipped(text: str, max_bytes: int) -> str:
    return text.encode("utf-8", "replace")[:max_bytes].decode(errors="ignore")
