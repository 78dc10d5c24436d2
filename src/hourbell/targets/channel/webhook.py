"""The webhook channel: the message as JSON, signed by the Standard Webhooks rules.

`{"type": "webhook", "url": "https://example.com/alerts", "secret": "whsec_…"}`; without a secret, one is generated and
shown once.
"""

import json
from collections.abc import Collection, Mapping

from hourbell.core.access.signing import secret_bytes, signature
from hourbell.core.alerts.channel import ParsedChannel
from hourbell.core.alerts.message import Message
from hourbell.core.run.settle import Outcome
from hourbell.core.values.field_errors import FieldError, RequestError, unknown_fields
from hourbell.core.values.url import parse_url
from hourbell.targets.channel.base import SIGNING, Delivery, Json

_FIELDS = ("type", "url", "secret")


class WebhookChannel:
    type = "webhook"
    is_usable = True

    def parse(self, config: Json, kept: Collection[str] = ()) -> ParsedChannel:
        del kept  # its secret may be absent in any case
        errors = list(unknown_fields("", config, _FIELDS, _FIELDS))
        url, secret = None, config.get("secret")
        try:
            url = parse_url(config.get("url"))
        except ValueError as error:
            errors.append(FieldError("/url", f"url: {error}"))
        if secret is not None:
            try:
                secret_bytes(secret if isinstance(secret, str) else "")
            except ValueError as error:
                errors.append(FieldError("/secret", str(error), "leave it out to have one generated"))
        if errors or url is None:
            raise RequestError(errors)
        secrets = {} if secret is None else {SIGNING: str(secret)}
        return ParsedChannel(self.type, {"type": self.type, "url": str(url)}, secrets, url.origin)

    async def send(self, message: Message, config: Json, secrets: Mapping[str, str], transport: Delivery) -> Outcome:
        body = json.dumps(message.to_json(), ensure_ascii=False, separators=(",", ":")).encode()
        timestamp = int(transport.now.timestamp())
        headers = {"webhook-id": message.id, "webhook-timestamp": str(timestamp), "Idempotency-Key": message.id}
        if SIGNING in secrets:
            key = secret_bytes(secrets[SIGNING])
            headers["webhook-signature"] = signature([key], message.id, timestamp, body)
        return await transport.post(parse_url(config["url"]), body, headers)
