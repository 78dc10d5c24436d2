"""The Telegram channel: `{"type": "telegram", "token": "123:ABC…", "chat_id": "-100…"}`, by the Bot API.

`url` names another server of the Bot API, and `thread_id` a topic of a group. The token is secret.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from html import escape
from typing import Any

from hourbell.core.alerts.channel import ParsedChannel
from hourbell.core.alerts.message import Message
from hourbell.core.alerts.text import describe, utf16_units
from hourbell.core.run.settle import Failed, Outcome
from hourbell.targets.channel.base import Delivery, Json
from hourbell.targets.channel.http import Fields, missing, post_json
from hourbell.targets.http.outcome import outcome_of
from hourbell.targets.http.transport import Response

_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{20,100}", re.ASCII)
_CHAT = re.compile(r"-?[0-9]{1,20}|@[A-Za-z0-9_]{4,64}", re.ASCII)
_MAX_CHARACTERS = 4_096  # of the text without its tags
_MAX_WAIT_SECONDS = 3_600


class TelegramChannel:
    type = "telegram"
    is_usable = True

    def parse(self, config: Json, kept: Collection[str] = ()) -> ParsedChannel:
        fields = Fields(config, ("token", "chat_id", "thread_id", "url"), kept)
        hint = "write the bot's token, as in 123456:ABC…"
        token = fields.text("token", hint, is_valid=lambda text: _TOKEN.fullmatch(text) is not None)
        chat = config.get("chat_id")
        chat = str(chat) if isinstance(chat, int) and not isinstance(chat, bool) else chat
        if not isinstance(chat, str) or _CHAT.fullmatch(chat) is None:
            fields.reject("chat_id", "it is not valid", "write the number of a chat, or @name of a public channel")
        thread = None if config.get("thread_id") is None else fields.number("thread_id", 1, 1, 2**53)
        url = fields.url(default="https://api.telegram.org")
        if url is not None and url.path != "/":
            fields.reject("url", "it has a path", "write the scheme and host of the server only")
        kept = {"chat_id": chat, "thread_id": thread, "url": str(url)}
        return fields.parsed(self.type, kept, {"token": token}, url)

    async def send(self, message: Message, config: Json, secrets: Mapping[str, str], transport: Delivery) -> Outcome:
        if "token" not in secrets:
            return missing("token")
        body: dict[str, Any] = {
            "chat_id": config["chat_id"],
            "text": _html(message),
            "parse_mode": "HTML",
            "link_preview_options": {"is_disabled": True},
        }
        if config["thread_id"] is not None:
            body["message_thread_id"] = config["thread_id"]

        def judge(response: Response) -> Outcome | None:
            """Read how long to wait, which Telegram says in the body."""
            seconds = _wait_of(response.body) if response.status == 429 else None
            outcome = outcome_of(response, transport.now, hidden=tuple(secrets.values()))
            if seconds is None or not isinstance(outcome, Failed):
                return None
            return replace(outcome, retry_after=timedelta(seconds=seconds))

        url = f"{config['url']}bot{secrets['token']}/sendMessage"
        return await post_json(transport, url, body, secrets, judge=judge)


def _html(message: Message) -> str:
    """Render a message in Telegram's HTML. What does not fit is left out line by line, so that tags stay whole."""
    text = describe(message)
    lines = [(text.title, f"<b>{escape(text.title)}</b>")]
    lines += [(f"{name}: {value}", f"<b>{escape(name)}:</b> {escape(value)}") for name, value in text.fields]
    lines += [(name, f'<a href="{escape(url)}">{escape(name)}</a>') for name, url in text.links]
    lines += [(f"{name}: {run}", f"{escape(name)}: <code>{escape(run)}</code>") for name, run in text.commands]
    left, said = _MAX_CHARACTERS, []
    for plain, rich in lines:
        size = utf16_units(plain) + 1
        if size <= left:
            left -= size
            said.append(rich)
    return "\n".join(said)


def _wait_of(body: bytes) -> int | None:
    try:
        seconds = json.loads(body)["parameters"]["retry_after"]
    except (ValueError, KeyError, TypeError):
        return None
    return min(seconds, _MAX_WAIT_SECONDS) if isinstance(seconds, int) and seconds > 0 else None
