"""Chats by incoming webhook: Slack, Mattermost, Rocket.Chat and Discord.

`{"type": "slack", "url": "https://hooks.slack.com/services/…"}`. The whole URL is secret.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

from hourbell.core.alerts.channel import ParsedChannel
from hourbell.core.alerts.message import Message
from hourbell.core.alerts.text import MessageText, clipped, describe, utf16_units
from hourbell.core.run.settle import Outcome
from hourbell.targets.channel.base import Delivery, Json
from hourbell.targets.channel.http import Fields, missing, post_json

# As chats count characters: see `utf16_units`.
_MAX_DISCORD_CHARACTERS = 4_000  # Discord takes 4,096 in a description
_MAX_DISCORD_TITLE_CHARACTERS = 250  # and 256 in a title
_MAX_SLACK_CHARACTERS = 2_900  # Slack takes 3,000 in the text of a section
_MAX_SLACK_HEADING_CHARACTERS = 150
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~:])")


class _Chat(ABC):
    type: str
    is_usable = True

    def parse(self, config: Json, kept: Collection[str] = ()) -> ParsedChannel:
        fields = Fields(config, ("url",), kept)
        url = fields.url()
        return fields.parsed(self.type, {}, {"url": "" if url is None else str(url)}, url)

    async def send(self, message: Message, config: Json, secrets: Mapping[str, str], transport: Delivery) -> Outcome:
        del config
        if "url" not in secrets:
            return missing("url")
        return await post_json(transport, secrets["url"], self.body(message), secrets)

    @abstractmethod
    def body(self, message: Message) -> dict[str, Any]:
        """Return the JSON that this chat takes."""


class SlackChannel(_Chat):
    """Blocks of mrkdwn, whose three control characters are escaped, so that nothing becomes a link or a mention."""

    type = "slack"

    def body(self, message: Message) -> dict[str, Any]:
        text = describe(message)
        lines = [f"*{_slack(name)}:* {_slack(value)}" for name, value in text.fields]
        lines += [" · ".join(f"<{_slack(url)}|{_slack(name)}>" for name, url in text.links)] if text.links else []
        lines += [f"{_slack(name)}: `{_slack(command)}`" for name, command in text.commands]
        heading = {"type": "plain_text", "text": clipped(text.title, _MAX_SLACK_HEADING_CHARACTERS), "emoji": False}
        sections = [
            {"type": "section", "text": {"type": "mrkdwn", "text": part, "verbatim": True}}
            for part in _parts(lines, _MAX_SLACK_CHARACTERS)
        ]
        return {"text": _slack(text.title), "blocks": [{"type": "header", "text": heading}, *sections]}


class MattermostChannel(_Chat):
    """An attachment in Slack's older form, with Markdown escaped."""

    type = "mattermost"

    def body(self, message: Message) -> dict[str, Any]:
        text = describe(message)
        attachment = {
            "fallback": _markdown(text.title),
            "color": text.color,
            "title": _markdown(text.title),
            "text": _markdown_body(text),
        }
        link = message.links.get("incident")
        return {"attachments": [attachment if link is None else attachment | {"title_link": link}]}


class RocketChatChannel(MattermostChannel):
    type = "rocketchat"


class DiscordChannel(_Chat):
    """An embed; no mention notifies anybody."""

    type = "discord"

    def body(self, message: Message) -> dict[str, Any]:
        text = describe(message)
        description = _parts(_markdown_body(text).splitlines(), _MAX_DISCORD_CHARACTERS)[0]
        embed: dict[str, Any] = {
            "title": clipped(text.title, _MAX_DISCORD_TITLE_CHARACTERS),
            "description": description,
            "color": int(text.color.removeprefix("#"), 16),
            "timestamp": message.at.isoformat(),
        }
        link = message.links.get("incident")
        return {"embeds": [embed if link is None else embed | {"url": link}], "allowed_mentions": {"parse": []}}


def _slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _markdown(text: str) -> str:
    """Escape Markdown, and break mentions such as @all by a zero-width space."""
    return _MARKDOWN.sub(r"\\\1", text).replace("@", "@\u200b")


def _markdown_body(text: MessageText) -> str:
    lines = [f"**{name}:** {_markdown(value)}" for name, value in text.fields]
    lines += [" · ".join(f"[{name}]({url})" for name, url in text.links)] if text.links else []
    lines += [f"{name}: `{command}`" for name, command in text.commands]
    return "\n".join(lines)


def _parts(lines: list[str], max_units: int) -> list[str]:
    """Join lines into parts of a limited length; a line is shortened only if it alone is longer."""
    parts = [""]
    for line in lines:
        short = clipped(line, max_units)
        joined = f"{parts[-1]}\n{short}" if parts[-1] else short
        if utf16_units(joined) <= max_units:
            parts[-1] = joined
        else:
            parts.append(short)
    return parts
