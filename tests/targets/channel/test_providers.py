"""Channels to chats, ntfy, Telegram, PagerDuty and Alertmanager: a receiver checks each body as its provider documents.

The receivers listen on loopback, and refuse fields that are not documented, wrong types and what is too long. Where a
provider says "characters", they count UTF-16 units: an emoji is two.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from html import unescape
from typing import Any

import pytest

from hourbell.core.alerts.kinds import Event, IncidentKind
from hourbell.core.alerts.message import Message
from hourbell.core.run.settle import Failed, Outcome, Succeeded
from hourbell.core.values.field_errors import BodyError
from hourbell.targets.channel.alertmanager import AlertmanagerChannel
from hourbell.targets.channel.base import Channel
from hourbell.targets.channel.chat import DiscordChannel, MattermostChannel, RocketChatChannel, SlackChannel
from hourbell.targets.channel.ntfy import NtfyChannel
from hourbell.targets.channel.pagerduty import PagerDutyChannel
from hourbell.targets.channel.telegram import TelegramChannel
from tests.core.alerts.values import after
from tests.targets.channel.steps import MESSAGE, a_channel, deliver
from tests.targets.http.receivers import Talk, receiving
from tests.targets.http.transports import LOOPBACK, FakeEgressPolicy, make_transport

pytestmark = pytest.mark.anyio
KEY, TOKEN, BOT = "0123456789abcdef0123456789abcdef", "tk_s3cret", "123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11"
EVIL = "<!channel> @everyone @all <b>bold</b> [click](https://evil.example) `code` & "
HOSTILE = {
    "markup": EVIL + "x" * 5_000,
    "long": EVIL * 130,
    "ampersands": "&" * 10_000,
    "angles": "<>" * 5_000,
    "quotes": '"\\' * 5_000,
    "backticks": "`*_~|" * 2_000,
    "emoji": "🔥" * 10_000,
    "families": "👨‍👩‍👧‍👦" * 2_000,
    "newlines": "first\r\nJob: other\n\nResolved\u2028\u2029" * 500,
    "controls": "\x00\x1b[31m\u202e\ufeff\x7f" * 500,
    "surrogates": "\ud83d broken \udc00" * 500,
    "mentions": "<@U123> <#C123|x> <!here|here> @here @channel <@&1234>" * 100,
}


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def need(value: dict[str, Any], required: dict[str, type], optional: dict[str, type] | None = None) -> None:
    types = required | (optional or {})
    assert set(required) <= set(value) <= set(types), sorted(value)
    for name, each in value.items():
        assert isinstance(each, types[name]), (name, each)


def check_slack(path: str, headers: dict[str, str], body: Any) -> None:
    del headers
    assert path == "/services/s3cret"
    need(body, {"text": str, "blocks": list})
    assert 1 <= units(body["text"]) <= 4_000
    assert not re.search("<", body["text"])
    assert 1 <= len(body["blocks"]) <= 50
    for block in body["blocks"]:
        need(block, {"type": str, "text": dict})
        if block["type"] == "header":
            need(block["text"], {"type": str, "text": str}, {"emoji": bool})
            assert block["text"]["type"] == "plain_text"
            assert 1 <= units(block["text"]["text"]) <= 150
        else:
            assert block["type"] == "section"
            need(block["text"], {"type": str, "text": str}, {"verbatim": bool})
            assert block["text"]["type"] == "mrkdwn"
            assert 1 <= units(block["text"]["text"]) <= 3_000
            assert not re.search(r"<(?!https://hourbell\.example/)", block["text"]["text"])
            assert not re.search("&(?!amp;|lt;|gt;)", block["text"]["text"])


def check_mattermost(path: str, headers: dict[str, str], body: Any) -> None:
    del headers
    assert path == "/services/s3cret"
    need(body, {"attachments": list})
    [attachment] = body["attachments"]
    need(attachment, {"fallback": str, "color": str, "title": str, "text": str}, {"title_link": str})
    assert re.fullmatch("#[0-9a-f]{6}", attachment["color"])
    said = attachment["title"] + attachment["text"]
    assert units(said) <= 16_383
    assert not re.search(r"@(all|everyone|channel|here)", said)
    assert "](https://evil" not in said


def check_discord(path: str, headers: dict[str, str], body: Any) -> None:
    del headers
    assert path == "/services/s3cret"
    need(body, {"embeds": list, "allowed_mentions": dict})
    assert body["allowed_mentions"] == {"parse": []}
    [embed] = body["embeds"]
    need(embed, {"title": str, "description": str, "color": int, "timestamp": str}, {"url": str})
    assert 1 <= units(embed["title"]) <= 256
    assert 1 <= units(embed["description"]) <= 4_096
    assert units(embed["title"]) + units(embed["description"]) <= 6_000
    assert "](https://evil" not in embed["description"]
    assert 0 <= embed["color"] <= 0xFFFFFF
    datetime.fromisoformat(embed["timestamp"])


def check_ntfy(path: str, headers: dict[str, str], body: Any) -> None:
    assert path == "/"
    assert headers["authorization"] == f"Bearer {TOKEN}"
    need(
        body,
        {"topic": str, "message": str},
        {"title": str, "priority": int, "tags": list, "click": str, "actions": list},
    )
    assert body["topic"] == "s3cret-topic"
    assert 1 <= body["priority"] <= 5
    assert 1 <= len(body["message"].encode()) <= 4_096
    assert len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()) <= 8_192
    assert 1 <= len(body["title"]) <= 250
    assert all(re.fullmatch("[a-z_]+", tag) for tag in body["tags"])
    assert len(body["actions"]) <= 3
    for action in body["actions"]:
        need(action, {"action": str, "label": str, "url": str})


def check_telegram(path: str, headers: dict[str, str], body: Any) -> None:
    del headers
    assert path == f"/bot{BOT}/sendMessage"
    optional = {"parse_mode": str, "link_preview_options": dict, "message_thread_id": int}
    need(body, {"chat_id": str, "text": str}, optional)
    need(body["link_preview_options"], {}, {"is_disabled": bool})
    assert body["parse_mode"] == "HTML"
    opened: list[str] = []
    for end, tag, _ in re.findall('<(/?)(b|code|a)( href="[^"<>]*")?>', body["text"]):
        assert not end or opened.pop() == tag
        opened += [] if end else [tag]
    assert opened == []
    said = re.sub('<(/?)(b|code|a)( href="[^"<>]*")?>', "", body["text"])
    assert not re.search("[<>]", said)
    assert not re.search("&(?!lt;|gt;|amp;|quot;|#[0-9]+;|#x[0-9a-f]+;)", said)
    assert 1 <= units(unescape(said)) <= 4_096


def check_pagerduty(path: str, headers: dict[str, str], body: Any) -> None:
    del headers
    assert path == "/v2/enqueue"
    required = {"routing_key": str, "event_action": str, "dedup_key": str}
    need(body, required, {"payload": dict, "client": str, "client_url": str, "links": list})
    assert body["routing_key"] == KEY
    assert 1 <= len(body["dedup_key"]) <= 255
    assert len(json.dumps(body).encode()) <= 512 * 1_024
    if body["event_action"] == "resolve":
        return
    assert body["event_action"] == "trigger"
    optional = {"timestamp": str, "component": str, "group": str, "class": str, "custom_details": dict}
    need(body["payload"], {"summary": str, "source": str, "severity": str}, optional)
    assert 1 <= units(body["payload"]["summary"]) <= 1_024
    assert body["payload"]["source"]
    datetime.fromisoformat(body["payload"]["timestamp"])
    assert body["payload"]["severity"] in ("critical", "error", "warning", "info")
    for link in body["links"]:
        need(link, {"href": str}, {"text": str})


def check_alertmanager(path: str, headers: dict[str, str], body: Any) -> None:
    assert path == "/am/api/v2/alerts"
    assert headers["authorization"] == f"Bearer {TOKEN}"
    [alert] = body
    need(alert, {"labels": dict, "annotations": dict, "startsAt": str, "endsAt": str}, {"generatorURL": str})
    assert all(re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name) for name in (*alert["labels"], *alert["annotations"]))
    assert all(isinstance(each, str) and each for each in (*alert["labels"].values(), *alert["annotations"].values()))
    assert alert["labels"]["alertname"].startswith("Hourbell")
    assert datetime.fromisoformat(alert["startsAt"]) <= datetime.fromisoformat(alert["endsAt"])


@dataclass(frozen=True)
class Provider:
    channel: Channel
    config: dict[str, Any]
    path: str
    check: Callable[[str, dict[str, str], Any], None]
    secrets: tuple[str, ...]
    status: int = 200


CHATS = (SlackChannel(), check_slack), (MattermostChannel(), check_mattermost), (DiscordChannel(), check_discord)
PROVIDERS = [
    *(Provider(channel, {}, "/services/s3cret", check, ("s3cret",)) for channel, check in CHATS),
    Provider(RocketChatChannel(), {}, "/services/s3cret", check_mattermost, ("s3cret",)),
    Provider(NtfyChannel(), {"topic": "s3cret-topic", "token": TOKEN}, "/", check_ntfy, ("s3cret-topic", TOKEN)),
    Provider(TelegramChannel(), {"token": BOT, "chat_id": -100123, "thread_id": 7}, "/", check_telegram, (BOT,)),
    Provider(PagerDutyChannel(), {"routing_key": KEY}, "/v2/enqueue", check_pagerduty, (KEY,), 202),
    Provider(AlertmanagerChannel(), {"token": TOKEN}, "/am/", check_alertmanager, (TOKEN,)),
]
every_provider = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.channel.type)


def a_config(provider: Provider, origin: str) -> dict[str, Any]:
    return {"type": provider.channel.type, "url": origin + provider.path, **provider.config}


async def send(
    provider: Provider,
    message: Message = MESSAGE,
    *,
    status: int | None = None,
    said: bytes = b"{}",
    policy: FakeEgressPolicy | None = None,
) -> tuple[Outcome, list[Any]]:
    """Send a message to a receiver that checks it; return the outcome and the bodies."""
    bodies: list[Any] = []
    errors: list[BaseException] = []

    async def answer(talk: Talk) -> None:
        request = await talk.request()
        head, _, body = request.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        bodies.append(json.loads(body))
        try:
            assert (method, headers["content-type"]) == ("POST", "application/json")
            provider.check(path, headers, bodies[-1])
        except AssertionError as error:
            errors.append(error)
        code = status or provider.status
        length = f"Content-Length: {len(said)}\r\n\r\n".encode()
        await talk.say(f"HTTP/1.1 {code} X\r\n".encode() + length + said)

    async with receiving(answer) as receiver:
        transport = make_transport("http", policy or FakeEgressPolicy())
        config = a_config(provider, f"http://hook.example:{receiver.port}")
        try:
            outcome = await deliver(provider.channel, config, transport, message)
        finally:
            await transport.close()
    for error in errors:
        raise error
    return outcome, bodies


def about(event: Event, **more: Any) -> Message:
    assert MESSAGE.incident is not None
    return replace(MESSAGE, event=event, incident=replace(MESSAGE.incident, **more))


@every_provider
@pytest.mark.parametrize("event", [event for event in Event if event is not Event.TEST])
async def test_the_provider_accepts_every_event(provider: Provider, event: Event) -> None:
    outcome, bodies = await send(provider, about(event, resolved_at=MESSAGE.at + after(5)))

    assert isinstance(outcome, Succeeded)
    assert len(bodies) == 1


@every_provider
@pytest.mark.parametrize("kind", list(IncidentKind))
async def test_the_provider_accepts_every_kind(provider: Provider, kind: IncidentKind) -> None:
    message = about(Event.OPENED, kind=kind)

    assert isinstance((await send(provider, replace(message, job=None, run=None, links={})))[0], Succeeded)


@every_provider
async def test_the_provider_accepts_a_test(provider: Provider) -> None:
    message = replace(MESSAGE, event=Event.TEST, incident=None, job=None, run=None, links={})

    assert isinstance((await send(provider, message))[0], Succeeded)


@every_provider
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
async def test_values_of_users_are_escaped_and_shortened(provider: Provider, text: str) -> None:
    assert MESSAGE.job is not None
    job = replace(MESSAGE.job, name=text[:100], description=text, words=text, tags=(text,), subject=text)
    message = about(Event.OPENED, error=text, lane=text, jobs=(text,), acknowledged_by=text)
    links = {name: f"https://hourbell.example/{name}s/{'a' * 200}" for name in ("incident", "job", "run")}

    assert isinstance((await send(provider, replace(message, job=job, links=links)))[0], Succeeded)


@every_provider
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
async def test_the_names_of_a_group_are_escaped_and_shortened(provider: Provider, text: str) -> None:
    message = about(Event.OPENED, error=text, lane=text, jobs=(text,) * 10, group_size=1_000)

    assert isinstance((await send(provider, replace(message, job=None, run=None)))[0], Succeeded)


@every_provider
@pytest.mark.parametrize(("status", "is_retried"), [(503, True), (429, True), (400, False), (404, False), (410, False)])
async def test_an_error_is_retried_only_if_that_may_help(provider: Provider, status: int, is_retried: bool) -> None:
    outcome, _ = await send(provider, status=status)

    assert isinstance(outcome, Failed)
    assert (outcome.retryable, outcome.pauses_job) == (is_retried, None)


@every_provider
async def test_a_secret_is_sealed_and_never_shown(provider: Provider) -> None:
    stored, sealed = a_channel(provider.channel, a_config(provider, "https://hook.example"))
    outcome, _ = await send(provider, status=500, said=" ".join(provider.secrets).encode())

    assert len(sealed) == len(provider.secrets)
    assert stored.origin == "https://hook.example:443"
    for secret in provider.secrets:
        assert secret not in repr(stored)
        assert secret not in repr(outcome)


@every_provider
async def test_the_egress_policy_applies(provider: Provider) -> None:
    policy = FakeEgressPolicy()
    policy.forbidden.add(LOOPBACK)

    outcome, bodies = await send(provider, policy=policy)

    assert isinstance(outcome, Failed)
    assert (outcome.begun, bodies) == (False, [])


@every_provider
def test_all_errors_of_a_configuration_are_reported_at_once(provider: Provider) -> None:
    wrong = dict.fromkeys(provider.config, "not valid")
    config = {"type": provider.channel.type, "url": "ftp://s3cret", "urll": 1, **wrong}

    with pytest.raises(BodyError) as refused:
        provider.channel.parse(config)

    assert {error.pointer for error in refused.value.errors} == {"/urll", "/url", *(f"/{name}" for name in wrong)}
    secrets = [error for error in refused.value.errors if error.pointer not in ("/chat_id", "/thread_id")]
    assert "s3cret" not in str(secrets)


async def test_telegram_says_how_long_to_wait() -> None:
    provider = next(each for each in PROVIDERS if each.channel.type == "telegram")

    outcome, _ = await send(provider, status=429, said=b'{"ok": false, "parameters": {"retry_after": 35}}')

    assert isinstance(outcome, Failed)
    assert outcome.retry_after is not None
    assert outcome.retry_after.total_seconds() == 35


@pytest.mark.parametrize("kind", ["pagerduty", "alertmanager"])
async def test_the_end_has_the_identity_of_the_beginning(kind: str) -> None:
    provider = next(each for each in PROVIDERS if each.channel.type == kind)

    _, [opened] = await send(provider, about(Event.OPENED))
    _, [resolved] = await send(provider, replace(about(Event.RESOLVED, resolved_at=MESSAGE.at), job=None, run=None))

    if kind == "pagerduty":
        assert (opened["event_action"], resolved["event_action"]) == ("trigger", "resolve")
        assert opened["dedup_key"] == resolved["dedup_key"]
    else:
        assert opened[0]["labels"] == resolved[0]["labels"]
        assert resolved[0]["endsAt"] < opened[0]["endsAt"]
