"""The webhook channel: what it sends, how it is signed, and what comes of it."""

import json
from dataclasses import replace
from typing import Any

import pytest
import standardwebhooks

from hourbell.core.access.signing import new_secret
from hourbell.core.alerts.channel import StoredChannel
from hourbell.core.alerts.message import Message
from hourbell.core.run.settle import Failed, Succeeded, Unstarted
from hourbell.core.values.field_errors import BodyError
from hourbell.targets.channel.ntfy import NtfyChannel
from hourbell.targets.channel.target import ChannelTarget
from hourbell.targets.channel.webhook import WebhookChannel
from hourbell.targets.http.transport import TransportError
from tests.targets.channel.steps import KEYS, MESSAGE, a_channel, a_notification, deliver
from tests.targets.http.steps import ScriptedTransport, answer

pytestmark = pytest.mark.anyio
SECRET = new_secret(b"s" * 32)
CONFIG = {"type": "webhook", "url": "https://example.com/alerts", "secret": SECRET}


async def test_the_body_is_the_message_and_its_id_is_the_same_on_every_attempt() -> None:
    transport = ScriptedTransport()

    outcome = await deliver(WebhookChannel(), CONFIG, transport, attempt=3)

    assert isinstance(outcome, Succeeded)
    assert Message.from_json(json.loads(transport.requests[0].body)) == MESSAGE
    assert transport.headers["webhook-id"] == transport.headers["idempotency-key"] == MESSAGE.id


async def test_the_public_library_makes_the_same_signature() -> None:
    transport = ScriptedTransport()

    await deliver(WebhookChannel(), CONFIG, transport)

    hook = standardwebhooks.Webhook(SECRET)
    signed = {name: transport.headers[name] for name in ("webhook-id", "webhook-timestamp", "webhook-signature")}
    assert signed["webhook-signature"].startswith("v1,")
    assert (
        hook.sign(signed["webhook-id"], MESSAGE.at, transport.requests[0].body.decode()) in signed["webhook-signature"]
    )


@pytest.mark.parametrize(
    ("said", "is_retried"),
    [(answer(503), True), (answer(429), True), (answer(404), False), (answer(410), False)],
)
async def test_a_receiver_that_refuses_is_asked_again_only_if_that_may_help(said: Any, is_retried: bool) -> None:
    outcome = await deliver(WebhookChannel(), CONFIG, ScriptedTransport(said))

    assert isinstance(outcome, Failed)
    assert (outcome.retryable, outcome.pauses_job) == (is_retried, None)


async def test_a_receiver_that_does_not_answer_is_asked_again() -> None:
    outcome = await deliver(WebhookChannel(), CONFIG, ScriptedTransport(TransportError("no answer", begun=True)))

    assert outcome == Failed("no answer", begun=True, answer=outcome.answer)  # type: ignore[union-attr]


async def test_a_node_that_lost_the_notification_sends_nothing() -> None:
    transport = ScriptedTransport()

    async def no() -> bool:
        return False

    assert isinstance(await deliver(WebhookChannel(), CONFIG, transport, begin=no), Unstarted)
    assert transport.requests == []


async def test_a_deleted_channel_sends_nothing_any_more() -> None:
    transport = ScriptedTransport()

    async def find(_: str) -> StoredChannel | None:
        return None

    target = ChannelTarget([WebhookChannel()], find, transport, keys=KEYS, user_agent="Hourbell/1")
    outcome = await target.deliver(a_notification())

    assert isinstance(outcome, Failed)
    assert not outcome.retryable
    assert transport.requests == []


def test_the_secret_is_not_in_what_is_stored_in_the_clear() -> None:
    stored, [sealed] = a_channel(WebhookChannel(), CONFIG)

    assert SECRET not in repr(stored)
    assert KEYS.open(sealed).reveal() == SECRET


def test_all_errors_of_a_configuration_are_reported_at_once() -> None:
    with pytest.raises(BodyError) as refused:
        WebhookChannel().parse({"type": "webhook", "url": "ftp://x", "secret": "short", "urll": 1})

    assert [error.pointer for error in refused.value.errors] == ["/urll", "/url", "/secret"]
    assert "short" not in str(refused.value.errors)


async def test_a_token_goes_only_to_the_origin_it_was_set_for() -> None:
    transport, channel = ScriptedTransport(), NtfyChannel()
    config = {"type": "ntfy", "topic": "s3cret", "token": "tk_s3cret", "url": "https://ntfy.example"}
    stored, secrets = a_channel(channel, config)
    moved = replace(stored, config={**stored.config, "url": "https://evil.example"})  # as plain SQL may write it

    async def find(name: str) -> StoredChannel | None:
        return moved if name == moved.name else None

    target = ChannelTarget([channel], find, transport, keys=KEYS, user_agent="Hourbell/1")
    outcome = await target.deliver(a_notification(MESSAGE, secrets))

    assert isinstance(outcome, Failed)
    assert outcome.error == "the channel has no topic; create it again"
    assert transport.requests == []
